"""Tables in memory: DataFrames through the Arrow interface, and lists of dictionaries."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from labelspace.data.rows import RowParser
from labelspace.errors import DataError, ParameterError

NAME = "the table"  # in errors, in place of a file
BATCH_ROWS = 4096


class ArrowTable(Protocol):
    """A pandas (from 2.2) or polars DataFrame, a pyarrow Table, or anything else like them."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> object: ...


Source = str | os.PathLike[str] | ArrowTable | Iterable[Mapping[str, Any]]


def is_path(source: object) -> bool:
    """Return whether the source is a file and not a table in memory; raise if it is neither."""
    if isinstance(source, str | os.PathLike):
        return True
    if is_arrow(source) or (
        isinstance(source, Iterable) and not isinstance(source, bytes | Mapping | np.ndarray)
    ):
        return False
    kind = type(source).__name__
    raise ParameterError(f"expected a file, a DataFrame or a list of dictionaries, not {kind}")


def batches(source: Any, parser: RowParser) -> Iterator[Any]:
    """Yield Arrow record batches of the wanted columns of a DataFrame or another Arrow table."""
    wanted = parser.columns.wanted()
    with arrow_errors():
        reader, names = _reader(source, wanted)
    parser.present.update(names)
    parser.require_columns()
    names = [name for name in reader.schema.names if name in wanted]
    with arrow_errors():
        for batch in reader:
            chosen = batch.select(names)
            for start in range(0, batch.num_rows, BATCH_ROWS):
                yield chosen.slice(start, BATCH_ROWS)


def _reader(source: Any, wanted: set[str]) -> tuple[Any, list[str]]:
    """Return a reader of record batches, and the names of all columns."""
    import pyarrow as pa

    if not _is_pandas(source):
        reader = pa.RecordBatchReader.from_stream(source)
        return reader, list(reader.schema.names)
    index = [name for name in source.index.names if isinstance(name, str)]
    columns = [name for name in source.columns if name in wanted]
    keep = not wanted.isdisjoint(index)
    table = pa.Table.from_pandas(source[columns], preserve_index=keep)
    return table.to_reader(), [str(name) for name in source.columns] + index


def dictionaries(source: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a list of dictionaries, with plain Python values."""
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


def is_arrow(source: object) -> bool:
    """Return whether a table in memory is a DataFrame or has the Arrow interface."""
    return hasattr(source, "__arrow_c_stream__") or _is_pandas(source)


def _is_pandas(source: object) -> bool:
    return type(source).__module__.split(".")[0] == "pandas" and hasattr(source, "columns")


@contextmanager
def arrow_errors() -> Iterator[None]:
    """Convert the errors of Arrow to a DataError."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"cannot be converted to Arrow: {reason}", path=NAME) from None
