"""Writes JSON lines and Parquet."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.streams import replacing
from labelspace.data.columns import FEATURE_INDICES, FEATURE_VALUES, FEATURES
from labelspace.data.dataset import Dataset
from labelspace.data.formats.parquet import WIDTH_KEY
from labelspace.errors import DataError

_CHUNK_ROWS = 4096


def write_jsonl(dataset: Dataset, path: Path, before: Callable[[], object] | None = None) -> None:
    """Write one object per line: id, text, labels, features ({index: value}), if present."""
    with _refusing_what_utf8_cannot_hold(path), replacing(path, before) as stream:
        for chunk in _chunks(dataset, path):
            for values in zip(*chunk.values(), strict=True):
                record = dict(zip(chunk, values, strict=True))
                if FEATURE_INDICES in record:
                    pairs = zip(
                        record.pop(FEATURE_INDICES), record.pop(FEATURE_VALUES), strict=True
                    )
                    record[FEATURES] = {str(index): value for index, value in pairs}
                stream.write((json.dumps(record, ensure_ascii=False) + "\n").encode("utf-8"))


def write_parquet(dataset: Dataset, path: Path, before: Callable[[], object] | None = None) -> None:
    """Write the columns id, text, labels, feature_indices and feature_values, if present."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {
        "id": pa.string() if dataset.ids is not None else None,
        "text": pa.large_string() if dataset.texts is not None else None,
        "labels": pa.list_(pa.string()),
        FEATURE_INDICES: pa.list_(pa.int32()) if dataset.features is not None else None,
        FEATURE_VALUES: pa.list_(pa.float32()) if dataset.features is not None else None,
    }
    schema = pa.schema([(name, kind) for name, kind in types.items() if kind is not None])
    if dataset.features is not None:
        schema = schema.with_metadata({WIDTH_KEY: str(dataset.n_features)})
    with (
        _refusing_what_utf8_cannot_hold(path),
        replacing(path, before) as stream,
        pq.ParquetWriter(stream, schema, write_page_checksum=True) as writer,
    ):
        for chunk in _chunks(dataset, path):
            writer.write_batch(pa.RecordBatch.from_pydict(chunk, schema))


def _chunks(dataset: Dataset, path: Path) -> Iterator[dict[str, list[Any]]]:
    """Yield the columns of a few thousand rows at a time, as plain lists."""
    names = dataset.names()
    for start in range(0, len(dataset), _CHUNK_ROWS):
        rows = slice(start, start + _CHUNK_ROWS)
        chunk: dict[str, list[Any]] = {}
        if dataset.ids is not None:
            # A row number is not an id: it would be another one in another file.
            chunk["id"] = [each if isinstance(each, str) else None for each in dataset.ids[rows]]
        if dataset.texts is not None:
            chunk["text"] = list(dataset.texts[rows])
        labels = dataset.labels[rows]
        chunk["labels"] = _by_row([names[i] for i in labels.indices.tolist()], labels)
        if dataset.features is not None:
            features = csr_matrix(dataset.features[rows])
            if not np.isfinite(features.data).all():
                raise DataError("the features hold NaN or infinity; not written", path=path)
            # str() of a float32 has the fewest digits that give the same float32 again.
            values = [float(str(value)) for value in features.data.astype(np.float32)]
            chunk[FEATURE_INDICES] = _by_row(features.indices.tolist(), features)
            chunk[FEATURE_VALUES] = _by_row(values, features)
        yield chunk


def _by_row(entries: list[Any], matrix: csr_matrix) -> list[list[Any]]:
    ends = matrix.indptr.tolist()
    return [entries[start:end] for start, end in pairwise(ends)]


@contextmanager
def _refusing_what_utf8_cannot_hold(path: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeEncodeError as error:
        broken = error.object[max(0, error.start - 20) : error.end]
        raise DataError(f"not written: {broken!a} holds no valid text", path=path) from None
