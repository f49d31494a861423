"""Tables of examples: JSON lines, CSV, TSV and Parquet in; JSON lines and Parquet out.

Readers yield (line, record) pairs one by one; columns.py turns the records into a Dataset.
"""

from __future__ import annotations

import codecs
import csv
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.data import frames
from labelspace.data._files import PathLike, opened, replacing
from labelspace.data.columns import (
    FEATURE_INDICES,
    FEATURE_VALUES,
    FEATURES,
    Columns,
    Gatherer,
    RowParser,
)
from labelspace.data.dataset import Dataset
from labelspace.data.vocabulary import UNKNOWN_LABELS, Vocabulary
from labelspace.errors import DataError, ParameterError

IN_MEMORY = "memory"
TABLE_FORMATS = ("jsonl", "csv", "tsv", "parquet", IN_MEMORY)

_WIDTH_KEY = b"labelspace.n_features"  # in a Parquet file's schema metadata
_CHUNK_ROWS = 4096
_CELL_LIMIT = 2**31 - 1
_DELIMITERS = {"csv": ",", "tsv": "\t"}

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
            cells_are_text=kind in _DELIMITERS,
            require_labels=options.require_labels,
            n_features=options.n_features,
        )
        self._gatherer = Gatherer(parser, Vocabulary(names, options.unknown_labels, path))
        self._records = _records(source, kind, parser)
        self._sort_names = names is None

    def read(self) -> Dataset:
        """All rows; the labels are in the order of their names where none were given."""
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
                yield self._gatherer.take()
        self._gatherer.report()
        if len(self._gatherer):
            yield self._gatherer.take()


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


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(line number, text with its line break) of a UTF-8 file."""
    with opened(path) as stream:
        for number, raw in enumerate(stream, 1):
            line = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as error:
                column = len(line[: error.start].decode("utf-8")) + 1
                raise DataError(
                    f"byte 0x{line[error.start]:02x} is not UTF-8; save the file as UTF-8",
                    path=path,
                    line=number,
                    column=column,
                ) from None
            yield number, text


def read_names(path: Path) -> list[str]:
    """Label names, one a line, in the order of their numbers."""
    lines: dict[str, int] = {}
    for line, text in text_lines(path):
        name = text.rstrip("\r\n")
        if not name:
            raise DataError("a label name is empty", path=path, line=line)
        if name in lines:
            message = f"{name!r} is already the name on line {lines[name]}; names must differ"
            raise DataError(message, path=path, line=line)
        lines[name] = line
    return list(lines)


def _records(source: Any, kind: str, parser: RowParser) -> Iterator[Record]:
    """The rows of a table; fills in which columns it has."""
    if kind == IN_MEMORY:
        records = _frame_records(source, parser)
    elif kind == "parquet":
        records = _parquet_records(parser)
    elif kind == "jsonl":
        records = _json_records(parser)
    else:
        records = _csv_records(parser, _DELIMITERS[kind])
    empty = True
    for record in records:
        empty = False
        yield record
    if empty:
        what = "table" if kind == IN_MEMORY else "file"
        raise DataError(f"there are no examples in this {what}", path=parser.source)


def _json_records(parser: RowParser) -> Iterator[Record]:
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    for line, text in text_lines(parser.source):
        if not text.strip():
            continue
        record = _decode(decoder, text.rstrip("\r\n"), parser.source, line)
        parser.present.update(record)
        yield line, record
    if parser.present:
        parser.require_columns()  # a field may be absent from any row, so only now is it known


def _decode(decoder: json.JSONDecoder, text: str, path: Path, line: int) -> dict[str, Any]:
    column = None
    try:
        record = decoder.decode(text)
        if isinstance(record, dict):
            if "\\ud" in text or "\\uD" in text:
                json.dumps(record, ensure_ascii=False).encode("utf-8")
            return record
        problem = "each line must be an object in braces"
    except json.JSONDecodeError as error:
        problem, column = f"not valid JSON ({error.msg.lower()})", error.pos + 1
    except UnicodeEncodeError:
        problem = "half of a \\u surrogate pair, which is no character"
    except (ValueError, RecursionError) as error:
        problem = f"not valid JSON ({error})"
    message = f'{problem}; expected {{"text": "...", "labels": ["...", ...]}} on one line'
    raise DataError(message, path=path, line=line, column=column)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _csv_records(parser: RowParser, delimiter: str) -> Iterator[Record]:
    csv.field_size_limit(_CELL_LIMIT)  # the default, 128 KB, is less than a long document
    reader = csv.reader(_lines_without_nul(parser.source), delimiter=delimiter, strict=True)
    header: list[str] | None = None
    for line, cells in _csv_rows(reader, parser.source):
        if header is None:
            header = cells
            twice = {name for name in header if name and header.count(name) > 1}
            if twice:
                message = f"the header names a column twice: {', '.join(sorted(twice))}"
                raise DataError(message, path=parser.source, line=line)
            parser.present.update(header)
            parser.require_columns()
        elif len(cells) != len(header):
            message = f"{len(cells)} cells where the header has {len(header)} columns"
            raise DataError(
                f"{message}; put quotes around cells that hold {delimiter!r}",
                path=parser.source,
                line=line,
            )
        else:
            yield line, {name: cell or None for name, cell in zip(header, cells, strict=True)}


def _csv_rows(reader: Any, path: Path) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not blank, each with the line on which it begins."""
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataError(
                f"a row that begins here is broken: {error}", path=path, line=line
            ) from None
        if cells:
            yield line, cells


def _lines_without_nul(path: Path) -> Iterator[str]:
    for line, text in text_lines(path):
        if "\0" in text:
            message = "a NUL byte; this is no text file, or a damaged one"
            raise DataError(message, path=path, line=line, column=text.index("\0") + 1)
        yield text


def _parquet_records(parser: RowParser) -> Iterator[Record]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(parser.source, page_checksum_verification=True) as file:
            schema = file.schema_arrow
            parser.present.update(schema.names)
            parser.require_columns()
            if parser.n_features is None and _WIDTH_KEY in (schema.metadata or {}):
                parser.n_features = int(schema.metadata[_WIDTH_KEY])
            wanted = [name for name in schema.names if name in parser.columns.wanted()]
            row = 0
            for batch in file.iter_batches(batch_size=_CHUNK_ROWS, columns=wanted):
                for record in batch.to_pylist():
                    row += 1
                    yield row, record
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"not a readable Parquet file: {error}", path=parser.source) from None


def _frame_records(source: Any, parser: RowParser) -> Iterator[Record]:
    names = frames.column_names(source)
    if names is not None:
        parser.present.update(names)
        parser.require_columns()
    for row, record in enumerate(frames.rows(source, parser.columns.wanted()), 1):
        if names is None:
            parser.present.update(record)
        yield row, record
    if names is None and parser.present:
        parser.require_columns()


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
            chunk["id"] = list(dataset.ids[rows])
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
