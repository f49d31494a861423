"""Vectors in fewer bits: what is decoded, and that loops read the same numbers."""

from __future__ import annotations

import numpy as np
import pytest

from labelspace._core.schema import check_arrays
from labelspace.errors import ModelFormatError
from labelspace.search.build import build_index
from labelspace.search.stored_vectors import PRECISIONS, StoredVectors, vectors_schema


@pytest.fixture(scope="module")
def vectors():
    rng = np.random.default_rng(0)
    drawn = rng.standard_normal((500, 24)).astype(np.float32)
    drawn[:, -1] = -8 + rng.standard_normal(500)  # a bias: larger than the rest
    drawn[7, :-1] = 0
    return drawn


def test_half_precision_is_that_of_numpy(vectors):
    stored = StoredVectors.of(vectors, "float16")
    np.testing.assert_array_equal(stored[:], vectors.astype(np.float16).astype(np.float32))
    assert stored.shape == vectors.shape


def test_half_precision_holds_tiny_and_huge_numbers():
    row = np.array([[1e-7, -6e-8, 3e-5, 1e-12, 65504.0, 1e9, 0.0]], np.float32)
    stored = StoredVectors.of(row, "float16")
    index = build_index(stored, kind="exact")
    for column in range(row.shape[1]):  # the loop decodes bits itself
        query = np.zeros((1, row.shape[1]), np.float32)
        query[0, column] = 1
        assert index.search(query, 1)[1][0, 0] == stored[:][0, column]


def test_bytes_differ_by_half_a_step_at_most_and_keep_the_last_number(vectors):
    stored = StoredVectors.of(vectors, "int8")
    step = np.abs(vectors[:, :-1]).max(axis=1, keepdims=True) / 127
    assert (np.abs(stored[:] - vectors)[:, :-1] <= 0.501 * step).all()
    np.testing.assert_array_equal(stored[:][:, -1], vectors[:, -1])


@pytest.mark.parametrize("precision", ["float16", "int8"])
def test_what_is_decoded_is_encoded_as_it_was(vectors, precision):
    once = StoredVectors.of(vectors, precision)
    again = StoredVectors.of(once, precision)
    for name, array in once.arrays.items():
        np.testing.assert_allclose(again.arrays[name], array, rtol=1e-6)


@pytest.mark.parametrize("precision", ["float16", "int8"])
@pytest.mark.parametrize("kind", ["exact", "projected", "quantised"])
def test_an_index_scores_the_numbers_that_are_stored(vectors, precision, kind):
    stored = StoredVectors.of(vectors, precision)
    queries = vectors[:40] + 0.1
    labels, scores = build_index(stored, kind=kind, recall=0.5).search(queries, 6)
    products = np.einsum("nd,nkd->nk", queries, stored[:][labels])
    np.testing.assert_allclose(scores, products, rtol=2e-5, atol=2e-5)
    alone = build_index(stored, kind=kind, recall=0.5).search(queries[3:4], 6)
    np.testing.assert_array_equal(alone[1][0], scores[3])


def damaged():
    """Return broken arrays by precision, and what the error says."""
    vectors = np.random.default_rng(0).standard_normal((50, 24)).astype(np.float32)
    halves = StoredVectors.of(vectors, "float16").arrays
    codes = StoredVectors.of(vectors, "int8").arrays
    infinite = np.full_like(halves["halves"], np.inf)
    return [
        ("float32", {"full": vectors[:, :-1]}, "full has shape"),
        ("float32", {"full": vectors.astype(np.float64)}, "full has type"),
        ("float32", {"full": np.full_like(vectors, np.nan)}, "full has values out of range"),
        ("float32", halves, "full is missing"),
        ("float16", {"halves": halves["halves"][:-1]}, "halves has shape"),
        ("float16", {"halves": halves["halves"].astype(np.float32)}, "halves has type"),
        ("float16", {"halves": infinite}, "halves has values out of range"),
        ("int8", {**codes, "scales": codes["scales"][:-1]}, "scales has shape"),
        ("int8", {**codes, "scales": -codes["scales"]}, "scales has values out of range"),
        ("int8", {**codes, "codes": codes["codes"].astype(np.int16)}, "codes has type"),
        ("int8", {**codes, "codes": codes["codes"][:, :-1]}, "codes has shape"),
        ("int8", {**codes, "last": codes["last"].astype(np.float64)}, "last has type"),
        ("int8", {**codes, "full": vectors}, "full is no array"),
    ]


@pytest.mark.parametrize(("precision", "arrays", "message"), damaged())
def test_arrays_that_do_not_fit_are_refused(precision, arrays, message):
    schema = vectors_schema("", precision, "labels", "dim")
    with pytest.raises(ModelFormatError, match=message):
        check_arrays(schema, arrays, labels=50, dim=23)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_arrays_of_each_precision_are_declared(vectors, precision):
    arrays = {"full": vectors}
    if precision != "float32":
        arrays = StoredVectors.of(vectors, precision).arrays
    schema = vectors_schema("", precision, "labels", "dim")
    check_arrays(schema, arrays, labels=len(vectors), dim=vectors.shape[1] - 1)
