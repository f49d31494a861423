"""k-means on directions: centres of unit vectors, and the examples of each cluster."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.dense import unit_array
from labelspace._core.threads import product

ROWS_PER_CLUSTER = 64  # rows per centre that it is fitted to
ASSIGNED_AT_A_TIME = 8192  # rows; bounds the memory of their products with the centres
_ROUNDS = 10


def k_means(vectors: np.ndarray, n_clusters: int, seed: int) -> np.ndarray:
    """Fit centres (clusters, dimension) of length 1 to a sample of the rows."""
    rng = np.random.default_rng([seed, len(vectors), n_clusters])
    size = min(len(vectors), ROWS_PER_CLUSTER * n_clusters)
    rows = vectors[np.sort(rng.choice(len(vectors), size, replace=False))]
    centres = rows[np.sort(rng.choice(size, n_clusters, replace=False))]
    for _ in range(_ROUNDS):
        cluster_of = assign(rows, centres)
        ones = np.ones(size, np.float32)
        one_hot = csr_matrix((ones, cluster_of, np.arange(size + 1)), shape=(size, n_clusters))
        sums = np.asarray(one_hot.T @ rows)
        # A centre without rows is moved to a random row.
        empty = np.flatnonzero(np.bincount(cluster_of, minlength=n_clusters) == 0)
        sums[empty] = rows[rng.choice(size, len(empty), replace=False)]
        centres = unit_array(sums)
    return centres


def assign(vectors: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Return the number of the closest centre of each vector."""
    starts = [*range(0, len(vectors), ASSIGNED_AT_A_TIME), len(vectors)]
    found = np.empty(len(vectors), np.int64)
    for start, stop in pairwise(starts):
        found[start:stop] = product(vectors[start:stop], centres.T).argmax(axis=1)
    return found


def grouped(cluster_of: np.ndarray, n_clusters: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (indptr, members): the examples of each cluster in rising order."""
    indptr = np.zeros(n_clusters + 1, np.int64)
    np.cumsum(np.bincount(cluster_of, minlength=n_clusters), out=indptr[1:])
    return indptr, np.argsort(cluster_of, kind="stable").astype(np.int32)
