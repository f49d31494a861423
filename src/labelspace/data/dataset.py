"""The data set that every reader returns: examples, their labels, and the names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeAlias

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.data.label_texts import LabelTexts
from labelspace.data.streamed_texts import taken
from labelspace.data.taxonomy import Taxonomy
from labelspace.errors import DataError

Features: TypeAlias = csr_matrix | np.ndarray
IntArray = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Examples with their labels.

    Parameters
    ----------
    labels : csr_matrix of shape (n_examples, n_labels)
        float32 ones, with sorted indices and without duplicates.
    features : csr_matrix or ndarray of shape (n_examples, n_features), optional
        float32; None where the examples are text only.
    texts : sequence of str, optional
        One text per example; `StreamedTexts` where they are left in their file.
    label_names : sequence of str, optional
        One name per label; None where the file has numbers only.
    ids : sequence of str or int, optional
        One id per example; a table's row without an id has its number, from 1.
    taxonomy : Taxonomy, optional
        The hierarchy of the labels.
    source : str, default ""
        The file, for messages.
    index_base : int, optional
        The number of the first feature in the svmlight file that was read, 0 or 1.
    number_names : sequence of str, optional
        The numeric columns of a table that became dense features. Such features are scaled before
        training and may hold NaN for missing values. None: features of any other kind.
    label_texts : LabelTexts, optional
        Names, alternative names and descriptions of the labels, in their order.

    Raises
    ------
    DataError
        If the sizes do not agree.

    Examples
    --------
    >>> from scipy.sparse import csr_matrix
    >>> from labelspace.data import Dataset
    >>> Dataset(csr_matrix([[1.0, 0.0], [1.0, 1.0]]), texts=["one", "two"])
    Dataset(2 examples, 2 labels, texts)
    """

    labels: csr_matrix
    features: Features | None = None
    texts: Sequence[str] | None = None
    label_names: Sequence[str] | None = None
    ids: Sequence[str | int] | None = None
    taxonomy: Taxonomy | None = None
    source: str = ""
    index_base: int | None = None
    number_names: Sequence[str] | None = None
    label_texts: LabelTexts | None = None

    def __post_init__(self) -> None:
        n, n_labels = self.labels.shape
        counts = {
            "features": None if self.features is None else self.features.shape[0],
            "texts": None if self.texts is None else len(self.texts),
            "ids": None if self.ids is None else len(self.ids),
        }
        for what, count in counts.items():
            if count is not None and count != n:
                raise DataError(f"{count} {what} for {n} rows of labels", path=self.source or None)
        if self.label_names is not None and len(self.label_names) != n_labels:
            raise DataError(
                f"{len(self.label_names)} label names for {n_labels} labels",
                path=self.source or None,
            )
        if self.label_texts is not None and not self._in_order(self.label_texts):
            message = "label_texts are not in the order of the labels; use label_texts.aligned"
            raise DataError(message, path=self.source or None)
        if self.number_names is not None and len(self.number_names) != (self.n_features or 0):
            raise DataError(
                f"{len(self.number_names)} names of numeric columns for {self.n_features} features",
                path=self.source or None,
            )

    def _in_order(self, texts: LabelTexts) -> bool:
        # The same tuple in all batches of a set, so that names are compared once.
        return texts.ids is self.label_names or list(texts.ids) == self.names()

    def __len__(self) -> int:
        return int(self.labels.shape[0])

    def __repr__(self) -> str:
        parts = [f"{len(self):,} examples", f"{self.n_labels:,} labels"]
        if self.texts is not None:
            parts.append("texts")
        if self.features is not None:
            parts.append(f"{self.n_features:,} features")
        if self.taxonomy is not None:
            parts.append(f"{len(self.taxonomy.edges):,} taxonomy edges")
        if self.label_texts is not None:
            parts.append("label texts")
        if self.source:
            parts.append(f"source={self.source!r}")
        return f"Dataset({', '.join(parts)})"

    @property
    def n_labels(self) -> int:
        """Return the number of labels."""
        return int(self.labels.shape[1])

    @property
    def n_features(self) -> int | None:
        """Return the number of features, None if there are none."""
        return None if self.features is None else int(self.features.shape[1])

    def names(self) -> list[str]:
        """Return the label names, or the label ids as text if there are no names."""
        if self.label_names is not None:
            return list(self.label_names)
        return [str(i) for i in range(self.n_labels)]

    def take(self, rows: IntArray) -> Dataset:
        """Return the examples at these rows, with all label names and the whole taxonomy."""
        return replace(
            self,
            labels=self.labels[rows],
            features=None if self.features is None else self.features[rows],
            texts=None if self.texts is None else taken(self.texts, rows),
            ids=None if self.ids is None else [self.ids[i] for i in rows],
        )

    def batches(self, size: int) -> Iterator[Dataset]:
        """Yield the examples in order, `size` at a time."""
        texts = None if self.texts is None else iter(self.texts)
        without = replace(self, texts=None)
        for start in range(0, len(self), size):
            batch = without.take(np.arange(start, min(start + size, len(self))))
            yield batch if texts is None else replace(batch, texts=list(islice(texts, size)))

    def split(self, fraction: float, seed: int = 0) -> tuple[Dataset, Dataset]:
        """Split at random into (rest, cut); the cut holds about `fraction` of the examples."""
        order = np.random.default_rng(seed).permutation(len(self))
        size = min(max(1, round(fraction * len(self))), max(0, len(self) - 1))
        return self.take(np.sort(order[size:])), self.take(np.sort(order[:size]))
