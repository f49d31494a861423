"""Propensities: how likely a relevant label is to be in the data (Jain et al., KDD 2016).

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
    """Training points per label and in all, which a saved model keeps for PSP.

    Attributes
    ----------
    counts : ndarray of shape (labels,)
        Points per label.
    n_points : int
        Points in all.
    """

    counts: np.ndarray
    n_points: int

    @classmethod
    def of(cls, Y: Any) -> Self:
        """Count the labels of a matrix (points, labels)."""
        if np.ndim(Y) != 2:
            raise InputError(f"expected a label matrix (points, labels), got {type(Y).__name__}")
        matrix = checked_labels(Y, Y.shape[0])
        return cls(np.bincount(matrix.indices, minlength=matrix.shape[1]), matrix.shape[0])

    def plus(self, more: LabelCounts) -> LabelCounts:
        """Return the sum of both counts, whose numbers of labels may differ."""
        return LabelCounts(
            self.widened(len(more.counts)) + more.widened(len(self.counts)),
            self.n_points + more.n_points,
        )

    def widened(self, n_labels: int) -> np.ndarray:
        """Return the counts of `n_labels` labels, with zeros beyond the training labels."""
        counts = np.zeros(max(n_labels, len(self.counts)), dtype=self.counts.dtype)
        counts[: len(self.counts)] = self.counts
        return counts


def inverse_propensities(
    Y_or_counts: Any, n_points: int | None = None, a: float = 0.55, b: float = 1.5
) -> np.ndarray:
    """Return the weight 1 + C (N_l + b)^-a of each label l, where C = (log N - 1) (b + 1)^a.

    Parameters
    ----------
    Y_or_counts : csr_matrix or ndarray
        A label matrix (points, labels), or the number of points N_l of each label.
    n_points : int, optional
        N; by default the rows of the matrix.
    a, b : float
        0.5, 0.4 for WikiLSHTC and Wikipedia-500K; 0.6, 2.6 for Amazon; the defaults otherwise.

    Returns
    -------
    ndarray of shape (labels,), float64

    Raises
    ------
    InputError
        If the number of points is unknown or a count is negative.
    ParameterError
        If a or b is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> inverse_propensities(np.array([1000, 10, 0]), n_points=5000).round(2)
    array([ 1.28,  4.25, 10.96])
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
