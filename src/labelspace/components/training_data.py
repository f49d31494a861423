"""What a method is trained on after all checks, and the size of it for estimates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.data.dataset import Features

if TYPE_CHECKING:
    from labelspace.data.taxonomy import Taxonomy
    from labelspace.runs.callbacks import Callback

PAIRED = 100  # labels of an example that a label graph takes pairs of, at most


@dataclass(frozen=True)
class TrainingData:
    """What `fit` hands to a method after all checks."""

    X: Features
    Y: csr_matrix
    valid: tuple[Features, csr_matrix] | None
    taxonomy: Taxonomy | None
    callbacks: Sequence[Callback]
    identity: str


@dataclass(frozen=True)
class Shape:
    """The size of a job, for memory estimates before anything is allocated.

    common_features  that more than half of the examples have
    label_pairs      sum over the examples of their number of labels squared, with at most
                     PAIRED labels of an example; 0: unknown
    labels_with_examples  labels that some example has; 0: unknown
    """

    points: int
    features: int
    labels: int
    feature_nnz: int
    label_nnz: int
    common_features: int = 0
    label_pairs: int = 0
    labels_with_examples: int = 0

    @classmethod
    def of(cls, X: Features, Y: csr_matrix) -> Shape:
        """The shape of these data, found without allocating more than the data take."""
        if isinstance(X, np.ndarray):
            counts = np.count_nonzero(X, axis=0)
        elif X.shape[1] <= X.nnz:
            counts = np.bincount(X.indices, minlength=X.shape[1])
        else:  # a file may claim any number of features
            counts = np.unique(X.indices, return_counts=True)[1]
        labels = np.minimum(np.diff(Y.indptr), PAIRED).astype(np.int64)
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
        """Labels that some example has, as far as this is known."""
        return self.labels_with_examples or self.labels

    @property
    def data_bytes(self) -> int:
        """Bytes of the features and labels as CSR, which is what a copy of them takes."""
        return 8 * (self.feature_nnz + self.label_nnz) + 16 * self.points

    def cooccurrences(self) -> int:
        """Pairs of labels, each with itself included, that occur together: an upper bound."""
        mean = self.label_nnz / max(1, self.points)
        # Where nothing is known of single examples, as many labels as in a geometric distribution.
        pairs = self.label_pairs or self.label_nnz * min(float(PAIRED), 2 * mean + 1)
        return int(min(pairs + self.labels, float(self.labels) ** 2))
