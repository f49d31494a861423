"""The co-occurrence target against set arithmetic in plain loops, on whole matrices and blocks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace.data.formats.xc import read_matrix
from labelspace.errors import InputError, ParameterError
from labelspace.labels import cooccurrence
from labelspace.labels.cooccurrence import CooccurrenceTarget

KINDS = ["arithmetic", "geometric", "jaccard", "pmi"]


def random_labels(n=60, n_labels=20, density=0.15, seed=0):
    """Draw labels: one is never used, two are in every example, two always occur together."""
    Y = np.random.default_rng(seed).random((n, n_labels)) < density
    Y[:, 3] = False  # never used
    Y[:, 5] = True  # in every example
    Y[:, 6] = True
    Y[:, 7] = Y[:, 8]  # always together
    return csr_matrix(Y.astype(np.float32))


def by_sets(Y, kind):
    """Compute the definition label by label, on the sets of their examples."""
    n, n_labels = Y.shape
    carriers = [set(np.flatnonzero(column)) for column in Y.toarray().T]
    U = np.eye(n_labels)
    for i in range(n_labels):
        for j in range(n_labels):
            both = len(carriers[i] & carriers[j])
            if i == j or both == 0:
                continue
            given_j, given_i = both / len(carriers[j]), both / len(carriers[i])
            if kind == "arithmetic":
                U[i, j] = (given_i + given_j) / 2
            elif kind == "geometric":
                U[i, j] = math.sqrt(given_i * given_j)
            elif kind == "jaccard":
                U[i, j] = both / len(carriers[i] | carriers[j])
            elif both == n:
                U[i, j] = 1.0
            else:
                pmi = math.log(given_j / (len(carriers[i]) / n))
                U[i, j] = max(0.0, pmi / -math.log(both / n))
    return U


@pytest.mark.parametrize("kind", KINDS)
def test_matches_the_definition(kind) -> None:
    Y = random_labels()
    U = CooccurrenceTarget(Y, kind).U
    assert U.dtype == np.float32
    assert U.has_canonical_format
    np.testing.assert_allclose(U.toarray(), by_sets(Y, kind), atol=1e-6)


def test_the_default_is_equation_3() -> None:
    Y = random_labels().toarray()[:, [0, 1, 2, 4, 5, 9]]
    A = Y.T @ Y
    inverse_Z = np.diag(1 / np.diag(A))
    expected = 0.5 * (A @ inverse_Z + inverse_Z @ A)
    np.testing.assert_allclose(CooccurrenceTarget(csr_matrix(Y)).U.toarray(), expected, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_is_symmetric_within_bounds_and_one_on_the_diagonal(kind) -> None:
    U = CooccurrenceTarget(random_labels(seed=1), kind).U
    assert abs(U - U.T).max() < 1e-7
    assert U.data.min() >= 0.0
    assert U.data.max() <= 1.0
    assert (U.diagonal() == 1.0).all(), "exactly, unused labels included"


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_of_cells_fit_together(kind, monkeypatch) -> None:
    Y = random_labels()
    whole = CooccurrenceTarget(Y, kind).U
    monkeypatch.setattr(cooccurrence, "CELLS_AT_A_TIME", 7)
    blocks = CooccurrenceTarget(Y, kind).U
    assert (whole != blocks).nnz == 0


@pytest.mark.parametrize("kind", KINDS)
def test_no_examples_ask_for_orthogonal_labels(kind) -> None:
    U = CooccurrenceTarget(csr_matrix((0, 4), dtype=np.float32), kind).U
    np.testing.assert_array_equal(U.toarray(), np.eye(4))


def test_measures_keep_their_order_on_real_labels(shared_data) -> None:
    Y = read_matrix(shared_data("eurlex-4k-labels") / "trn_X_Y.txt.gz")
    arithmetic, geometric, jaccard = (CooccurrenceTarget(Y, kind).U for kind in KINDS[:3])
    assert (geometric - arithmetic).max() < 1e-6
    assert (jaccard - geometric).max() < 1e-6
    assert arithmetic.nnz == (Y.T @ Y).nnz + (np.bincount(Y.indices, minlength=3993) == 0).sum()


@pytest.mark.parametrize(
    "labels",
    [[0, 4, 7, 8, 19], [8, 3, 7, 0], [7, 7, 3, 8, 7, 3], [5], [], list(range(20))],
    ids=["sorted", "unsorted", "repeated", "one", "none", "all"],
)
def test_submatrix_is_the_block_of_the_whole(labels) -> None:
    target = CooccurrenceTarget(random_labels())
    labels = np.array(labels, np.int64)
    block = target.sparse_submatrix(labels)
    assert block.dtype == np.float32
    assert block.has_canonical_format
    np.testing.assert_array_equal(block.toarray(), target.U.toarray()[np.ix_(labels, labels)])


def test_labels_out_of_range_are_refused() -> None:
    target = CooccurrenceTarget(random_labels())
    for labels in ([0, 20], [-1, 2]):
        with pytest.raises(InputError, match="0 to 19"):
            target.sparse_submatrix(np.array(labels))


def test_long_rows_are_thinned_but_right_on_average() -> None:
    rng = np.random.default_rng(3)
    dense = np.zeros((400, 12), np.float32)
    for row in dense:  # up to 6 labels, of which 4 may stay
        row[rng.choice(12, size=rng.integers(1, 7), replace=False, p=np.arange(1, 13) / 78)] = 1
    Y = csr_matrix(dense)
    exact = CooccurrenceTarget(Y).U.toarray()
    drawn = [
        CooccurrenceTarget(Y, max_labels_per_row=4, seed=seed).U.toarray() for seed in range(60)
    ]
    spread = np.std(drawn, axis=0)
    assert spread.max() > 0.01, "something was left out"
    assert (np.abs(np.mean(drawn, axis=0) - exact) <= 4 * spread / math.sqrt(60) + 1e-6).all()


def test_thinning_repeats_itself_and_spares_short_rows() -> None:
    Y = random_labels()
    longest = int(np.diff(Y.indptr).max())
    first, again, other = (
        CooccurrenceTarget(Y, max_labels_per_row=3, seed=seed).U for seed in (0, 0, 1)
    )
    assert (first != again).nnz == 0
    assert (first != other).nnz > 0
    assert first.data.max() <= 1.0, "weighted counts stay below those of the labels"
    spared = CooccurrenceTarget(Y, max_labels_per_row=longest).U
    assert (spared != CooccurrenceTarget(Y).U).nnz == 0


def test_bad_parameters_are_named() -> None:
    with pytest.raises(ParameterError, match="kind='cosine'"):
        CooccurrenceTarget(random_labels(), "cosine")
    with pytest.raises(ParameterError, match="max_labels_per_row=1"):
        CooccurrenceTarget(random_labels(), max_labels_per_row=1)
