"""Search is tuned on enough queries, and few of them are not believed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace.search.build import build_index
from labelspace.search.exact import ExactIndex
from labelspace.search.geometry.build import build_neighbours as build_points
from labelspace.search.geometry.points import ExactNeighbours
from labelspace.search.neighbours.build import build_neighbours
from labelspace.search.neighbours.compressed import CompressedExamples
from labelspace.search.tuning import (
    QUERIES,
    Tuner,
    evenly,
    measured,
    probe_counts,
    reaches,
    recall_of,
    sample_queries,
)


def true_recall(index, queries, k):
    wanted = ExactIndex(index.vectors).search(queries, k)[1][:, -1:]
    return (index.search(queries, k)[1] >= wanted).mean()


@pytest.fixture(scope="module")
def vectors():
    return np.random.default_rng(0).standard_normal((4000, 64)).astype(np.float32)


@pytest.fixture(scope="module")
def queries(vectors):
    rng = np.random.default_rng(1)
    return vectors[:500] + rng.standard_normal((500, 64)).astype(np.float32)


def test_few_queries_are_not_believed():
    assert not reaches(np.ones(1), 0.9, 1)
    assert not reaches(np.ones(0), 0.5, 0)
    assert reaches(np.ones(20), 0.9, 20)
    assert reaches(np.ones(QUERIES), 1.0, QUERIES)
    assert not reaches(np.append(np.ones(QUERIES - 1), 0.0), 0.998, QUERIES)


def test_queries_that_fill_up_do_not_outvote_those_given():
    found = np.append(np.full(50, 0.8), np.ones(QUERIES))
    assert reaches(found, 0.9, 0)
    assert not reaches(found, 0.9, 50)
    assert measured(found, 50) == pytest.approx(0.8)


def test_given_queries_are_filled_up():
    rng = np.random.default_rng(0)
    found, given = sample_queries(np.ones((3, 2)), rng, lambda n: np.zeros((n, 2)), 10)
    assert (found.shape, given) == ((10, 2), 3)
    assert found.sum() == found[:3].sum() == 6


def test_a_mean_alone_does_not_need_many_queries():
    assert reaches(np.ones(1), 0.9, 1, with_error=False)
    assert not reaches(np.array([0.5, 1.0, 1.0, 1.0]), 0.8, 1, with_error=False)
    assert reaches(np.ones(0), 0.9, 0, with_error=False)


def test_the_first_setting_that_reaches_the_recall_is_taken():
    class Index:
        setting, recall = 0, 0.0

        def use(self, setting):
            self.setting = setting

    def shares_found(index):
        return np.full(QUERIES, index.setting / 10)

    index = Index()
    assert Tuner(shares_found, 0, 0.55).choose(index, [2, 4, 6, 8], index.use)
    assert (index.setting, index.recall) == (6, pytest.approx(0.6))
    assert not Tuner(shares_found, 0, 0.95).choose(index, [2, 4, 6, 8], index.use)
    assert (index.setting, index.recall) == (8, pytest.approx(0.8))


def test_probes_rise_to_all_lists():
    assert probe_counts(1) == [1]
    assert probe_counts(8) == [1, 2, 3, 4, 5, 6, 8]
    assert probe_counts(1000)[-2:] == [813, 1000]


def test_evenly_spaced_rows_reach_from_end_to_end():
    assert evenly(5, 10).tolist() == [0, 1, 2, 3, 4]
    assert evenly(101, 3).tolist() == [0, 50, 100]
    assert len(evenly(7, 0)) == 0


@pytest.mark.parametrize("kind", ["projected", "quantised"])
def test_one_query_does_not_tune_an_index_over_labels(vectors, queries, kind):
    pytest.importorskip("faiss")
    index = build_index(vectors, kind=kind, recall=0.9, queries=queries[:1])
    assert true_recall(index, queries, 5) == pytest.approx(index.recall, abs=0.05)


@pytest.mark.parametrize("kind", ["clusters", "quantised"])
def test_one_query_does_not_tune_an_index_over_examples(vectors, queries, kind):
    pytest.importorskip("faiss")
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    index = build_neighbours(unit, 10, kind=kind, recall=0.9, queries=unit[:1])
    assert true_recall(index, queries, 10) > 0.75


@pytest.mark.parametrize("kind", ["cells", "codes"])
def test_one_query_does_not_tune_an_index_over_points(vectors, queries, kind):
    pytest.importorskip("faiss")
    index = build_points(vectors, "euclidean", kind=kind, cells=50, recall=0.9, queries=queries[:1])
    found = recall_of(index, ExactNeighbours(vectors, "euclidean"), vectors[1000:1200], 10)
    assert found[0] > 0.85


def test_an_index_takes_no_less_effort_than_the_one_before(vectors):
    before = build_index(vectors, kind="projected", recall=0.95)
    after = build_index(vectors, kind="projected", recall=0.5, at_least=before)
    assert len(after.directions) >= len(before.directions)
    assert after.rerank_size >= before.rerank_size
    assert build_index(vectors, kind="projected", recall=0.5).products < after.products


def compressed(points, queries):
    Y = np.eye(len(points), dtype=np.float32)
    rows = csr_matrix(points)
    return CompressedExamples.build(lambda X: X.toarray(), rows, csr_matrix(Y), 0, queries)


def test_queries_without_neighbours_do_not_make_search_look_everywhere():
    points = np.random.default_rng(0).standard_normal((900, 16)).astype(np.float32)
    near = points[:300] + np.float32(0.01)
    empty = np.zeros((300, 16), np.float32)
    usual = compressed(points, near)
    assert usual.probes < len(usual.centres)
    assert compressed(points, np.concatenate([near, empty])).probes <= usual.probes


def test_few_examples_do_not_make_search_look_everywhere():
    """Fewer than 10 have not 10 nearest."""
    centres = np.eye(3, 16, dtype=np.float32)
    points = np.repeat(centres, 3, axis=0)
    points += np.random.default_rng(0).standard_normal(points.shape).astype(np.float32) * 1e-3
    examples = compressed(points, points)
    everything, _ = examples.nearest(points, 10)
    assert (everything >= 0).sum(axis=1).max() <= 9
    assert examples.probes <= len(examples.centres)
