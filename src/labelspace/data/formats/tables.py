"""Tables of examples (JSON lines, CSV, TSV, Parquet, tables in memory), whole or in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.data.columns import Columns
from labelspace.data.dataset import Dataset
from labelspace.data.formats import arrow_batches, delimited, frames, json_lines, parquet
from labelspace.data.gatherer import Gatherer
from labelspace.data.options import ReadOptions
from labelspace.data.rows import RowParser
from labelspace.data.streamed_texts import StreamedTexts
from labelspace.data.vocabulary import Vocabulary
from labelspace.errors import DataError

IN_MEMORY = "memory"
TABLE_FORMATS = ("jsonl", "json", "csv", "tsv", "parquet", IN_MEMORY)

_READ_BY_ROWS = ("jsonl", "csv", "tsv", "parquet")  # files of which one row at a time is in memory
_ROWS_AHEAD = 1000  # in which a column that the user named must occur

Record = tuple[int, dict[str, Any]]


class Table:
    """A table, which is read once: whole or in batches."""

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
        vocabulary = Vocabulary(names, options.unknown_labels, path)
        limit = options.most_letters if kind in _READ_BY_ROWS else None
        self._gatherer = Gatherer(parser, vocabulary, limit)
        self._source, self._kind = source, kind
        self._sort_names = names is None

    def read(self) -> Dataset:
        """Return all rows; labels are sorted by name where no names were given."""
        self._gatherer.parser.whole = True
        for _ in self._fill(None):
            pass
        keeps_texts = self._gatherer.keeps_texts
        dataset = self._gatherer.take()
        parser = self._gatherer.parser
        if parser.has_text and not keeps_texts:
            again = partial(_texts, self._source, self._kind, parser.columns)
            dataset = replace(dataset, texts=StreamedTexts(parser.source, again, len(dataset)))
        if self._sort_names:
            dataset = _with_sorted_names(dataset)
        return replace(dataset, taxonomy=self._gatherer.taxonomy(dataset.names()))

    def batches(self, size: int) -> Iterator[Dataset]:
        """Yield `size` rows at a time; the label names grow where none were given."""
        for _ in self._fill(size):
            yield self._gatherer.take(row_numbers=True)
        if len(self._gatherer):
            yield self._gatherer.take(row_numbers=True)

    def _fill(self, size: int | None) -> Iterator[None]:
        """Add all rows to the gatherer; yield whenever it holds `size` of them."""
        source, kind, parser = self._source, self._kind, self._gatherer.parser
        if kind == "parquet":
            errors = partial(parquet.parquet_errors, source)
            yield from self._fill_from_arrow(parquet.batches(parser), errors, size)
        elif kind == IN_MEMORY and frames.is_arrow(source):
            batches = frames.batches(source, parser)
            yield from self._fill_from_arrow(batches, frames.arrow_errors, size)
        else:
            for line, record in _records(source, kind, parser):
                self._gatherer.add(line, record)
                if len(self._gatherer) == size:
                    yield
        if not self._gatherer.rows:
            what = "table" if kind == IN_MEMORY else "file"
            raise DataError(f"there are no examples in this {what}", path=parser.source)
        self._gatherer.report()

    def _fill_from_arrow(
        self,
        batches: Iterator[Any],
        errors: Callable[[], AbstractContextManager[None]],
        size: int | None,
    ) -> Iterator[None]:
        gatherer = self._gatherer
        for batch in batches:
            start = 0
            while start < batch.num_rows:
                # Label names grow from batch to batch, so none may be added ahead of its rows.
                end = batch.num_rows if size is None else start + size - len(gatherer)
                part = batch.slice(start, end - start)
                if not arrow_batches.add_batch(gatherer, part):
                    with errors():
                        records = part.to_pylist()
                    for line, record in enumerate(records, gatherer.rows + 1):
                        gatherer.add(line, record)
                start = end
                if len(gatherer) == size:
                    yield


def _texts(source: Path, kind: str, columns: Columns) -> Iterator[str]:
    """Yield the texts of a file that was read before, one per row."""
    parser = RowParser(columns, source, kind in delimited.DELIMITERS, require_labels=False)
    if kind != "parquet":
        for line, record in _records(source, kind, parser):
            yield parser.text(record, line)
        return
    parser.columns = Columns(text=columns.text, labels=(), id=None)
    first = 1
    for batch in parquet.batches(parser):
        texts = arrow_batches.texts_of(batch, columns.text)
        if texts is None:
            with parquet.parquet_errors(source):
                records = batch.to_pylist()
            texts = [parser.text(record, row) for row, record in enumerate(records, first)]
        first += batch.num_rows
        yield from texts


def _with_sorted_names(dataset: Dataset) -> Dataset:
    """Number the labels by name, so that ids do not depend on the order of the rows."""
    names = dataset.names()
    order = np.array(sorted(range(len(names)), key=names.__getitem__), np.int64)
    new_id = np.empty(len(names), np.int32)
    new_id[order] = np.arange(len(names), dtype=np.int32)
    labels = dataset.labels
    labels = csr_matrix((labels.data, new_id[labels.indices], labels.indptr), shape=labels.shape)
    labels.sort_indices()
    return replace(dataset, labels=labels, label_names=tuple(names[i] for i in order))


def _records(source: Any, kind: str, parser: RowParser) -> Iterator[Record]:
    """Return the rows of a table that is not Arrow data."""
    if kind == IN_MEMORY:
        return _settled(enumerate(frames.dictionaries(source), 1), parser)
    if kind == "jsonl":
        return _settled(json_lines.line_records(parser), parser)
    if kind == "json":
        return _settled(json_lines.array_records(parser), parser)
    return delimited.records(parser, kind)


def _settled(records: Iterator[Record], parser: RowParser) -> Iterator[Record]:
    """Yield rows that each have their own fields; require named columns in one of the first.

    Rows are read ahead until every such column was seen, so that no row is passed on before.
    """
    required = set(parser.columns.required(parser.require_labels))
    first: list[Record] = []
    failure: DataError | None = None
    while not required <= parser.present and len(first) < _ROWS_AHEAD:
        try:
            first.append(next(records))
        except StopIteration:
            break
        except DataError as error:
            failure = error
            break
        parser.present.update(first[-1][1])
    if first and failure is None:
        parser.require_named()
    yield from first
    if failure is not None:
        raise failure
    for line, record in records:
        parser.present.update(record)
        yield line, record
    if parser.present:
        parser.require_columns()  # labels may be absent from any row, so only now is it known
