"""The disk of the maps: isometries, geodesics, and how much of it is shown."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labelspace.maps.disk import geodesics, polar, translate, view_radius
from labelspace.nn import poincare


def distance(a, b):
    """Return the distance by the package's own ball."""
    pairs = [torch.from_numpy(np.stack([z.real, z.imag], -1)) for z in np.broadcast_arrays(a, b)]
    return poincare.distance(*pairs).numpy()


def random_points(n, seed, farthest=5.0):
    rng = np.random.default_rng(seed)
    return polar(rng.uniform(0, farthest, n), rng.uniform(0, 2 * np.pi, n))


def test_polar_keeps_the_distance_from_the_centre():
    distances = np.array([0.0, 0.01, 1.0, 8.0])
    found = distance(polar(distances, np.array([0.0, 1.0, 2.0, 3.0])), np.zeros(4, complex))
    np.testing.assert_allclose(found, distances, rtol=1e-6, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_translations_keep_distances(seed):
    a, b, centre = random_points(3, seed).reshape(3, 1)
    moved = distance(translate(a, centre), translate(b, centre))
    np.testing.assert_allclose(moved, distance(a, b), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(translate(centre, centre), 0.0, atol=1e-15)


def test_geodesics_go_evenly_along_the_shortest_way():
    start, end = random_points(20, 1), random_points(20, 2)
    path = geodesics(start, end, 9)
    np.testing.assert_allclose(path[:, 0], start, atol=1e-12)
    np.testing.assert_allclose(path[:, -1], end, atol=1e-9)
    steps = distance(path[:, :-1], path[:, 1:])
    np.testing.assert_allclose(steps.sum(axis=1), distance(start, end), rtol=1e-6)
    np.testing.assert_allclose(steps, steps[:, :1].repeat(8, axis=1), rtol=1e-5)


def test_a_geodesic_from_a_point_to_itself_stays_there():
    point = np.array([0.3 + 0.2j])
    np.testing.assert_allclose(geodesics(point, point, 4), np.full((1, 4), point[0]))


@pytest.mark.parametrize(
    ("points", "radius"),
    [([], 1.0), ([0.0], 1.0), ([0.9, 0.1], 1.0), ([0.1, 0.1j], 0.106)],
)
def test_the_view_shows_the_whole_disk_or_what_is_filled_of_it(points, radius):
    assert view_radius(np.array(points, complex)) == pytest.approx(radius)
