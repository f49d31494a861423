"""Search in k-means clusters: the closest are searched, all of them are exact search."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import random

from labelspace._core.schema import check_arrays
from labelspace.errors import StoreError
from labelspace.search.exact import ExactIndex
from labelspace.search.neighbours.build import (
    build_neighbours,
    neighbour_schema,
    restore_neighbours,
)
from labelspace.search.neighbours.clusters import ClusterIndex
from labelspace.search.neighbours.k_means import assign
from labelspace.search.neighbours.voting import rank_votes


def test_all_clusters_searched_is_exact(vectors, queries):
    index = build_neighbours(vectors, 10, kind="clusters", clusters=20, probes=20)
    exact = ExactIndex(vectors)
    for one, other in zip(index.search(queries, 10), exact.search(queries, 10), strict=True):
        np.testing.assert_array_equal(one, other)


def test_one_cluster_searched_is_the_paper(vectors, queries):
    index = build_neighbours(vectors, 10, kind="clusters", clusters=15, probes=1)
    closest = assign(queries, index.centres)
    cluster_of = assign(vectors, index.centres)
    found = index.search(queries, 10)[0]
    for row in range(len(queries)):
        inside = np.flatnonzero(cluster_of == closest[row])
        best = inside[np.argsort(-(vectors[inside] @ queries[row]), kind="stable")[:10]]
        assert set(found[row].tolist()) - {-1} == set(best.tolist())


def test_clusters_that_do_not_fit_are_refused(vectors):
    state = build_neighbours(vectors, 7, kind="clusters").state()
    for name, wrong in (
        ("members", state["members"][::-1].copy()[:-1]),
        ("members", np.zeros_like(state["members"])),
        ("indptr", state["indptr"][:-1]),
        ("centres", state["centres"][:, :-1]),
    ):
        damaged = {**state, name: wrong}
        schema = neighbour_schema(damaged, "", "examples", "dim")
        with pytest.raises(StoreError, match=r"members|indptr|centres"):
            check_arrays(schema, damaged, examples=len(vectors), dim=vectors.shape[1])
    again = restore_neighbours(vectors, state)
    np.testing.assert_array_equal(again.members, state["members"])


def test_a_cluster_index_has_its_settings(vectors):
    index = ClusterIndex.build(vectors, 11, seed=0)
    index.set_probes(40)
    assert index.settings == {"clusters": 11, "probes": 11}


@pytest.mark.parametrize("power", [0.0, 4.0])
def test_clusters_vote_as_the_examples_they_find(vectors, queries, power):
    index = build_neighbours(vectors, 10, kind="clusters", clusters=20, probes=5)
    Y = random(len(vectors), 40, 0.1, format="csr", random_state=0, dtype=np.float32)
    near, similarities = index.search(queries, 10)
    expected = rank_votes(near[:, None], similarities[:, None], power, Y, 6)
    labels, shares = index.votes(queries, 10, power, Y, 6)
    np.testing.assert_array_equal(labels, expected[0])
    np.testing.assert_array_equal(shares, expected[1])
