"""Frequencies of features and labels in the training data, and the defaults chosen by them.

The constants were chosen on hold-outs of bibtex, delicious, debtags, wordnet and tib-gnd;
docs/methods/glas.md has the figures.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.schema import Schema, ints

STEPS_PER_EPOCH = 160  # optimiser steps that an epoch is to have at least, if examples are few
MIN_BATCH_BITS, MAX_BATCH_BITS = 5, 9  # batches of 32 to 512 examples
DAMPING_PER_EXAMPLE = 3.0  # damping, per example that a label has on average
MANY_EXAMPLES = 50  # mean examples per label above which damping grows with its square


def default_batch_size(n_examples: int) -> int:
    """Return a power of two from 32 to 512.

    Few examples get small batches, so that an epoch still has STEPS_PER_EPOCH steps.
    """
    bits = np.floor(np.log2(max(1.0, n_examples / STEPS_PER_EPOCH)))
    return int(2 ** np.clip(bits, MIN_BATCH_BITS, MAX_BATCH_BITS))


def default_damping(label_nnz: int, used_labels: int, *, few_undamped: bool = False) -> float:
    """Return the number of examples below which a feature is damped.

    It is a multiple of the examples that a label has on average, and grows with their square once
    these are many: labels with many examples can be separated by frequent features, labels with few
    need the rare ones. With `few_undamped` it falls with the square as well, so that labels with
    few examples keep all of their rare features.
    """
    mean = label_nnz / max(1, used_labels)
    least = 0.0 if few_undamped else 1.0
    return DAMPING_PER_EXAMPLE * mean * max(least, mean / MANY_EXAMPLES)


@dataclass(frozen=True)
class TrainingCounts:
    """In how many training examples each feature and each label occurs.

    Attributes
    ----------
    features : ndarray of shape (n_features,)
    labels : ndarray of shape (n_labels,)
    examples : ndarray of shape (1,)
        The number of examples.
    """

    features: np.ndarray
    labels: np.ndarray
    examples: np.ndarray

    @classmethod
    def of(cls, X: csr_matrix, Y: csr_matrix) -> TrainingCounts:
        """Count the non-zeros of features and labels."""
        return cls(
            np.bincount(X.indices, minlength=X.shape[1]),
            np.bincount(Y.indices, minlength=Y.shape[1]),
            np.array([X.shape[0]]),
        )

    def plus(self, X: csr_matrix, Y: csr_matrix) -> TrainingCounts:
        """Return the counts with further examples; Y may have more labels."""
        more = TrainingCounts.of(X, Y)
        labels = more.labels.copy()
        labels[: len(self.labels)] += self.labels
        return TrainingCounts(self.features + more.features, labels, self.examples + more.examples)

    def log_odds(self) -> np.ndarray:
        """Return the log odds of each label's frequency, with half an example added."""
        share = (self.labels + 0.5) / (self.examples[0] + 1.0)
        return np.asarray(np.log(share / (1.0 - share)), np.float32)

    def row_lr_scale(self, damping: float | None) -> np.ndarray | None:
        """Return the factor of each feature's learning rate and initial length.

        Parameters
        ----------
        damping : float or None
            The parameter `feature_damping`: factors are sqrt(examples / damping), at most 1.

        Returns
        -------
        ndarray of float32 or None
            None if all factors are 1, which is no damping.
        """
        if not damping:
            return None
        return np.sqrt(np.minimum(1.0, (self.features + 1) / damping)).astype(np.float32)

    @staticmethod
    def schema(prefix: str) -> Schema:
        """Declare the arrays of `state`."""
        return [
            ints(f"{prefix}features", "features"),
            ints(f"{prefix}labels", "labels"),
            ints(f"{prefix}examples", 1),
        ]

    def state(self) -> dict[str, np.ndarray]:
        """Return the counts by name, which the constructor takes."""
        return {"features": self.features, "labels": self.labels, "examples": self.examples}
