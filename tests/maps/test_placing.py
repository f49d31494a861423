"""Label vectors come to the disk with their norms, and near labels beside each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelspace.maps.placing import directions, nearest_labels, place


def ball(n, dim, seed=0):
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((n, dim))
    points *= rng.uniform(0, 0.95, (n, 1)) / np.linalg.norm(points, axis=1, keepdims=True)
    return points.astype(np.float32)


def no_one(n):
    return np.empty((n, 0), np.int32)


def test_two_dimensions_are_drawn_unchanged():
    vectors = ball(30, 2)
    points, how = place(vectors, "hyperbolic", no_one(30))
    np.testing.assert_array_equal(points, vectors[:, 0].astype(float) + 1j * vectors[:, 1])
    assert "unchanged" in how


def test_one_dimension_is_a_diameter():
    points, _ = place(np.array([[0.5], [-0.2]], np.float32), "hyperbolic", no_one(2))
    np.testing.assert_allclose(points, [0.5, -0.2], rtol=1e-6)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 40), st.integers(3, 8), st.integers(0, 1000))
def test_more_dimensions_keep_their_norms(n, dim, seed):
    vectors = ball(n, dim, seed)
    near = nearest_labels(vectors, "hyperbolic", min(5, n - 1))
    points, _ = place(vectors, "hyperbolic", near.labels)
    np.testing.assert_allclose(np.abs(points), np.linalg.norm(vectors, axis=1), atol=1e-6)


@pytest.mark.parametrize("geometry", ["euclidean", "spherical"])
def test_flat_vectors_keep_the_order_of_their_distances_from_the_mean(geometry):
    vectors = ball(50, 6)
    if geometry == "spherical":
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    near = nearest_labels(vectors, geometry, 5)
    points, _ = place(vectors, geometry, near.labels)
    away = np.linalg.norm(vectors - vectors.mean(axis=0), axis=1)
    assert (np.diff(np.abs(points)[np.argsort(away)]) >= -1e-6).all()
    assert np.abs(points).max() < 1


@pytest.mark.parametrize("geometry", ["hyperbolic", "euclidean"])
def test_equal_vectors_are_placed(geometry):
    vectors = np.full((12, 4), 0.1, np.float32)
    points, _ = place(vectors, geometry, nearest_labels(vectors, geometry, 3).labels)
    assert np.isfinite(points).all()
    assert (np.abs(points) < 1).all()


def test_a_label_at_the_centre_stays_there():
    vectors = np.vstack([np.zeros((1, 3), np.float32), ball(9, 3)])
    points, _ = place(vectors, "hyperbolic", nearest_labels(vectors, "hyperbolic", 3).labels)
    assert abs(points[0]) < 1e-12


def test_clusters_of_many_dimensions_become_sectors():
    rng = np.random.default_rng(3)
    cluster = rng.permutation(np.repeat(np.arange(6), 20))
    vectors = np.eye(6, 12)[cluster] + 0.05 * rng.standard_normal((120, 12))
    near = nearest_labels(vectors.astype(np.float32), "euclidean", 8)
    round_the_disk = cluster[np.argsort(directions(vectors, near.labels))]
    changes = (round_the_disk != np.roll(round_the_disk, 1)).sum()
    assert changes <= 10  # six at best, 100 for directions at random


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
