"""Parquet files as Arrow record batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from labelspace.data.rows import RowParser
from labelspace.errors import DataError, MemoryBudgetError

WIDTH_KEY = b"labelspace.n_features"  # in the metadata of a file's schema
BATCH_ROWS, BATCH_BYTES = 4096, 1 << 21  # read at once: fewer rows where these are long

_LEAST_ROW_BYTES = 80  # in memory, of an example with an empty text and no labels


def batches(parser: RowParser) -> Iterator[Any]:
    """Yield record batches of the wanted columns; set which columns and features there are."""
    import pyarrow.parquet as pq

    with (
        parquet_errors(parser.source),
        pq.ParquetFile(parser.source, page_checksum_verification=True) as file,
    ):
        schema = file.schema_arrow
        parser.present.update(schema.names)
        parser.require_columns()
        if parser.whole:
            _refuse_too_many(file.metadata.num_rows, parser.source)
        if parser.n_features is None and WIDTH_KEY in (schema.metadata or {}):
            parser.n_features = int(schema.metadata[WIDTH_KEY])
        wanted = [name for name in schema.names if name in parser.columns.wanted()]
        groups = range(file.metadata.num_row_groups)
        size = sum(file.metadata.row_group(group).total_byte_size for group in groups)
        fitting = BATCH_BYTES * file.metadata.num_rows // max(1, size)
        rows = min(BATCH_ROWS, max(64, fitting))
        yield from file.iter_batches(batch_size=rows, columns=wanted)


@contextmanager
def parquet_errors(path: Path) -> Iterator[None]:
    """Convert the errors of Arrow to a DataError that names the file."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"not a readable Parquet file: {reason}", path=path) from None


def _refuse_too_many(rows: int, path: Path) -> None:
    """Raise if the rows cannot fit into memory: a small file may hold very many equal rows."""
    from labelspace._core.machine import available_bytes, in_words

    needed, free = rows * _LEAST_ROW_BYTES, available_bytes()
    if needed > free:
        raise MemoryBudgetError(
            f"{path}: {rows:,} rows need more than {in_words(needed)} and {in_words(free)} is "
            "available; read a part of them, or in batches"
        )
