"""Tables of examples: JSON lines, CSV, TSV and Parquet in; JSON lines and Parquet out.

Readers yield (line, record) pairs one by one; columns.py turns the records into a Dataset.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.streams import PathLike, replacing
from labelspace.data.columns import (
    FEATURE_INDICES,
    FEATURE_VALUES,
    FEATURES,
    Columns,
    RowParser,
)
from labelspace.data.dataset import Dataset
from labelspace.data.formats import delimited, frames
from labelspace.data.formats.text import text_lines
from labelspace.data.gatherer import Gatherer
from labelspace.data.vocabulary import UNKNOWN_LABELS, Vocabulary
from labelspace.errors import DataError, MemoryBudgetError, ParameterError

IN_MEMORY = "memory"
TABLE_FORMATS = ("jsonl", "json", "csv", "tsv", "parquet", IN_MEMORY)

_WIDTH_KEY = b"labelspace.n_features"  # in a Parquet file's schema metadata
_CHUNK_ROWS = 4096
_ROWS_AHEAD = 1000
_LEAST_ROW_BYTES = 80  # in memory, of an example with an empty text and no labels
_ARRAY_START, _ARRAY_NEXT = re.compile(r"\s*\[\s*(?=\{)"), re.compile(r"\s*,\s*(?=\{)")

DEFAULT_COLUMNS = Columns()

Record = tuple[int, dict[str, Any]]


@dataclass(frozen=True)
class ReadOptions:
    """What `read` and `read_split` may be asked for; explained at `read`."""

    columns: Columns = DEFAULT_COLUMNS
    label_names: Sequence[str] | None = None
    unknown_labels: str = "error"
    taxonomy: PathLike | None = "auto"
    cache: bool = False
    require_labels: bool = True
    n_features: int | None = None
    n_labels: int | None = None
    zero_based: bool | Literal["auto"] = "auto"

    def __post_init__(self) -> None:
        if self.unknown_labels not in UNKNOWN_LABELS:
            allowed = ", ".join(UNKNOWN_LABELS)
            raise ParameterError(
                f"unknown_labels={self.unknown_labels!r}: must be one of {allowed}"
            )
        if len(set(self.label_names or ())) != len(self.label_names or ()):
            raise ParameterError("label_names: a name stands there twice, so its id is not clear")

    @property
    def label_count(self) -> int | None:
        """How many labels there must be, as far as the caller says."""
        if self.n_labels is None and self.label_names is not None:
            return len(self.label_names)
        return self.n_labels


class Table:
    """A table, to be read once: whole or in batches."""

    def __init__(self, source: Any, kind: str, options: ReadOptions) -> None:
        names = options.label_names
        path = Path(frames.NAME) if kind == IN_MEMORY else source
        parser = RowParser(
            options.columns,
            path,
            cells_are_text=kind in delimited.DELIMITERS,
            require_labels=options.require_labels,
            n_features=options.n_features,
        )
        self._gatherer = Gatherer(parser, Vocabulary(names, options.unknown_labels, path))
        self._records = _records(source, kind, parser)
        self._sort_names = names is None

    def read(self) -> Dataset:
        """All rows; the labels are in the order of their names where none were given."""
        self._gatherer.parser.whole = True
        for line, record in self._records:
            self._gatherer.add(line, record)
        self._gatherer.report()
        dataset = self._gatherer.take()
        if self._sort_names:
            dataset = _with_sorted_names(dataset)
        return replace(dataset, taxonomy=self._gatherer.taxonomy(dataset.names()))

    def batches(self, size: int) -> Iterator[Dataset]:
        """`size` rows at a time; the label names grow where none were given."""
        for line, record in self._records:
            self._gatherer.add(line, record)
            if len(self._gatherer) == size:
                yield self._gatherer.take(row_numbers=True)
        self._gatherer.report()
        if len(self._gatherer):
            yield self._gatherer.take(row_numbers=True)


def _with_sorted_names(dataset: Dataset) -> Dataset:
    """Label ids that do not hang on the order of the rows."""
    names = dataset.names()
    order = np.array(sorted(range(len(names)), key=names.__getitem__), np.int64)
    new_id = np.empty(len(names), np.int32)
    new_id[order] = np.arange(len(names), dtype=np.int32)
    labels = dataset.labels
    labels = csr_matrix((labels.data, new_id[labels.indices], labels.indptr), shape=labels.shape)
    labels.sort_indices()
    return replace(dataset, labels=labels, label_names=tuple(names[i] for i in order))


# Records in -----------------------------------------------------------------------------------


def _records(source: Any, kind: str, parser: RowParser) -> Iterator[Record]:
    """The rows of a table; fills in which columns it has."""
    if kind == IN_MEMORY:
        records = _frame_records(source, parser)
    elif kind == "parquet":
        records = _parquet_records(parser)
    elif kind == "jsonl":
        records = _settled(_json_records(parser), parser)
    elif kind == "json":
        records = _settled(_array_records(parser), parser)
    else:
        records = delimited.records(parser, kind)
    empty = True
    for record in records:
        empty = False
        yield record
    if empty:
        what = "table" if kind == IN_MEMORY else "file"
        raise DataError(f"there are no examples in this {what}", path=parser.source)


def _settled(records: Iterator[Record], parser: RowParser) -> Iterator[Record]:
    """Rows that each have fields of their own: a column asked for must be in one of the first.

    They are read ahead until every such column was seen, so that no row is passed on before.
    """
    asked = set(parser.columns.asked_for(parser.require_labels))
    first: list[Record] = []
    failure: DataError | None = None
    while not asked <= parser.present and len(first) < _ROWS_AHEAD:
        try:
            first.append(next(records))
        except StopIteration:
            break
        except DataError as error:
            failure = error
            break
        parser.present.update(first[-1][1])
    if first and failure is None:
        parser.require_asked_for()
    yield from first
    if failure is not None:
        raise failure
    for line, record in records:
        parser.present.update(record)
        yield line, record
    if parser.present:
        parser.require_columns()  # labels may be absent from any row, so only now is it known


def _json_records(parser: RowParser) -> Iterator[Record]:
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    for line, text in text_lines(parser.source, parser.columns.encoding):
        if text.strip():
            yield line, _decode(decoder, text.rstrip("\r\n"), parser.source, line)


def _array_records(parser: RowParser) -> Iterator[Record]:
    """The objects of one JSON array, which is read whole."""
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    text = "".join(line for _, line in text_lines(parser.source, parser.columns.encoding))
    position, line, mark = 0, 1, _ARRAY_START
    while found := mark.match(text, position):
        line += text.count("\n", position, found.end())
        position, mark = found.end(), _ARRAY_NEXT
        with _json_errors(parser.source, line):
            record, position = decoder.raw_decode(text, position)
            _check_record(record, text[found.end() : position])
        yield line, record
        line += text.count("\n", found.end(), position)
    if text[position:].strip() != "]":
        message = "expected a comma and another object, or the end of the JSON array"
        raise DataError(message, path=parser.source, line=line)


def _decode(decoder: json.JSONDecoder, text: str, path: Path, line: int) -> dict[str, Any]:
    with _json_errors(path, line):
        record: dict[str, Any] = decoder.decode(text)
        _check_record(record, text)
    return record


def _check_record(record: Any, text: str) -> None:
    if not isinstance(record, dict):
        raise TypeError("each line must be an object in braces")
    if "\\ud" in text or "\\uD" in text:
        json.dumps(record, ensure_ascii=False).encode("utf-8")


@contextmanager
def _json_errors(path: Path, line: int) -> Iterator[None]:
    """Errors of the JSON parser as a DataError; it counts lines from the first of the file."""
    column = None
    try:
        yield
        return
    except json.JSONDecodeError as error:
        problem, column = f"not valid JSON ({error.msg.lower()})", error.colno
        line = error.lineno if error.lineno > 1 else line
    except TypeError as error:
        problem = str(error)
    except UnicodeEncodeError:
        problem = "half of a \\u surrogate pair, which is no character"
    except (ValueError, RecursionError) as error:
        problem = f"not valid JSON ({error})"
    message = f'{problem}; expected {{"text": "...", "labels": ["...", ...]}} on one line'
    raise DataError(message, path=path, line=line, column=column) from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _parquet_records(parser: RowParser) -> Iterator[Record]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(parser.source, page_checksum_verification=True) as file:
            schema = file.schema_arrow
            parser.present.update(schema.names)
            parser.require_columns()
            if parser.whole:
                _refuse_too_many(file.metadata.num_rows, parser.source)
            if parser.n_features is None and _WIDTH_KEY in (schema.metadata or {}):
                parser.n_features = int(schema.metadata[_WIDTH_KEY])
            wanted = [name for name in schema.names if name in parser.columns.wanted()]
            row = 0
            for batch in file.iter_batches(batch_size=_CHUNK_ROWS, columns=wanted):
                for record in batch.to_pylist():
                    row += 1
                    yield row, record
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"not a readable Parquet file: {reason}", path=parser.source) from None


def _refuse_too_many(rows: int, path: Path) -> None:
    """A few bytes of Parquet can stand for very many equal rows."""
    from labelspace._core.machine import available_bytes, in_words

    needed, free = rows * _LEAST_ROW_BYTES, available_bytes()
    if needed > free:
        raise MemoryBudgetError(
            f"{path}: {rows:,} rows need more than {in_words(needed)} and {in_words(free)} is "
            "available; read a part of them, or in batches"
        )


def _frame_records(source: Any, parser: RowParser) -> Iterator[Record]:
    names, rows = frames.columns_and_rows(source, parser.columns.wanted())
    records = enumerate(rows, 1)
    if names is None:
        return _settled(records, parser)
    parser.present.update(names)
    parser.require_columns()
    return records


# Records out ----------------------------------------------------------------------------------


def write_jsonl(dataset: Dataset, path: Path) -> None:
    """One object a line: id, text, labels (names), features ({index: value}), as far as present."""
    with _refusing_what_utf8_cannot_hold(path), replacing(path) as stream:
        for chunk in _chunks(dataset, path):
            for values in zip(*chunk.values(), strict=True):
                record = dict(zip(chunk, values, strict=True))
                if FEATURE_INDICES in record:
                    pairs = zip(
                        record.pop(FEATURE_INDICES), record.pop(FEATURE_VALUES), strict=True
                    )
                    record[FEATURES] = {str(index): value for index, value in pairs}
                stream.write((json.dumps(record, ensure_ascii=False) + "\n").encode("utf-8"))


def write_parquet(dataset: Dataset, path: Path) -> None:
    """Columns id, text, labels, feature_indices and feature_values, as far as present."""
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
        schema = schema.with_metadata({_WIDTH_KEY: str(dataset.n_features)})
    with (
        _refusing_what_utf8_cannot_hold(path),
        replacing(path) as stream,
        pq.ParquetWriter(stream, schema, write_page_checksum=True) as writer,
    ):
        for chunk in _chunks(dataset, path):
            writer.write_batch(pa.RecordBatch.from_pydict(chunk, schema))


def _chunks(dataset: Dataset, path: Path) -> Iterator[dict[str, list[Any]]]:
    """The columns of a few thousand rows at a time, as plain lists."""
    names = dataset.names()
    for start in range(0, len(dataset), _CHUNK_ROWS):
        rows = slice(start, start + _CHUNK_ROWS)
        chunk: dict[str, list[Any]] = {}
        if dataset.ids is not None:
            # A row number is no id: it would be another one in another file.
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
