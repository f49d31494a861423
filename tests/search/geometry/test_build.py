"""Neighbours in three geometries against plain float64, near centre and rim; recall is honest."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from labelspace._core.schema import check_arrays
from labelspace.errors import InputError, ParameterError, StoreError
from labelspace.nn import poincare
from labelspace.search.geometry.build import (
    build_neighbours,
    neighbour_schema,
    restore_neighbours,
)
from labelspace.search.geometry.points import GEOMETRIES, ExactNeighbours
from labelspace.search.tuning import recall_of


def cloud(geometry, n, seed, dim=6, reach=3.0):
    """Draw points in clusters; in the ball their hyperbolic norms go up to about `reach`."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((12, dim))
    x = centres[rng.integers(12, size=n)] + 0.4 * rng.standard_normal((n, dim))
    if geometry == "spherical":
        x /= np.linalg.norm(x, axis=1, keepdims=True)
    if geometry == "hyperbolic":
        length = np.linalg.norm(x, axis=1, keepdims=True)
        x *= np.tanh(reach * length / length.max() / 2) / length
    return x.astype(np.float32)


def all_distances(geometry, queries, points):
    x, y = (torch.from_numpy(each).double() for each in (queries, points))
    if geometry == "hyperbolic":
        return poincare.distance(x[:, None], y[None]).numpy()
    if geometry == "euclidean":
        return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist").numpy()
    return np.arccos(np.clip((x @ y.T).numpy(), -1, 1))


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("reach", [0.01, 3.0, 12.0])
def test_exact_search_is_exact_and_gives_the_geometrys_distance(geometry, reach):
    points, queries = cloud(geometry, 900, 0, reach=reach), cloud(geometry, 70, 1, reach=reach)
    ids, distances = ExactNeighbours(points, geometry).search(queries, 7)
    expected = all_distances(geometry, queries, points)
    nearest = np.sort(expected, axis=1)[:, :7]
    np.testing.assert_allclose(distances, nearest, rtol=1e-5, atol=1e-7)
    found = np.take_along_axis(expected, ids, axis=1)
    np.testing.assert_allclose(found, nearest, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("kind", ["exact", "codes", "cells"])
def test_a_query_alone_and_in_a_batch_and_after_saving_gets_the_same(geometry, kind):
    points, queries = cloud(geometry, 2000, 0), cloud(geometry, 40, 1)
    index = build_neighbours(points, geometry, kind=kind, cells=10, k=5)
    ids, distances = index.search(queries, 5)
    for row in range(40):
        alone = index.search(queries[row : row + 1], 5)
        assert np.array_equal(alone[0][0], ids[row])
        assert np.array_equal(alone[1][0], distances[row])
    restored = restore_neighbours(points, geometry, index.state())
    assert (restored.kind, restored.recall) == (index.kind, index.recall)
    again = restored.search(queries, 5)
    assert np.array_equal(again[0], ids)
    assert np.array_equal(again[1], distances)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_cells_reach_the_requested_recall_on_other_queries(geometry):
    points = cloud(geometry, 6000, 0)
    tuning, held_out = cloud(geometry, 300, 1), cloud(geometry, 300, 2)
    index = build_neighbours(points, geometry, kind="cells", cells=40, queries=tuning, k=10)
    recall, error = recall_of(index, ExactNeighbours(points, geometry), held_out, 10)
    assert index.probes < 40
    assert index.recall >= 0.99
    assert recall >= 0.99 - 3 * error
    few = build_neighbours(points, geometry, kind="cells", cells=40, recall=0.6, queries=tuning)
    assert few.probes < index.probes


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_codes_reach_the_requested_recall_on_other_queries(geometry):
    points = cloud(geometry, 6000, 0, dim=12)
    tuning, held_out = (cloud(geometry, 300, seed, dim=12) for seed in (1, 2))
    index = build_neighbours(points, geometry, kind="codes", queries=tuning, k=10)
    recall, error = recall_of(index, ExactNeighbours(points, geometry), held_out, 10)
    assert index.rerank_size < 400  # reranks few of the 6,000
    assert index.recall >= 0.99
    assert recall >= 0.99 - 3 * error


def test_auto_takes_codes_for_many_points_and_is_exact_where_nothing_else_will_do():
    small = cloud("hyperbolic", 500, 0)
    assert build_neighbours(small, "hyperbolic").kind == "exact"
    large = cloud("hyperbolic", 170_000, 0, dim=12)
    assert build_neighbours(large, "hyperbolic", k=5).kind == "codes"
    # All alike: neither codes nor cells separate the nearest 500 of noise from the rest.
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((3000, 700)).astype(np.float32)
    assert build_neighbours(noise, "euclidean", k=500, recall=1.0).kind == "exact"


def test_fewer_points_than_wanted_are_padded_and_ties_go_by_id():
    points = np.zeros((4, 3), np.float32)
    ids, distances = ExactNeighbours(points, "hyperbolic").search(np.zeros((1, 3)), 6)
    assert ids.tolist() == [[0, 1, 2, 3, -1, -1]]
    assert distances[0, :4].tolist() == [0.0] * 4
    assert np.isinf(distances[0, 4:]).all()
    none = build_neighbours(np.zeros((0, 3)), "spherical")
    assert none.search(np.zeros((2, 3)), 2)[0].tolist() == [[-1, -1], [-1, -1]]


def test_points_on_the_rim_do_no_harm():
    points = np.array([[1.0, 0.0], [0.999999, 0.0], [0.0, 0.5]], np.float32)
    ids, distances = ExactNeighbours(points, "hyperbolic").search(points, 3)
    assert ids[:, 0].tolist() == [0, 1, 2]
    assert np.isfinite(distances).all()


def test_what_does_not_fit_is_refused():
    points = cloud("euclidean", 50, 0)
    with pytest.raises(ParameterError, match="geometry='flat'"):
        build_neighbours(points, "flat")
    with pytest.raises(ParameterError, match="kind='tree'"):
        build_neighbours(points, "euclidean", kind="tree")
    index = build_neighbours(points, "euclidean", kind="cells", cells=5)
    with pytest.raises(ParameterError, match="k=0"):
        index.search(points, 0)
    with pytest.raises(InputError, match="NaN"):
        index.search(np.full((1, 6), np.nan), 1)
    schema = neighbour_schema(index.state(), "", "points")
    check_arrays(schema, index.state(), points=50)
    for n in (49, 51):
        with pytest.raises(StoreError, match=r"centres|cell_of"):
            check_arrays(schema, index.state(), points=n)
    unknown = index.state() | {"kind": np.frombuffer(b"lift", np.uint8)}
    with pytest.raises(StoreError, match="kind 'lift'"):
        restore_neighbours(points, "euclidean", unknown)
