"""Collects the examples of a table, one by one or in blocks, into a Dataset."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.data.dataset import Dataset, Features
from labelspace.data.rows import RowParser
from labelspace.data.taxonomy import Taxonomy
from labelspace.data.vocabulary import Vocabulary

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Block:
    """Checked rows as arrays.

    Attributes
    ----------
    ids : list of str or None
        One id per row, None where it is missing.
    texts : list of str
        One text per row.
    names : list of str
        Label names in order of appearance.
    codes : ndarray of shape (n_tokens,)
        The labels of all rows, one row after the other, as positions in `names`.
    counts : ndarray of shape (n_rows,)
        Number of labels per row.
    edges : iterable of (str, str)
        (child, parent) pairs of the category paths.
    indices, values : ndarray
        Sparse features of all rows; with numeric columns, `values` alone.
    feature_counts : ndarray of shape (n_rows,)
        Number of sparse features per row.
    """

    ids: list[str | None]
    texts: list[str]
    names: list[str]
    codes: np.ndarray
    counts: np.ndarray
    edges: Iterable[tuple[str, str]]
    indices: np.ndarray
    values: np.ndarray
    feature_counts: np.ndarray


class Gatherer:
    """Collects examples until `take` returns them as a Dataset."""

    def __init__(
        self, parser: RowParser, vocabulary: Vocabulary, most_letters: int | None = None
    ) -> None:
        self.parser, self.vocabulary = parser, vocabulary
        self.most_letters = most_letters  # of texts in memory; if there are more, none is kept
        self.edges: dict[tuple[str, str], None] = {}
        self.rows = 0
        self.has_ids = False
        self._start_anew()

    def _start_anew(self) -> None:
        self._ids: list[str | None] = []
        self._texts: list[str] = []
        self._letters = 0
        self._labels, self._label_ends = array("i"), array("q", [0])
        self._indices, self._feature_ends = array("i"), array("q", [0])
        self._values = array("f")

    def __len__(self) -> int:
        return len(self._label_ends) - 1

    @property
    def keeps_texts(self) -> bool:
        """Return whether the texts of all rows are in memory."""
        return self.most_letters is None or self._letters <= self.most_letters

    def add(self, line: int, record: dict[str, Any]) -> None:
        """Add one row, given its cells by column name."""
        example = self.parser.example(line, record)
        self.rows += 1
        self.has_ids |= example.id is not None
        self._ids.append(example.id)
        self._keep([example.text])
        self._labels.extend(self.vocabulary.ids((*example.labels, *example.path), line))
        self._label_ends.append(len(self._labels))
        if example.path:
            self.edges.update(dict.fromkeys(zip(example.path[1:], example.path, strict=False)))
        if example.features is not None:
            self._indices.extend(example.features)
            self._values.extend(example.features.values())
        self._feature_ends.append(len(self._indices))
        self._values.extend(example.numbers)

    def add_block(self, block: Block) -> bool:
        """Add all rows of a block; return False, and add none, if a label is an error."""
        occurrences = np.bincount(block.codes, minlength=len(block.names))
        ids = self.vocabulary.ids_of_block(block.names, occurrences)
        if ids is None:
            return False
        labels, counts = _distinct(ids[block.codes], block.counts)
        self.has_ids |= any(each is not None for each in block.ids)
        self._ids += block.ids
        self.rows += len(block.ids)
        self._keep(block.texts)
        self.edges.update(dict.fromkeys(block.edges))
        _append(self._labels, labels)
        _append(self._label_ends, len(self._labels) - len(labels) + np.cumsum(counts))
        _append(self._feature_ends, len(self._indices) + np.cumsum(block.feature_counts))
        _append(self._indices, block.indices)
        _append(self._values, block.values)
        return True

    def _keep(self, texts: list[str]) -> None:
        if self.most_letters is not None:
            self._letters += sum(map(len, texts))
        if self.keeps_texts:
            self._texts += texts
        else:
            self._texts = []

    def take(self, *, row_numbers: bool = False) -> Dataset:
        """Return the examples that were added since the last call.

        An example without an id gets the number of its row, from 1; where no row has an id, there
        are ids only if `row_numbers` is set.
        """
        self.parser.require_content()
        names = self.vocabulary.names()
        ones = np.ones(len(self._labels), np.float32)
        dataset = Dataset(
            labels=_csr(ones, self._labels, self._label_ends, len(names)),
            features=self._features(),
            texts=self._texts if self.parser.has_text and self.keeps_texts else None,
            label_names=names,
            ids=self._numbered_ids() if self.has_ids or row_numbers else None,
            source=str(self.parser.source),
            number_names=self.parser.columns.numbers or None,
        )
        self._start_anew()
        return dataset

    def _numbered_ids(self) -> list[str | int]:
        first = self.rows - len(self) + 1
        return [number if each is None else each for number, each in enumerate(self._ids, first)]

    def _features(self) -> Features | None:
        values = np.array(self._values, np.float32)
        if self.parser.columns.numbers:
            return values.reshape(len(self), len(self.parser.columns.numbers))
        if not self.parser.has_features:
            return None
        width = self.parser.n_features
        if width is None:
            width = int(np.array(self._indices, np.int32).max(initial=-1)) + 1
        return _csr(values, self._indices, self._feature_ends, width)

    def taxonomy(self, label_names: Sequence[str]) -> Taxonomy | None:
        """Return the tree that the category paths form, None if there are no path columns."""
        return Taxonomy.from_names(self.edges, label_names) if self.parser.columns.path else None

    def report(self) -> None:
        """Log what was left out and what was probably misread; to be called once, at the end."""
        parser = self.parser
        if not parser.require_labels:
            return
        notes = {
            "%s: %d unknown labels were dropped": self.vocabulary.dropped,
            "%s: %d category paths were cut at a missing level": parser.path_gaps,
            "%s: %d empty names between separators were left out": parser.empty_names,
        }
        for message, count in notes.items():
            if count:
                logger.warning(message, parser.source, count)
        for column, watch in parser.lone_names.items():
            found = watch.separator()
            if found is not None:
                logger.warning(
                    "%s: each cell of %r was read as one name, and %.0f %% of them hold %r; %s",
                    *(parser.source, column, 100 * found[1], found[0]),
                    parser.separator_advice(column, found[0]),
                )


def _append(buffer: array[Any], values: np.ndarray) -> None:
    """Append numbers to an array buffer, converted to its type."""
    buffer.frombytes(np.ascontiguousarray(values, buffer.typecode).view(np.uint8).data)


def _distinct(ids: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Leave out ids that are -1 or repeated in their row; return ids sorted by row, and counts."""
    rows = np.repeat(np.arange(len(counts)), counts)
    known = ids >= 0
    if not known.all():
        ids, rows = ids[known], rows[known]
        counts = np.bincount(rows, minlength=len(counts))
    within = rows[1:] == rows[:-1]
    if (ids[1:] > ids[:-1])[within].all():
        return ids, counts
    width = int(ids.max()) + 1
    keys = np.sort(rows * width + ids)  # faster than sorting by two keys
    rows, ids = np.divmod(keys[np.diff(keys, prepend=-1) != 0], width)
    return ids, np.bincount(rows, minlength=len(counts))


def _csr(values: np.ndarray, indices: array[int], ends: array[int], width: int) -> csr_matrix:
    shape = (len(ends) - 1, width)
    matrix = csr_matrix(
        (values, np.array(indices, np.int32), np.array(ends, np.int64)), shape=shape
    )
    matrix.sort_indices()
    return matrix
