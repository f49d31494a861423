"""Vectors in fewer bits: what is decoded, and that loops read the same numbers."""

from __future__ import annotations

import numpy as np
import pytest

from labelspace.errors import ModelFormatError
from labelspace.search.build import build_index
from labelspace.search.stored_vectors import StoredVectors


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


def test_arrays_that_do_not_fit_are_refused(vectors):
    halves = StoredVectors.of(vectors, "float16").arrays
    codes = StoredVectors.of(vectors, "int8").arrays
    for arrays in (
        {"halves": halves["halves"][:-1]},
        {"halves": halves["halves"].astype(np.float32)},
        {**codes, "scales": codes["scales"][:-1]},
        {**codes, "codes": codes["codes"].astype(np.int16)},
        {**codes, "last": codes["last"].astype(np.float64)},
    ):
        with pytest.raises(ModelFormatError, match="do not fit"):
            StoredVectors.restore(arrays, *vectors.shape)
