"""k-means on unit vectors finds planted groups, the same ones each time."""

from __future__ import annotations

import numpy as np

from labelspace.search.neighbours.k_means import assign, k_means


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def test_k_means_finds_what_is_there():
    rng = np.random.default_rng(3)
    middle = unit(np.eye(8)[:4])
    truth = rng.integers(4, size=400)
    rows = unit(middle[truth] + 0.05 * rng.standard_normal((400, 8)))
    centres = k_means(rows, 40, seed=0)  # more clusters than groups: some begin anew
    np.testing.assert_allclose(np.linalg.norm(centres, axis=1), 1.0, atol=1e-5)
    cluster_of = assign(rows, centres)
    assert all(len(set(truth[cluster_of == c].tolist())) <= 1 for c in range(40))
    np.testing.assert_array_equal(centres, k_means(rows, 40, seed=0))
