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


def columns_and_rows(
    source: Any, wanted: set[str]
) -> tuple[list[str] | None, Iterator[dict[str, Any]]]:
    """Return the names of the columns and the rows; only wanted columns are converted.

    The names are None for dictionaries, of which each may have its own.
    """
    if not _is_arrow(source):
        return None, _dictionaries(source)
    import pyarrow as pa

    with _arrow_errors():
        if not _is_pandas(source):
            reader = pa.RecordBatchReader.from_stream(source)
            return list(reader.schema.names), _arrow_rows(reader, wanted)
        index = [name for name in source.index.names if isinstance(name, str)]
        columns = [name for name in source.columns if name in wanted]
        keep = not wanted.isdisjoint(index)
        table = pa.Table.from_pandas(source[columns], preserve_index=keep)
        names = [str(name) for name in source.columns] + index
        return names, _arrow_rows(table.to_reader(), wanted)


def _arrow_rows(reader: Any, wanted: set[str]) -> Iterator[dict[str, Any]]:
    names = [name for name in reader.schema.names if name in wanted]
    with _arrow_errors():
        for batch in reader:
            chosen = batch.select(names)
            for start in range(0, batch.num_rows, CHUNK_ROWS):
                if names:
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
    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"cannot be converted to Arrow: {reason}", path=NAME) from None
