"""How likely a relevant label is to have been noted down at all, after Jain et al. (KDD 2016).

Rare labels are missed more often than frequent ones. The inverse of a label's propensity is the
weight of a hit on it in the propensity-scored metrics.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from labelspace._core.sparse import checked_labels
from labelspace.errors import InputError, ParameterError


@dataclass(frozen=True, eq=False)
class LabelCounts:
    """What a saved model keeps of its training labels: points of each label, and of all."""

    counts: np.ndarray
    n_points: int

    @classmethod
    def of(cls, Y: Any) -> Self:
        """From a label matrix (points, labels)."""
        if np.ndim(Y) != 2:
            raise InputError(f"expected a label matrix (points, labels), got {type(Y).__name__}")
        matrix = checked_labels(Y, Y.shape[0])
        return cls(np.bincount(matrix.indices, minlength=matrix.shape[1]), matrix.shape[0])

    def plus(self, more: LabelCounts) -> LabelCounts:
        """With more points, which may have more labels."""
        return LabelCounts(
            self.widened(len(more.counts)) + more.widened(len(self.counts)),
            self.n_points + more.n_points,
        )

    def widened(self, n_labels: int) -> np.ndarray:
        """The counts of `n_labels` labels: those beyond the training labels have none."""
        counts = np.zeros(max(n_labels, len(self.counts)), dtype=self.counts.dtype)
        counts[: len(self.counts)] = self.counts
        return counts


def inverse_propensities(
    Y_or_counts: Any, n_points: int | None = None, a: float = 0.55, b: float = 1.5
) -> np.ndarray:
    """The weight 1 + C (N_l + b)^-a of each label l, where C = (log N - 1) (b + 1)^a.

    Y_or_counts  label matrix (points, labels), or the number of points N_l that carry each label
    n_points     N; may be left out for a matrix, whose rows are the points
    a, b         0.5, 0.4 for WikiLSHTC and Wikipedia-500K; 0.6, 2.6 for Amazon; these otherwise
    """
    if not (math.isfinite(a) and a >= 0):
        raise ParameterError(f"a={a!r}: expected a number of at least 0")
    if not (math.isfinite(b) and b > 0):
        raise ParameterError(f"b={b!r}: expected a number above 0")
    if np.ndim(Y_or_counts) == 1:
        counts = np.asarray(Y_or_counts)
    else:
        found = LabelCounts.of(Y_or_counts)
        counts = found.counts
        n_points = found.n_points if n_points is None else n_points
    if n_points is None or n_points < 1:
        raise InputError(f"n_points={n_points!r}: propensities need the number of training points")
    if (counts < 0).any():
        raise InputError("label counts must be one number of at least 0 for each label")
    # Below three points the logarithm falls under 1 and a "propensity" would exceed certainty.
    c = max(math.log(n_points) - 1.0, 0.0) * (b + 1.0) ** a
    return np.asarray(1.0 + c * (counts.astype(np.float64) + b) ** -a)
