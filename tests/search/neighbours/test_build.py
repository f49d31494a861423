"""Indexes over examples against exact search: recall, storing, growing and when each is chosen."""

from __future__ import annotations

import numpy as np
import pytest

from labelspace._core.dense import unit_array
from labelspace.errors import InputError, ParameterError
from labelspace.search.neighbours import build
from labelspace.search.neighbours.build import (
    build_neighbours,
    extend_neighbours,
    neighbour_bytes,
    restore_neighbours,
)


def found_share(index, exact, queries, k):
    wanted = exact.search(queries, k)[1][:, -1:]
    return (index.search(queries, k)[1] >= wanted).mean()


@pytest.mark.parametrize("kind", ["clusters", "quantised"])
def test_recall_is_reached_on_other_queries_and_kept(vectors, queries, kind):
    index = build_neighbours(vectors, 20, kind=kind, recall=0.95, queries=queries[:200])
    exact = build_neighbours(vectors, 20, kind="exact")
    assert index.kind == kind
    assert index.recall >= 0.95
    assert found_share(index, exact, queries[200:], 20) > 0.92


def test_auto_is_exact_for_few_and_quantised_for_many(vectors, monkeypatch):
    assert build_neighbours(vectors, 5).kind == "exact"
    monkeypatch.setattr(build, "is_large", lambda n, dim: n * dim > 10_000)
    assert build_neighbours(vectors, 5).kind == "quantised"
    assert build_neighbours(vectors, 5, clusters=20).kind == "clusters"
    noise = unit_array(np.random.default_rng(0).standard_normal((600, 64), np.float32))
    assert build_neighbours(noise, 5, recall=1.0).kind == "exact"  # no candidates hold all there


def test_one_query_is_like_many(vectors, queries):
    index = build_neighbours(vectors, 7, kind="clusters")
    labels, scores = index.search(queries[:50], 7)
    for row in range(50):
        one = index.search(queries[row : row + 1], 7)
        np.testing.assert_array_equal(one[0][0], labels[row])
        np.testing.assert_array_equal(one[1][0], scores[row])


@pytest.mark.parametrize("kind", ["exact", "clusters", "quantised"])
def test_state_and_back(vectors, queries, kind):
    index = build_neighbours(vectors, 7, kind=kind)
    again = restore_neighbours(vectors, index.state())
    assert (again.kind, again.recall, again.settings) == (index.kind, index.recall, index.settings)
    np.testing.assert_array_equal(again.search(queries, 7)[0], index.search(queries, 7)[0])


@pytest.mark.parametrize("kind", ["exact", "clusters", "quantised"])
def test_further_examples_are_found(vectors, kind):
    index = build_neighbours(vectors[:2000], 5, kind=kind)
    index = extend_neighbours(index, vectors)
    assert index.kind == kind
    own = index.search(vectors[2000:], 1)[0][:, 0]
    assert (own == np.arange(2000, len(vectors))).mean() > 0.98
    if kind == "clusters":
        np.testing.assert_array_equal(np.sort(index.members), np.arange(len(vectors)))


def test_wrong_questions(vectors):
    with pytest.raises(ParameterError, match="kind='tree'"):
        build_neighbours(vectors, 5, kind="tree")
    with pytest.raises(InputError, match="none are in them"):
        build_neighbours(vectors, 5, kind="clusters", queries=vectors[:0])
    assert build_neighbours(vectors[:0], 5).search(vectors[:2], 3)[0].tolist() == [[-1] * 3] * 2


def test_memory_grows():
    assert neighbour_bytes(100, 10) <= neighbour_bytes(10**6, 300)
    assert neighbour_bytes(10**6, 300, "clusters") > 10**6 * 20
