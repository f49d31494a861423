"""Examples of a table, one by one, into a Dataset."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.data.columns import RowParser
from labelspace.data.dataset import Dataset, Features
from labelspace.data.taxonomy import Taxonomy
from labelspace.data.vocabulary import Vocabulary

logger = logging.getLogger(__name__)


class Gatherer:
    """Examples in, Datasets out; holds no more than what came since the last `take`."""

    def __init__(self, parser: RowParser, vocabulary: Vocabulary) -> None:
        self.parser, self.vocabulary = parser, vocabulary
        self.edges: dict[tuple[str, str], None] = {}
        self.rows = 0
        self.has_ids = False
        self._start_anew()

    def _start_anew(self) -> None:
        self._ids: list[str | int] = []
        self._texts: list[str] = []
        self._labels, self._label_ends = array("i"), array("q", [0])
        self._indices, self._feature_ends = array("i"), array("q", [0])
        self._values = array("f")

    def __len__(self) -> int:
        return len(self._texts)

    def add(self, line: int, record: dict[str, Any]) -> None:
        example = self.parser.example(line, record)
        self.rows += 1
        self.has_ids |= example.id is not None
        self._ids.append(self.rows if example.id is None else example.id)
        self._texts.append(example.text)
        self._labels.extend(self.vocabulary.ids((*example.labels, *example.path), line))
        self._label_ends.append(len(self._labels))
        if example.path:
            self.edges.update(dict.fromkeys(zip(example.path[1:], example.path, strict=False)))
        if example.features is not None:
            self._indices.extend(example.features)
            self._values.extend(example.features.values())
        self._feature_ends.append(len(self._indices))
        self._values.extend(example.numbers)

    def take(self, *, row_numbers: bool = False) -> Dataset:
        """What was added since the last call.

        An example without an id gets the number of its row, from 1; where no row has an id, there
        are ids only if `row_numbers` is set.
        """
        self.parser.require_content()
        names = self.vocabulary.names()
        ones = np.ones(len(self._labels), np.float32)
        dataset = Dataset(
            labels=_csr(ones, self._labels, self._label_ends, len(names)),
            features=self._features(),
            texts=self._texts if self.parser.has_text else None,
            label_names=names,
            ids=self._ids if self.has_ids or row_numbers else None,
            source=str(self.parser.source),
            number_names=self.parser.columns.numbers or None,
        )
        self._start_anew()
        return dataset

    def _features(self) -> Features | None:
        values = np.array(self._values, np.float32)
        if self.parser.columns.numbers:
            return values.reshape(len(self), len(self.parser.columns.numbers))
        if not self.parser.has_features:
            return None
        width = self.parser.n_features
        if width is None:
            width = max(self._indices, default=-1) + 1
        return _csr(values, self._indices, self._feature_ends, width)

    def taxonomy(self, label_names: Sequence[str]) -> Taxonomy | None:
        """The tree that the category paths form."""
        return Taxonomy.from_names(self.edges, label_names) if self.parser.columns.path else None

    def report(self) -> None:
        """Log once, at the end, what was left out and what looks misread."""
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


def _csr(values: np.ndarray, indices: array[int], ends: array[int], width: int) -> csr_matrix:
    shape = (len(ends) - 1, width)
    matrix = csr_matrix(
        (values, np.array(indices, np.int32), np.array(ends, np.int64)), shape=shape
    )
    matrix.sort_indices()
    return matrix
