"""General labels near the centre, relatives side by side, sectors that do not overlap."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelspace.maps.layout import MOST_GROUPS, layout
from labelspace.maps.nearest import nearest_labels

NO_EDGES = np.empty((0, 2), np.int32)


def laid_out(vectors, counts, edges=NO_EDGES):
    near = nearest_labels(vectors, "euclidean", min(5, len(vectors) - 1))
    return layout(vectors, counts, edges, near.labels)


def clusters(n_clusters=6, size=30, seed=3):
    rng = np.random.default_rng(seed)
    cluster = rng.permutation(np.repeat(np.arange(n_clusters), size))
    vectors = np.eye(n_clusters, 12)[cluster] + 0.05 * rng.standard_normal((len(cluster), 12))
    return vectors.astype(np.float32), cluster


def ancestors(parent, label):
    found = []
    while parent[label] >= 0:
        label = parent[label]
        found.append(int(label))
    return found


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 80), st.integers(1, 6), st.booleans(), st.integers(0, 1000))
def test_any_labels_are_inside_the_disk_and_the_same_again(n, dim, taxonomy, seed):
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((n, dim)).astype(np.float32)
    children = rng.permutation(np.arange(1, n))[: n // 2] if taxonomy else np.empty(0, np.int64)
    edges = np.column_stack([children, rng.integers(0, np.maximum(children, 1))])
    counts = rng.integers(0, 1000, n)
    first, second = laid_out(vectors, counts, edges), laid_out(vectors, counts, edges)
    assert (np.abs(first.points) < 1).all()
    np.testing.assert_array_equal(first.points, second.points)
    assert len(np.unique(first.points)) == n
    assert all(label not in ancestors(first.parent, label) for label in range(n))
    assert first.group.max() < len(first.heads) <= MOST_GROUPS
    np.testing.assert_array_equal(first.group[first.heads], np.arange(len(first.heads)))


def test_a_taxonomy_is_drawn_from_the_centre_outwards():
    rng = np.random.default_rng(0)
    parents = np.array([-1, *((np.arange(1, 121) - 1) // 3)])
    edges = np.column_stack([np.arange(1, 121), parents[1:]])
    drawn = laid_out(rng.standard_normal((121, 5)).astype(np.float32), np.ones(121, int), edges)
    np.testing.assert_array_equal(drawn.parent, parents)
    radius = np.abs(drawn.points)
    assert (radius[1:] > radius[parents[1:]]).all()
    assert radius[0] == pytest.approx(0.0, abs=1e-9)  # the only root
    # The leaves of each child of the root are an arc of their own.
    around = np.argsort(np.angle(drawn.points[40:]))
    top = np.array([ancestors(parents, label)[-2] for label in around + 40])
    assert (top != np.roll(top, 1)).sum() == 3


def test_of_several_parents_the_rarest_is_drawn():
    edges = np.array([[2, 0], [2, 1]])
    drawn = laid_out(np.eye(3, dtype=np.float32), np.array([50, 5, 1]), edges)
    assert drawn.parent.tolist() == [-1, -1, 1]


def test_a_label_outside_of_the_taxonomy_lies_beside_its_nearest_one_without_a_line():
    rng = np.random.default_rng(1)
    vectors, _ = clusters(4, 8)
    order = np.argsort(vectors[:, :4].argmax(axis=1), kind="stable")
    vectors = vectors[order]  # eight labels per cluster, in order
    edges = np.array([[8 * c + i, 8 * c] for c in range(4) for i in range(1, 7)])
    drawn = laid_out(vectors, rng.integers(1, 9, 32), edges)
    last = np.arange(7, 32, 8)
    assert (drawn.parent[last] == -1).all()
    gaps = np.abs(np.angle(drawn.points[last, None] / drawn.points[np.arange(0, 32, 8)]))
    np.testing.assert_array_equal(gaps.argmin(axis=1), np.arange(4))


def test_without_a_taxonomy_clusters_become_sectors_and_frequent_labels_lie_inside():
    vectors, cluster = clusters()
    counts = np.random.default_rng(5).integers(1, 10, len(vectors))
    general = np.array([np.flatnonzero(cluster == c)[0] for c in range(6)])
    counts[general] = 5000
    drawn = laid_out(vectors, counts)
    around = cluster[np.argsort(np.angle(drawn.points))]
    assert (around != np.roll(around, 1)).sum() <= 14  # six at best, 150 at random
    assert np.abs(drawn.points[general]).max() < np.median(np.abs(drawn.points))


def test_equal_vectors_and_many_labels_are_laid_out():
    drawn = laid_out(np.full((400, 4), 0.1, np.float32), np.zeros(400, int))
    assert len(np.unique(drawn.points)) == 400


def test_groups_are_large_subtrees_and_their_heads_stand_apart():
    vectors, cluster = clusters(8, 40)
    drawn = laid_out(vectors, np.ones(len(vectors), int))
    assert 6 <= len(drawn.heads) <= MOST_GROUPS
    for group in range(len(drawn.heads)):
        within = np.bincount(cluster[drawn.group == group])
        assert within.max() >= 0.8 * within.sum()


def test_a_label_without_a_vector_lies_beside_the_one_with_a_similar_name_without_a_line():
    vectors, _ = clusters(6, 40)
    vectors = np.concatenate([vectors, np.zeros((5, vectors.shape[1]), np.float32)])
    like = np.array([3, 50, 90, 130, 200])
    alike = np.concatenate([np.full(len(vectors) - 5, -1), like])
    near = np.empty((len(vectors), 0), np.int32)
    drawn = layout(vectors, np.ones(len(vectors), int), np.empty((0, 2), int), near, alike)
    assert (drawn.parent[-5:] == -1).all()
    np.testing.assert_array_equal(drawn.group[-5:], drawn.group[like])
    turned = np.abs(np.angle(drawn.points[-5:] / drawn.points[like]))
    assert turned.max() < 0.1
    assert (np.abs(drawn.points[-5:]) > np.abs(drawn.points[like])).all()
