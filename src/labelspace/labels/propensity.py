"""How likely a relevant label is to have been noted down at all, after Jain et al. (KDD 2016).

Rare labels are missed more often than frequent ones. The inverse of a label's propensity is the
weight of a hit on it in the propensity-scored metrics.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from labelspace.errors import InputError, ParameterError
from labelspace.sparse import checked_labels


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
    if np.ndim(Y_or_counts) == 2:
        Y = checked_labels(Y_or_counts, Y_or_counts.shape[0])
        counts = np.bincount(Y.indices, minlength=Y.shape[1])
        n_points = Y.shape[0] if n_points is None else n_points
    else:
        counts = np.asarray(Y_or_counts)
    if n_points is None or n_points < 1:
        raise InputError(f"n_points={n_points!r}: propensities need the number of training points")
    if counts.ndim != 1 or (counts < 0).any():
        raise InputError("label counts must be one number of at least 0 for each label")
    # Below three points the logarithm falls under 1 and a "propensity" would exceed certainty.
    c = max(math.log(n_points) - 1.0, 0.0) * (b + 1.0) ** a
    return np.asarray(1.0 + c * (counts.astype(np.float64) + b) ** -a)
