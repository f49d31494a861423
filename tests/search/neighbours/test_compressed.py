"""Compressed examples against brute force, growing, reordered and stored."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix, vstack

from labelspace._core.schema import check_arrays
from labelspace.errors import StoreError
from labelspace.search.neighbours import compressed as module
from labelspace.search.neighbours.compressed import CompressedExamples
from labelspace.search.neighbours.k_means import assign

DIM, LABELS = 24, 15


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def blobs(n, seed):
    rng = np.random.default_rng(seed)
    middle = np.random.default_rng(99).standard_normal((12, DIM))
    return unit(middle[rng.integers(12, size=n)] + 0.6 * rng.standard_normal((n, DIM)))


def dense(X):
    return np.asarray(X.toarray(), np.float32)


def some_labels(n, seed=5, n_labels=LABELS):
    return csr_matrix((np.random.default_rng(seed).random((n, n_labels)) < 0.15).astype(np.float32))


@pytest.fixture(scope="module")
def points():
    return blobs(700, seed=0)


@pytest.fixture(scope="module")
def queries():
    return blobs(60, seed=1)


@pytest.fixture
def examples(points):
    return CompressedExamples.build(dense, csr_matrix(points), some_labels(len(points)), seed=0)


def brute_cosines(examples, queries):
    """Return cosines of queries with the codes, by definition, in the order of the examples."""
    known = examples.codes_in_order().astype(np.float64) / 127
    projected = queries.astype(np.float64) @ examples.directions.T.astype(np.float64)
    return projected / np.linalg.norm(projected, axis=1, keepdims=True) @ known.T


def check_nearest(examples, queries, k):
    expected = brute_cosines(examples, queries)
    rows, cosines = examples.nearest(queries, k)
    for row in range(len(queries)):
        assert len(set(rows[row])) == k
        np.testing.assert_allclose(cosines[row], expected[row, rows[row]], atol=2e-4)
        np.testing.assert_allclose(cosines[row], np.sort(expected[row])[::-1][:k], atol=2e-4)
    assert (np.diff(cosines, axis=1) <= 0).all()


def test_nearest_is_brute_force_when_all_clusters_are_searched(examples, queries, points):
    examples.probes = len(examples.centres)
    check_nearest(examples, queries, 10)
    # All directions are kept here, so the codes' cosines are nearly those of the vectors.
    assert np.abs(brute_cosines(examples, queries) - queries @ points.T).max() < 0.03


def test_fewer_directions_are_the_leading_ones(points, queries, monkeypatch):
    monkeypatch.setattr(module, "DIRECTIONS", 11)
    examples = CompressedExamples.build(dense, csr_matrix(points), some_labels(len(points)), seed=0)
    assert examples.codes_in_order().shape == (len(points), 11)
    _, sizes, right = np.linalg.svd(points.astype(np.float64))
    np.testing.assert_allclose(
        np.abs(np.sum(examples.directions[:5] * right[:5], axis=1)), 1.0, atol=1e-2
    )
    assert sizes[10] > sizes[11]
    examples.probes = len(examples.centres)
    check_nearest(examples, queries, 5)


def test_chosen_probes_reach_the_recall_with_less_work(points, queries):
    examples = CompressedExamples.build(
        dense, csr_matrix(points), some_labels(len(points)), 0, queries[:30]
    )
    assert examples.probes < len(examples.centres)
    found, _ = examples.nearest(queries[30:], 10)
    examples.probes = len(examples.centres)
    everything, _ = examples.nearest(queries[30:], 10)
    hits = [len(np.intersect1d(a, b)) for a, b in zip(found, everything, strict=True)]
    assert np.mean(hits) > 9.0


def test_blocks_of_embedding_do_not_matter(points, examples, monkeypatch):
    monkeypatch.setattr(module, "_EMBEDDED_AT_A_TIME", 33)
    other = CompressedExamples.build(dense, csr_matrix(points), some_labels(len(points)), seed=0)
    assert (np.abs(other.codes_in_order().astype(int) - examples.codes_in_order()) <= 1).all()


def test_few_examples_pad_and_a_query_of_zeros_has_no_neighbours():
    examples = CompressedExamples.build(dense, csr_matrix(blobs(3, seed=2)), some_labels(3), seed=0)
    rows, cosines = examples.nearest(np.vstack([blobs(1, seed=3), np.zeros((1, DIM))]), 5)
    assert sorted(rows[0]) == [-1, -1, 0, 1, 2]
    assert (rows[0, 3:] == -1).all()
    assert (rows[1] == -1).all()
    assert np.isneginf(cosines[1]).all()


def test_extended_has_the_old_ones_first_and_takes_new_labels(examples, queries, points):
    more = blobs(50, seed=4)
    Y = some_labels(50, seed=6, n_labels=LABELS + 3)
    grown = examples.extended(dense, csr_matrix(more), Y)
    assert len(grown) == len(points) + 50
    assert np.array_equal(grown.codes_in_order()[:700], examples.codes_in_order())
    assert np.array_equal(grown.cluster_of[:700], examples.cluster_of)
    own = more @ examples.directions.T
    assert np.array_equal(grown.cluster_of[700:], assign(unit(own), examples.centres))
    assert (grown.Y[:700, :LABELS] != examples.Y).nnz == 0
    assert grown.Y[:700, LABELS:].nnz == 0
    assert (grown.Y[700:] != Y).nnz == 0
    grown.probes = len(grown.centres)
    check_nearest(grown, queries, 10)
    assert np.array_equal(grown.nearest(more, 1)[0][:, 0], np.arange(700, 750))


def test_in_two_parts_or_in_one_it_is_the_same(examples, queries, points):
    Y = some_labels(len(points))
    parts = CompressedExamples.of_codes(
        *(examples.directions, examples.centres, examples.cluster_of[:400]),
        *(examples.codes_in_order()[:400], Y[:400], examples.probes),
    ).extended(dense, csr_matrix(points[400:]), Y[400:])
    assert all(np.array_equal(a, examples.state()[name]) for name, a in parts.state().items())
    assert np.array_equal(parts.nearest(queries, 5)[0], examples.nearest(queries, 5)[0])


def test_renumbered_examples_are_the_same_examples(examples, queries):
    numbers = np.random.default_rng(3).permutation(len(examples))
    other = examples.renumbered(numbers)
    rows, cosines = examples.nearest(queries, 5)
    found, same_cosines = other.nearest(queries, 5)
    assert np.array_equal(found, numbers[rows])
    assert np.array_equal(cosines, same_cosines)
    assert (other.Y[numbers] != examples.Y).nnz == 0


def test_save_and_restore(examples, queries):
    state = examples.state()
    for array in state.values():
        array.setflags(write=False)  # as memory maps are
    back = CompressedExamples.restore(state)
    assert all(np.array_equal(a, state[name]) for name, a in back.state().items())
    for one, other in zip(back.nearest(queries, 7), examples.nearest(queries, 7), strict=True):
        assert np.array_equal(one, other)
    grown = back.extended(dense, csr_matrix(queries), some_labels(len(queries)))
    assert len(grown) == len(examples) + len(queries)


BROKEN = {
    "an example too many": lambda s: s | {"members": s["members"] + 1},
    "a negative example": lambda s: s | {"members": s["members"] - 1},
    "fewer members": lambda s: s | {"members": s["members"][:-1]},
    "clusters that run backwards": lambda s: s | {"indptr": s["indptr"][::-1].copy()},
    "a cluster too many": lambda s: s | {"indptr": np.append(s["indptr"], s["indptr"][-1])},
    "fewer codes": lambda s: s | {"grouped": s["grouped"][:-1]},
    "codes of another width": lambda s: s | {"grouped": s["grouped"][:, :-1]},
    "codes of another kind": lambda s: s | {"grouped": s["grouped"].astype(np.float32)},
    "another dimension": lambda s: s | {"directions": s["directions"][:, :-1]},
    "fewer directions": lambda s: s | {"directions": s["directions"][:-1]},
    "no probes": lambda s: s | {"probes": np.array([0])},
    "too many probes": lambda s: s | {"probes": np.array([len(s["centres"]) + 1])},
    "labels out of range": lambda s: s | {"labels.indices": s["labels.indices"] + LABELS},
    "more labels": lambda s: s | {"labels.shape": s["labels.shape"] + [0, 1]},
    "rows that run backwards": lambda s: s | {"labels.indptr": backwards(s["labels.indptr"])},
}


def backwards(indptr):
    broken = indptr.copy()
    broken[5] = broken[-1] + 100
    return broken


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_state_is_refused(examples, how):
    schema = CompressedExamples.schema(examples.state(), "", "code")
    check_arrays(schema, examples.state(), labels=LABELS, code=DIM)
    with pytest.raises(StoreError):
        check_arrays(schema, BROKEN[how](examples.state()), labels=LABELS, code=DIM)


def test_the_same_seed_gives_the_same_examples(points, examples):
    again = CompressedExamples.build(dense, csr_matrix(points), some_labels(len(points)), seed=0)
    assert all(np.array_equal(a, examples.state()[name]) for name, a in again.state().items())


def test_duplicates_go_by_number(points):
    X = csr_matrix(points)
    twice = CompressedExamples.build(
        dense, vstack([X, X]).tocsr(), some_labels(2 * len(points)), seed=0
    )
    twice.probes = len(twice.centres)
    rows, _ = twice.nearest(points[:40], 2)
    assert np.array_equal(rows[:, 1], rows[:, 0] + len(points))
