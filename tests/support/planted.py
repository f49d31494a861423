"""Small data in which labels can be learned from features."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix


def planted(n=120, n_features=40, n_labels=12, seed=0):
    """Draw examples that have the three features of each of their labels, and some noise."""
    rng = np.random.default_rng(seed)
    Y = np.zeros((n, n_labels), np.float32)
    for row in range(n):
        Y[row, rng.choice(n_labels - 1, size=rng.integers(1, 4), replace=False)] = 1
    owned = rng.random((n_labels, n_features)) < 3 / n_features
    X = (Y @ owned > 0) * rng.uniform(0.5, 1.5, (n, n_features))
    X += (rng.random(X.shape) < 0.05) * rng.random(X.shape)
    return csr_matrix(X.astype(np.float32)), csr_matrix(Y)
