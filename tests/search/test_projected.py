"""Search by candidates from fewer dimensions: recall, the same bits, and when it is chosen."""

from __future__ import annotations

import numpy as np
import pytest

from labelspace._core.schema import check_arrays
from labelspace.errors import StoreError
from labelspace.search.build import build_index, index_schema, restore_index
from labelspace.search.projected import ProjectedIndex, leading_directions


def decaying(n, dim=64, seed=0):
    """Draw rows with falling variance per dimension, rotated so that no axis shows it."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(np.random.default_rng(99).standard_normal((dim, dim)))[0]
    rows = rng.standard_normal((n, dim)) * 0.85 ** np.arange(dim)
    return (rows @ turn).astype(np.float32)


@pytest.fixture(scope="module")
def data():
    return decaying(2000), decaying(400, seed=1), decaying(300, seed=2)


def found_by(index, queries, k=5):
    best = np.argsort(-(queries @ index.vectors.T), axis=1)[:, :k]
    labels = index.search(queries, k)[0]
    return np.mean([len(set(a) & set(b)) / k for a, b in zip(best, labels, strict=True)])


def test_the_requested_recall_is_reached_on_new_queries(data):
    vectors, tuning, queries = data
    index = build_index(vectors, kind="projected", recall=0.99, queries=tuning)
    assert index.recall >= 0.99
    assert found_by(index, queries) >= 0.98
    assert index.products < vectors.size / 2


def test_directions_are_orthonormal_and_the_largest_come_first(data):
    vectors, tuning, _ = data
    directions = leading_directions(vectors, tuning)
    np.testing.assert_allclose(directions @ directions.T, np.eye(64), atol=1e-4)
    energy = np.square(vectors @ directions.T).mean(axis=0)
    assert energy[:8].sum() > 0.9 * energy.sum()


def test_candidates_are_the_best_by_projected_score(data):
    vectors, _, queries = data
    index = ProjectedIndex(vectors, np.eye(64)[:5], rerank_size=37)
    # The 8-bit codes are within half a unit of the vectors in each dimension.
    coded = index.codes * index.scales
    assert (np.abs(coded - vectors[:, :5]) <= 0.501 * index.scales).all()
    projected = queries[:, :5] @ coded.T
    for row, labels in enumerate(index._candidates(queries[:20], 5)):
        worst = projected[row, labels].min()
        left_out = np.delete(projected[row], labels)
        assert left_out.max() <= worst + 1e-3 * np.abs(projected[row]).max()


def test_alone_and_in_a_batch_a_query_gets_the_same_bits(data):
    vectors, tuning, queries = data
    index = build_index(vectors, kind="projected", queries=tuning)
    labels, scores = index.search(queries, 5)
    for row in range(50):
        one_label, one_score = index.search(queries[row : row + 1], 5)
        assert np.array_equal(one_label[0], labels[row])
        assert np.array_equal(one_score[0], scores[row])


def test_more_labels_wanted_than_are_reranked(data):
    vectors, _, queries = data
    index = ProjectedIndex(vectors, np.eye(64)[:20], rerank_size=10)
    labels = index.search(queries, 50)[0]
    assert (labels >= 0).all()
    assert ProjectedIndex(vectors[:3], np.eye(64), 10).search(queries, 5)[0][:, 3:].max() == -1


def test_state_answers_the_same_and_must_fit(data):
    vectors, tuning, queries = data
    index = build_index(vectors, kind="projected", queries=tuning)
    again = restore_index(vectors, index.state())
    assert again.kind == "projected"
    assert again.recall == index.recall
    assert np.array_equal(again.search(queries, 5)[0], index.search(queries, 5)[0])
    schema = index_schema(index.state(), "", "labels", "dim")
    check_arrays(schema, index.state(), dim=vectors.shape[1])
    with pytest.raises(StoreError, match="directions has shape"):
        check_arrays(schema, index.state(), dim=vectors.shape[1] - 1)
    for name, match in (("codes", "codes has shape"), ("scales", "scales has shape")):
        broken = index.state() | {name: index.state()[name][:-1]}
        with pytest.raises(StoreError, match=match):
            check_arrays(schema, broken, labels=len(vectors), dim=vectors.shape[1])


def test_codes_that_are_not_stored_are_made_again(data):
    vectors, tuning, queries = data
    index = build_index(vectors, kind="projected", queries=tuning)
    arrays = {k: a for k, a in index.state().items() if k not in ("codes", "scales")}
    schema = index_schema(arrays, "", "labels", "dim")
    check_arrays(schema, arrays, labels=len(vectors), dim=vectors.shape[1])
    again = restore_index(vectors, arrays)
    assert np.array_equal(again.codes, index.codes)
    assert np.array_equal(again.search(queries, 5)[0], index.search(queries, 5)[0])
    half = arrays | {"codes": index.codes}
    with pytest.raises(StoreError, match="scales is missing"):
        check_arrays(index_schema(half, "", "labels", "dim"), half, dim=vectors.shape[1])


def test_auto_takes_it_where_it_pays(data, monkeypatch):
    vectors, tuning, _ = data
    monkeypatch.setattr("labelspace.search.build._EXACT_PRODUCTS", 0)
    assert build_index(vectors, queries=tuning).kind == "projected"
    rng = np.random.default_rng(0)  # no direction leads: nothing can be left out
    flat = rng.standard_normal((2000, 64)).astype(np.float32)
    assert build_index(flat, queries=flat[:300]).kind != "projected"
