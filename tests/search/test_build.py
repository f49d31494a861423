"""Search over label vectors against plain sorting, and the promises of the approximate kind."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelspace._core.arrays import read_arrays, write_arrays
from labelspace._core.schema import check_arrays
from labelspace.errors import InputError, MissingExtraError, ParameterError, StoreError
from labelspace.search import exact as exact_module
from labelspace.search.build import build_index, index_bytes, index_schema, is_large, restore_index
from labelspace.search.quantised import QuantisedIndex

KINDS = ["exact", "projected", "quantised"]


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def clustered(n_labels=3000, dim=32, n_queries=300, seed=0):
    """Draw labels around centres, and queries near labels."""
    rng = np.random.default_rng(seed)
    centres = unit(rng.standard_normal((n_labels // 20, dim)))
    noise = unit(rng.standard_normal((n_labels, dim)))
    vectors = unit(centres[rng.integers(len(centres), size=n_labels)] + noise)
    noise = unit(rng.standard_normal((n_queries, dim)))
    queries = vectors[rng.integers(n_labels, size=n_queries)] + 0.7 * noise
    return vectors.astype(np.float32), queries.astype(np.float32)


@pytest.fixture(scope="module")
def data():
    return clustered()


@pytest.fixture(scope="module")
def quantised(data):
    return build_index(data[0], kind="quantised", recall=0.98)


def recall(index, queries, k=5):
    """Return the share of the best k by plain sorting that the index finds."""
    best = np.argsort(-(queries @ index.vectors.T), axis=1)[:, :k]
    found = index.search(queries, k)[0]
    return np.mean([len(set(a) & set(b)) / k for a, b in zip(best, found, strict=True)])


@given(
    n_labels=st.integers(1, 40),
    n_queries=st.sampled_from([1, 3, 9]),
    k=st.integers(1, 45),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=60, deadline=None)
def test_exact_is_plain_sorting_and_ties_go_to_the_smaller_id(n_labels, n_queries, k, seed):
    # Small integers: every product is exact in any order of summation, and ties abound.
    rng = np.random.default_rng(seed)
    vectors = rng.integers(-2, 3, (n_labels, 3)).astype(np.float32)
    queries = rng.integers(-2, 3, (n_queries, 3)).astype(np.float32)
    labels, scores = build_index(vectors, kind="exact").search(queries, k)
    products = queries @ vectors.T
    order = np.argsort(-products, axis=1, kind="stable")[:, :k]
    width = min(k, n_labels)
    np.testing.assert_array_equal(labels[:, :width], order)
    np.testing.assert_array_equal(scores[:, :width], np.take_along_axis(products, order, axis=1))
    assert (labels[:, width:] == -1).all()
    assert (scores[:, width:] == -np.inf).all()
    assert labels.shape == scores.shape == (n_queries, k)


def test_exact_over_several_blocks_of_labels_and_queries(data, monkeypatch):
    monkeypatch.setattr(exact_module, "_LABEL_BLOCK", 7)
    monkeypatch.setattr("labelspace.search.index.QUERY_BLOCK", 50)
    vectors, queries = data[0][:100], data[1]
    labels, scores = build_index(vectors, kind="exact").search(queries, 10)
    products = queries.astype(np.float64) @ vectors.T.astype(np.float64)
    np.testing.assert_array_equal(labels, np.argsort(-products, axis=1)[:, :10])
    np.testing.assert_allclose(scores, -np.sort(-products, axis=1)[:, :10], atol=1e-6)


def test_scores_are_inner_products_in_falling_order(data, quantised):
    vectors, queries = data
    labels, scores = quantised.search(queries, 20)
    products = np.einsum("nd,nkd->nk", queries.astype(np.float64), vectors[labels])
    np.testing.assert_allclose(scores, products, atol=1e-6)
    assert (np.diff(scores, axis=1) <= 0).all()
    assert all(len(set(row)) == 20 for row in labels)
    assert labels.dtype == np.int64
    assert scores.dtype == np.float32


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dim", [2, 31, 64])
def test_alone_and_in_a_batch_a_query_gets_the_same_bits(kind, dim):
    vectors, queries = clustered(n_labels=500, dim=dim, n_queries=70)
    vectors[100:110] = vectors[5]
    index = build_index(vectors, kind=kind)
    labels, scores = index.search(queries, 7)
    for row in range(len(queries)):
        alone = index.search(queries[row : row + 1], 7)
        np.testing.assert_array_equal(alone[0][0], labels[row])
        np.testing.assert_array_equal(alone[1][0], scores[row])


@pytest.mark.parametrize("kind", KINDS)
def test_labels_that_are_nearly_alike_come_in_the_same_order_alone_and_in_a_batch(kind):
    vectors, queries = clustered(n_labels=500, dim=64, n_queries=100)
    # Closer to one another than a product is exact, spread over the columns of the product.
    vectors[::63] = vectors[5] * (1 + np.float32(1e-7) * np.arange(8, dtype=np.float32))[:, None]
    queries[:] = vectors[5] + 0.1 * queries
    index = build_index(vectors, kind=kind)
    labels, _ = index.search(queries, 3)
    alone = [index.search(queries[row : row + 1], 3)[0][0] for row in range(len(queries))]
    np.testing.assert_array_equal(alone, labels)


def test_threads_may_search_at_the_same_time(data, quantised):
    queries = data[1]
    labels, _ = quantised.search(queries, 5)
    with ThreadPoolExecutor(8) as pool:
        found = list(
            pool.map(lambda row: quantised.search(queries[row : row + 1], 5)[0][0], range(300))
        )
    np.testing.assert_array_equal(found, labels)


@pytest.mark.parametrize("wanted", [0.8, 0.99])
@pytest.mark.parametrize("given", [True, False])
def test_the_requested_recall_is_reached_on_new_queries(data, wanted, given):
    vectors, queries = data
    samples = clustered(seed=1)[1] if given else None
    index = build_index(vectors, kind="quantised", recall=wanted, queries=samples)
    assert index.kind == "quantised"
    assert index.recall >= wanted
    assert recall(index, queries) >= wanted - 0.01
    assert recall(index, queries, k=50) >= min(wanted, 0.95)


def test_a_higher_recall_takes_more_work():
    vectors, _ = clustered(n_labels=4000, dim=128)
    low, high = (build_index(vectors, kind="quantised", recall=wanted) for wanted in (0.5, 1.0))
    efforts = [(-index.codes.subdim, index.rerank_size) for index in (low, high)]
    assert efforts[0] < efforts[1]


@pytest.mark.parametrize("lengths", ["lognormal", "some huge", "many zeros"])
def test_vectors_of_unequal_length(data, lengths):
    vectors, queries = data
    rng = np.random.default_rng(3)
    length = {
        "lognormal": np.exp(rng.standard_normal(len(vectors))),
        "some huge": np.where(rng.random(len(vectors)) < 0.01, 10.0, 1.0),
        "many zeros": rng.random(len(vectors)) < 0.5,
    }[lengths]
    vectors = (vectors * length[:, None]).astype(np.float32)
    index = build_index(vectors, kind="quantised", recall=0.98, queries=clustered(seed=1)[1])
    assert recall(index, queries) >= 0.97


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_builds_the_same_index(data, kind):
    once, again = (build_index(data[0], kind=kind, recall=0.98).state() for _ in range(2))
    for name, array in once.items():
        np.testing.assert_array_equal(again[name], array)


def test_building_leaves_the_threads_of_faiss_as_they_were(data):
    faiss = pytest.importorskip("faiss")
    before = faiss.omp_get_max_threads()
    build_index(data[0][:50], kind="quantised")
    assert faiss.omp_get_max_threads() == before


@pytest.mark.parametrize("kind", KINDS)
def test_state_from_disk_answers_the_same(data, tmp_path, kind):
    vectors, queries = data
    index = build_index(vectors, kind=kind)
    write_arrays(tmp_path / "index", {"vectors": vectors, **index.state()})
    arrays, _ = read_arrays(tmp_path / "index")
    back = restore_index(arrays.pop("vectors"), arrays)
    for ours, theirs in zip(index.search(queries, 5), back.search(queries, 5), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert (back.kind, back.recall, back.settings) == (index.kind, index.recall, index.settings)


def _damage(name, change):
    def apply(arrays):
        arrays[name] = change(arrays[name].copy())

    return apply


@pytest.mark.parametrize(
    "damage",
    [
        _damage("codebook", lambda codebook: codebook[:-1]),
        _damage("codebook", lambda codebook: codebook[:, :-1]),
        _damage("codebook", lambda codebook: codebook.ravel()),
    ],
)
def test_codes_of_other_vectors_are_refused(data, damage):
    arrays = build_index(data[0], kind="quantised").state()
    damage(arrays)

    def restored():
        check_arrays(index_schema(arrays, "", "labels", "dim"), arrays, dim=data[0].shape[1])
        restore_index(data[0], arrays)

    with pytest.raises(StoreError, match=r"search codes|codebook has shape"):
        restored()


def test_a_state_of_no_known_kind_is_refused(data):
    arrays = build_index(data[0], kind="quantised").state()
    with pytest.raises(StoreError, match="kind 'hnsw'"):
        restore_index(data[0], arrays | {"kind": np.frombuffer(b"hnsw", np.uint8)})
    arrays.pop("kind")
    with pytest.raises(StoreError, match="no kind"):
        restore_index(data[0], arrays)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_labels", [1, 2, 5])
def test_fewer_labels_than_requested(kind, n_labels):
    vectors = np.arange(n_labels, dtype=np.float32)[:, None] * np.ones(4, np.float32)
    labels, scores = build_index(vectors, kind=kind).search(np.ones((6, 4)), 8)
    expected = [*range(n_labels - 1, -1, -1), *[-1] * (8 - n_labels)]
    assert labels.tolist() == [expected] * 6
    assert scores[0].tolist() == [4.0 * e if e >= 0 else -np.inf for e in expected]


@pytest.mark.parametrize("kind", KINDS)
def test_labels_that_are_all_alike(kind):
    index = build_index(np.ones((300, 8)), kind=kind)
    labels, scores = index.search(np.ones((2, 8)), 5)
    assert (labels >= 0).all()
    assert (scores == 8).all()
    assert index.recall == 1.0


@pytest.mark.parametrize("kind", KINDS)
def test_a_query_of_zeros_still_gets_labels(kind, data):
    labels, scores = build_index(data[0], kind=kind).search(np.zeros((1, 32)), 5)
    assert len(set(labels[0]) - {-1}) == 5
    assert (scores == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_no_queries(kind, data):
    labels, scores = build_index(data[0][:50], kind=kind).search(np.empty((0, 32)), 5)
    assert labels.shape == scores.shape == (0, 5)


def test_no_labels():
    labels, scores = build_index(np.empty((0, 4))).search(np.ones((2, 4)), 3)
    assert (labels == -1).all()
    assert (scores == -np.inf).all()


@pytest.mark.parametrize("kind", ["projected", "quantised"])
def test_large_dimensions_and_values_do_not_overflow(kind):
    rng = np.random.default_rng(0)
    vectors = np.sign(rng.standard_normal((200, 4096))).astype(np.float32) * 1e15
    index = build_index(vectors, kind=kind, queries=vectors)
    assert index.search(vectors, 1)[0][:, 0].tolist() == list(range(200))


def test_auto_is_exact_for_few_labels_and_codes_for_many(data, monkeypatch):
    vectors, _ = data
    assert build_index(vectors).kind == "exact"
    exact_bytes = index_bytes(*vectors.shape)
    monkeypatch.setattr("labelspace.search.build._EXACT_PRODUCTS", vectors.size - 1)
    assert is_large(*vectors.shape)
    assert build_index(vectors).kind == "quantised"
    assert index_bytes(*vectors.shape) > exact_bytes + vectors.size / 4


def test_auto_is_exact_where_codes_fail(data, monkeypatch):
    def astray(self, queries, k):  # noqa: ARG001
        return np.zeros((len(queries), 1), np.int32)

    monkeypatch.setattr("labelspace.search.build._EXACT_PRODUCTS", 0)
    monkeypatch.setattr(QuantisedIndex, "_candidates", astray)
    assert build_index(data[0]).kind == "exact"
    index = build_index(data[0], kind="quantised")
    assert index.kind == "quantised"
    assert index.recall < 0.5


def test_without_faiss_the_extra_is_named(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtraError, match=r"labelspace\[neural\]"):
        build_index(data[0], kind="quantised")
    assert build_index(data[0], kind="exact").kind == "exact"


@pytest.mark.parametrize(
    ("options", "name"),
    [({"kind": "ivf"}, "kind"), ({"recall": 0}, "recall"), ({"recall": 1.1}, "recall")],
)
def test_parameters_out_of_range_are_named(data, options, name):
    with pytest.raises(ParameterError, match=name):
        build_index(data[0], **options)


def test_input_that_does_not_fit_is_refused(data):
    index = build_index(data[0])
    with pytest.raises(InputError, match="dimension 31"):
        index.search(np.ones((1, 31)), 5)
    with pytest.raises(InputError, match="NaN"):
        index.search(np.full((1, 32), np.nan), 5)
    with pytest.raises(InputError, match="two dimensions"):
        index.search(np.ones(32), 5)
    with pytest.raises(InputError, match="numbers"):
        build_index([["a"]])
    with pytest.raises(InputError, match="none are in them"):
        build_index(data[0], kind="quantised", queries=np.empty((0, 32)))
    with pytest.raises(ParameterError, match="k=0"):
        index.search(data[1], 0)
