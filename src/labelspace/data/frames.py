"""Tables in memory: DataFrames through the Arrow interface, and lists of dictionaries."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from labelspace.errors import DataError, ParameterError

NAME = "the table"  # stands where errors name the file
CHUNK_ROWS = 4096


class ArrowTable(Protocol):
    """A pandas (from 2.2) or polars DataFrame, a pyarrow Table, or anything else like them."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> object: ...


Source = str | os.PathLike[str] | ArrowTable | Iterable[Mapping[str, Any]]


def is_path(source: object) -> bool:
    """Tell a file from a table in memory; anything else is a ParameterError."""
    if isinstance(source, str | os.PathLike):
        return True
    if _is_arrow(source) or (
        isinstance(source, Iterable) and not isinstance(source, bytes | Mapping | np.ndarray)
    ):
        return False
    kind = type(source).__name__
    raise ParameterError(f"expected a file, a DataFrame or a list of dictionaries, not {kind}")


def column_names(source: Any) -> list[str] | None:
    """Return the columns of a DataFrame; None for rows, of which each may have its own."""
    if not _is_arrow(source):
        return None
    import pyarrow as pa

    with _arrow_errors():
        if _is_pandas(source):
            index = [name for name in source.index.names if isinstance(name, str)]
            return [str(name) for name in source.columns] + index
        return list(pa.RecordBatchReader.from_stream(source).schema.names)


def rows(source: Any, wanted: set[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows one by one; of a DataFrame only the wanted columns are converted."""
    if not _is_arrow(source):
        yield from _dictionaries(source)
        return
    import pyarrow as pa

    with _arrow_errors():
        if _is_pandas(source):
            columns = [name for name in source.columns if name in wanted]
            index = any(isinstance(name, str) and name in wanted for name in source.index.names)
            reader = pa.Table.from_pandas(source[columns], preserve_index=index).to_reader()
        else:
            reader = pa.RecordBatchReader.from_stream(source)
        kept = [name for name in reader.schema.names if name in wanted]
        for batch in reader:
            chosen = batch.select(kept)
            for start in range(0, batch.num_rows, CHUNK_ROWS):
                if kept:
                    yield from chosen.slice(start, CHUNK_ROWS).to_pylist()
                else:
                    yield from ({} for _ in range(min(CHUNK_ROWS, batch.num_rows - start)))


def _dictionaries(source: Iterable[Any]) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(source, 1):
        if not isinstance(row, Mapping):
            message = f"expected a dictionary, found {type(row).__name__}"
            raise DataError(message, path=NAME, line=number)
        yield {str(name): _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    """Turn NumPy values, tuples and sets into what JSON would hold."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    if isinstance(value, tuple):
        return list(value)
    if type(value).__name__ in ("NAType", "NaTType"):  # what pandas puts for a missing value
        return None
    return value


def _is_arrow(source: object) -> bool:
    return hasattr(source, "__arrow_c_stream__") or _is_pandas(source)


def _is_pandas(source: object) -> bool:
    return type(source).__module__.split(".")[0] == "pandas" and hasattr(source, "columns")


@contextmanager
def _arrow_errors() -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except pa.ArrowException as error:
        reason = " ".join(str(error).split())
        raise DataError(f"cannot be converted to Arrow: {reason}", path=NAME) from None
