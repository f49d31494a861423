"""Scores of candidates with sparse weights."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix, hstack, random, random_array

from labelspace.classifiers.sparse_scores import best, scores_of

FEATURES, LABELS = 60, 25


def weights_of(share, rng):
    """Return weights of labels with a bias each, but none at all for label 3."""
    given = csr_matrix(random_array((LABELS, FEATURES), density=share, rng=rng, dtype=np.float32))
    bias = csr_matrix(rng.random((LABELS, 1)).astype(np.float32))
    weights = csr_matrix(hstack([given, bias]))
    weights.data[weights.indptr[3] : weights.indptr[4]] = 0.0
    weights.eliminate_zeros()
    return weights


# Short rows of weights are merged with the features, in long ones features are looked up.
@pytest.mark.parametrize(("share", "density"), [(0.1, 0.3), (0.9, 0.05), (0.5, 0.0)])
def test_one_example_is_scored_as_in_a_batch_and_as_by_dense_matrices(share, density):
    rng = np.random.default_rng(0)
    weights = weights_of(share, rng)
    X = csr_matrix(random_array((40, FEATURES), density=density, rng=rng, dtype=np.float32))
    candidates = np.argsort(rng.random((40, LABELS)), axis=1)
    candidates[:, -1] = -1
    together = scores_of(X, weights, candidates)
    for row in range(40):
        alone = scores_of(X[row : row + 1], weights, candidates[row : row + 1])
        np.testing.assert_array_equal(alone[0], together[row])
    length = np.maximum(np.linalg.norm(X.toarray(), axis=1, keepdims=True), 1e-12)
    dense = (X.toarray() / length) @ weights.toarray()[:, :-1].T + weights.toarray()[:, -1]
    expected = np.take_along_axis(dense, candidates, axis=1)
    np.testing.assert_allclose(together[:, :-1], expected[:, :-1], atol=1e-5)
    assert (together[:, -1] == -np.inf).all()


@pytest.mark.parametrize("k", [1, 5, 60])
@pytest.mark.parametrize("bounded", [False, True])
def test_labels_that_no_feature_has_are_ranked_by_their_offsets(k, bounded):
    """Whether all labels are scored or those of the example's features alone, bits are the same."""
    rng = np.random.default_rng(k)
    postings = random(60, 900, 0.004, format="csr", random_state=1, dtype=np.float32)
    postings.data -= 0.3
    offsets = np.round(rng.normal(-3, 1, 900), 1).astype(np.float32)  # many are equal
    offsets[::7] = -np.inf
    X = random(40, 60, 0.1, format="csr", random_state=2, dtype=np.float32)
    X.data[X.indptr[3] : X.indptr[4]] = 0
    highest = float(offsets.max()) if bounded else np.inf
    found = best(X, postings, offsets, k, highest)
    for row in range(40):
        for one, all_rows in zip(best(X[row], postings, offsets, k, highest), found, strict=True):
            np.testing.assert_array_equal(one[0], all_rows[row])
    expected = best(X, postings.toarray(), offsets, k)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
