"""Product quantisation: codebooks, candidates by inner product and by distance, none missing."""

from __future__ import annotations

import numpy as np
import pytest

from labelspace.errors import StoreError
from labelspace.search.product_codes import (
    N_CENTROIDS,
    ProductCodes,
    stored_codebook,
    train_codebook,
)

pytest.importorskip("faiss")


@pytest.fixture(scope="module")
def vectors():
    return np.random.default_rng(0).standard_normal((600, 7)).astype(np.float32)


def decoded(codes, vectors):
    """Return each subvector as its nearest centroid."""
    padded = np.pad(vectors, ((0, 0), (0, -vectors.shape[1] % codes.subdim)))
    parts = padded.reshape(len(vectors), codes.n_subquantisers, 1, codes.subdim)
    nearest = np.square(parts - codes.codebook[None]).sum(axis=3).argmin(axis=2)
    return codes.codebook[np.arange(codes.n_subquantisers), nearest].reshape(len(vectors), -1)


@pytest.mark.parametrize("subdim", [1, 2, 4])
@pytest.mark.parametrize("by_distance", [False, True])
def test_candidates_are_the_best_by_their_codes(vectors, subdim, by_distance):
    codebook = train_codebook(vectors, subdim, seed=0)
    assert codebook.shape == (-(-7 // subdim), N_CENTROIDS, subdim)
    codes = ProductCodes(vectors, codebook, by_distance=by_distance)
    queries = np.random.default_rng(1).standard_normal((20, 7)).astype(np.float32)
    found = codes.candidates(queries, 50)
    rows = decoded(codes, vectors)
    padded = np.pad(queries, ((0, 0), (0, rows.shape[1] - 7)))
    scores = padded @ rows.T
    if by_distance:
        scores = -np.square(padded[:, None] - rows[None]).sum(axis=2)
    for row in range(20):
        assert len(set(found[row].tolist())) == 50
        # The scan adds numbers of 8 bits: it may confuse scores that are nearly equal.
        kth = np.sort(scores[row])[-50]
        slack = 0.05 * (scores[row].max() - scores[row].min())
        assert scores[row, found[row]].min() >= kth - slack


@pytest.mark.parametrize("by_distance", [False, True])
@pytest.mark.parametrize("size", [3, 40])
def test_all_vectors_can_be_candidates(by_distance, size):
    """faiss leaves out the worst codes of all, here where vectors are alike and far away."""
    vectors = np.full((40, 4), 1e6, np.float32)
    vectors[:2] = 0
    codes = ProductCodes(vectors, train_codebook(vectors, 2, seed=0), by_distance=by_distance)
    found = codes.candidates(np.array([[0, 0, 0, 0], [-1e6] * 4], np.float32), size)
    for row in found:
        assert len(set(row.tolist())) == size
        assert row.min() >= 0
        assert row.max() < 40


@pytest.mark.parametrize("by_distance", [False, True])
@pytest.mark.parametrize("n_known", [1, 64, 300, 600])
def test_known_codes_are_not_made_again(vectors, by_distance, n_known):
    codebook = train_codebook(vectors, 2, seed=0)
    expected = ProductCodes(vectors, codebook, by_distance=by_distance)
    known = ProductCodes(vectors[:n_known], codebook, by_distance=by_distance).packed
    unread = vectors.copy()
    unread[:n_known] = np.nan
    codes = ProductCodes(unread, codebook, by_distance=by_distance, known=known, n_known=n_known)
    np.testing.assert_array_equal(codes.packed, expected.packed)
    queries = np.random.default_rng(1).standard_normal((5, 7)).astype(np.float32)
    np.testing.assert_array_equal(codes.candidates(queries, 20), expected.candidates(queries, 20))


def test_codes_of_another_number_of_vectors_are_refused(vectors):
    codebook = train_codebook(vectors, 2, seed=0)
    packed = ProductCodes(vectors, codebook).packed
    for damaged in (packed[:-1], packed[:0], packed.astype(np.int64), packed.reshape(2, -1)):
        with pytest.raises(StoreError, match="do not fit"):
            ProductCodes(vectors, codebook, known=damaged, n_known=len(vectors))


def test_the_same_seed_trains_the_same_codebook(vectors):
    once, again = (train_codebook(vectors, 2, seed=3) for _ in range(2))
    np.testing.assert_array_equal(once, again)
    np.testing.assert_array_equal(stored_codebook({"codebook": once}, 7), once)
