"""Training data after all checks, and their size for memory estimates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.sparse import as_csr, counts_of, left_columns
from labelspace.data.dataset import Features
from labelspace.features.name_codes import COLUMNS

if TYPE_CHECKING:
    from labelspace.data.taxonomy import Taxonomy
    from labelspace.runs.callbacks import Callback

MAX_PAIRED = 100  # labels per example whose pairs a label graph counts, at most


@dataclass(frozen=True)
class TrainingData:
    """The arguments of `fit` after all checks.

    Attributes
    ----------
    X, Y : features and labels
    valid : pair of features and labels, or None
        Examples to validate on.
    taxonomy : Taxonomy or None
    callbacks : sequence of Callback
    identity : str
        A digest of data and parameters, by which checkpoints are recognised.
    label_names : csr_matrix or None
        Token ids + 1 of the name of each label, for methods that generate names.
    name_matches : bool
        Whether the last columns of X are the match columns of a `NameMatcher` of all labels.
    label_texts : csr_matrix or None
        Features of the labels' texts, a row per label and the columns of X before match columns.
    """

    X: Features
    Y: csr_matrix
    valid: tuple[Features, csr_matrix] | None
    taxonomy: Taxonomy | None
    callbacks: Sequence[Callback]
    identity: str
    label_names: csr_matrix | None = None
    name_matches: bool = False
    label_texts: csr_matrix | None = None

    @property
    def n_text_features(self) -> int:
        """Return the number of columns of X before the match columns."""
        return int(self.X.shape[1]) - (COLUMNS * self.Y.shape[1] if self.name_matches else 0)


@dataclass(frozen=True)
class Shape:
    """The size of training data, for memory estimates before anything is allocated.

    Attributes
    ----------
    points, features, labels : int
        Numbers of examples, features and labels.
    feature_nnz, label_nnz : int
        Non-zeros of the feature matrix and of the label matrix.
    common_features : int
        Features that more than half of the examples have.
    label_pairs : int
        Sum over the examples of their squared number of labels, with at most MAX_PAIRED labels per
        example; 0 if unknown.
    labels_with_examples : int
        Labels that some example has; 0 if unknown.
    match_nnz : int or None
        Non-zeros of the match columns, which are no features here; None without such columns.
    label_text_nnz : int
        Non-zeros of the features of the labels' texts.
    """

    points: int
    features: int
    labels: int
    feature_nnz: int
    label_nnz: int
    common_features: int = 0
    label_pairs: int = 0
    labels_with_examples: int = 0
    match_nnz: int | None = None
    label_text_nnz: int = 0

    @classmethod
    def of(
        cls,
        X: Features,
        Y: csr_matrix,
        name_matches: bool = False,
        label_texts: csr_matrix | None = None,
    ) -> Shape:
        """Return the shape of data without allocating more than these take.

        With `name_matches`, the last columns of X are match columns; `label_texts` are the features
        of the labels' texts.
        """
        if label_texts is not None:
            return replace(cls.of(X, Y, name_matches), label_text_nnz=label_texts.nnz)
        if name_matches:
            given = as_csr(X)
            text = left_columns(given, X.shape[1] - COLUMNS * Y.shape[1])
            return replace(cls.of(text, Y), match_nnz=int(given.nnz - text.nnz))
        if isinstance(X, np.ndarray):
            counts = np.count_nonzero(X, axis=0)
        elif X.shape[1] <= X.nnz:
            counts = counts_of(X.indices, X.shape[1])
        else:  # a file may claim any number of features
            counts = np.unique(X.indices, return_counts=True)[1]
        labels = np.minimum(np.diff(Y.indptr), MAX_PAIRED).astype(np.int64)
        return cls(
            points=X.shape[0],
            features=X.shape[1],
            labels=Y.shape[1],
            feature_nnz=int(counts.sum()),
            label_nnz=Y.nnz,
            common_features=int(np.count_nonzero(counts > X.shape[0] / 2)),
            label_pairs=int(labels @ labels),
            labels_with_examples=len(np.unique(Y.indices)),
        )

    @property
    def used_labels(self) -> int:
        """Return the number of labels that have examples; of all labels if it is not known."""
        return self.labels_with_examples or self.labels

    @property
    def data_bytes(self) -> int:
        """Return the bytes that a copy of features and labels as CSR takes."""
        return 8 * (self.feature_nnz + (self.match_nnz or 0) + self.label_nnz) + 16 * self.points

    def cooccurrences(self) -> int:
        """Return an upper bound of the pairs of labels that occur together, with themselves too."""
        mean = self.label_nnz / max(1, self.points)
        # Without the sum, labels per example are taken to have a geometric distribution.
        pairs = self.label_pairs or self.label_nnz * min(float(MAX_PAIRED), 2 * mean + 1)
        return int(min(pairs + self.labels, float(self.labels) ** 2))
