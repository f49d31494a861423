"""The nearest labels are those of a full comparison."""

from __future__ import annotations

import numpy as np

from labelspace.maps.nearest import nearest_labels


def ball(n, dim, seed=0):
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((n, dim))
    points *= rng.uniform(0, 0.95, (n, 1)) / np.linalg.norm(points, axis=1, keepdims=True)
    return points.astype(np.float32)


def test_nearest_labels_are_those_of_a_full_comparison():
    vectors = ball(60, 5)
    double = vectors.astype(float)
    gap = 1 - (double**2).sum(axis=1)
    squares = ((double[:, None] - double) ** 2).sum(axis=2)
    distances = np.arccosh(1 + 2 * squares / (gap[:, None] * gap))
    np.fill_diagonal(distances, np.inf)
    near = nearest_labels(vectors, "hyperbolic", 7)
    np.testing.assert_array_equal(near.labels, np.argsort(distances, axis=1)[:, :7])
    np.testing.assert_allclose(near.distances, np.sort(distances, axis=1)[:, :7], rtol=1e-4)


def test_no_label_is_near_to_itself_even_among_its_equals():
    near = nearest_labels(np.full((30, 3), 0.2, np.float32), "hyperbolic", 4)
    assert (near.labels != np.arange(30)[:, None]).all()
    assert near.labels.shape == (30, 4)


def test_one_label_has_no_neighbours():
    assert nearest_labels(ball(1, 3), "hyperbolic", 0).labels.shape == (1, 0)
