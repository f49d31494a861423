"""Co-occurrence of labels, as the target of the GLaS regulariser (Guo et al. 2019, eq. 3).

With A = Y^T Y, A_ij counts the examples that have both labels i and j, and A_ii those of label i.
Each measure turns these counts into a similarity in [0, 1] that is 1 for a label with itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_matrix, identity, vstack

from labelspace._core.compiled import loop
from labelspace._core.sparse import rows_of
from labelspace.errors import InputError, ParameterError

Kind = Literal["arithmetic", "geometric", "jaccard", "pmi"]

CELLS_AT_A_TIME = 1 << 20  # bounds the float64 scratch of `_measure_in_place`


class CooccurrenceTarget:
    """The sparse matrix U that the Gram matrix of the label vectors should resemble.

    Parameters
    ----------
    Y : csr_matrix of shape (examples, labels)
        Ones.
    kind : {"arithmetic", "geometric", "jaccard", "pmi"}
        The similarity of labels i and j, with F(i|j) = A_ij / A_jj: the mean of F(i|j) and F(j|i),
        as in the paper; their geometric mean; A_ij / (A_ii + A_jj - A_ij); normalised pointwise
        mutual information, negative values as 0.
    max_labels_per_row : int
        A row of l labels has l^2 pairs. Of longer rows that many labels are drawn by `seed`, and
        weighted so that expected counts stay the same; pairs in few long rows may be missed.
    seed : int

    Attributes
    ----------
    U : csr_matrix of shape (labels, labels)
        Symmetric, float32; 1 on the diagonal, unused labels included.
    """

    def __init__(
        self,
        Y: csr_matrix,
        kind: Kind = "arithmetic",
        *,
        max_labels_per_row: int = 100,
        seed: int = 0,
    ) -> None:
        if kind not in MEASURES:
            raise ParameterError(f"kind={kind!r}: expected one of {', '.join(MEASURES)}")
        if max_labels_per_row < 2:
            raise ParameterError(
                f"max_labels_per_row={max_labels_per_row}: a pair needs at least 2 labels"
            )
        counts = np.bincount(Y.indices, minlength=Y.shape[1])
        # The identity below puts every diagonal cell into the product, unused labels included.
        rows = vstack(
            [_thinned(Y, max_labels_per_row, seed), identity(Y.shape[1], np.float32, "csr")], "csr"
        )
        self.U = csr_matrix(rows.T) @ rows
        self.U.sort_indices()
        _measure_in_place(self.U, np.maximum(counts, 1), max(Y.shape[0], 1), MEASURES[kind])

    def sparse_submatrix(self, labels: np.ndarray) -> csr_matrix:
        """Return U[labels, labels] as CSR; labels may repeat."""
        if len(labels) and not 0 <= labels.min() <= labels.max() < self.U.shape[0]:
            raise InputError(f"labels must be numbers from 0 to {self.U.shape[0] - 1}")
        distinct, place = np.unique(labels, return_inverse=True)
        # Zeros from the system cost nothing until touched, however many labels there are.
        rank = np.zeros(self.U.shape[0], np.int32)
        rank[distinct] = np.arange(1, len(distinct) + 1)
        lengths = self.U.indptr[distinct + 1] - self.U.indptr[distinct]
        indptr = np.zeros(len(distinct) + 1, self.U.indptr.dtype)
        indices = np.empty(int(np.minimum(lengths, len(distinct)).sum()), np.int32)
        data = np.empty(len(indices), np.float32)
        _gather(
            *(distinct, rank, self.U.indptr, self.U.indices, self.U.data),
            *(indptr, indices, data),
        )
        used = indptr[-1]
        block = csr_matrix((data[:used], indices[:used], indptr), shape=(len(distinct),) * 2)
        if np.array_equal(distinct, labels):
            return block
        block = block[place][:, place]
        block.sort_indices()
        return block


# Each measure takes the shares of all examples that have both labels, the one, and the other.


def _arithmetic(both: np.ndarray, one: np.ndarray, other: np.ndarray) -> Any:
    return 0.5 * (both / one + both / other)


def _geometric(both: np.ndarray, one: np.ndarray, other: np.ndarray) -> Any:
    return both / np.sqrt(one * other)


def _jaccard(both: np.ndarray, one: np.ndarray, other: np.ndarray) -> Any:
    return both / (one + other - both)


def _pmi(both: np.ndarray, one: np.ndarray, other: np.ndarray) -> Any:
    above_chance, most = np.log(both / (one * other)), -np.log(both)
    # A pair in every example has no information: 0 / 0 by the formula, 1 in the limit.
    share = np.divide(above_chance, most, out=np.ones_like(most), where=most > 0)
    return np.clip(share, 0.0, 1.0)


MEASURES: Mapping[str, Callable[[np.ndarray, np.ndarray, np.ndarray], Any]] = {
    "arithmetic": _arithmetic,
    "geometric": _geometric,
    "jaccard": _jaccard,
    "pmi": _pmi,
}


def _thinned(Y: csr_matrix, most: int, seed: int) -> csr_matrix:
    """Return Y with at most `most` labels per row, weighted to keep the expected pair counts."""
    lengths = np.diff(Y.indptr)
    if not (lengths > most).any():
        return csr_matrix((np.ones(Y.nnz, np.float32), Y.indices, Y.indptr), shape=Y.shape)
    row_of = rows_of(Y)
    shuffled = np.lexsort((np.random.default_rng(seed).random(Y.nnz), row_of))
    place_in_row = np.arange(Y.nnz) - Y.indptr[row_of]
    kept = np.sort(shuffled[place_in_row < most])
    # A pair stays with probability most (most - 1) / (l (l - 1)); a count multiplies two weights.
    chance = most * (most - 1) / np.maximum(lengths * (lengths - 1.0), most * (most - 1))
    weights = np.sqrt(1.0 / chance)[row_of[kept]].astype(np.float32)
    indptr = np.concatenate([[0], np.minimum(lengths, most).cumsum()])
    return csr_matrix((weights, Y.indices[kept], indptr), shape=Y.shape)


def _measure_in_place(
    A: csr_matrix, counts: np.ndarray, n_examples: int, measure: Callable[..., Any]
) -> None:
    """Replace co-occurrence counts by similarities, a bounded number of cells at a time."""
    shares = counts / n_examples
    for start in range(0, A.nnz, CELLS_AT_A_TIME):
        stop = min(start + CELLS_AT_A_TIME, A.nnz)
        first, last = np.searchsorted(A.indptr, [start, stop - 1], side="right") - 1
        edges = np.clip(A.indptr[first : last + 2], start, stop)
        one = np.repeat(shares[first : last + 1], np.diff(edges))
        other = shares[A.indices[start:stop]]
        # Weighted counts may come out above what a label has; the identity added 1 on the diagonal.
        both = np.minimum(A.data[start:stop] / n_examples, np.minimum(one, other))
        A.data[start:stop] = measure(both, one, other)


@loop
def _gather(labels, rank, indptr, indices, data, out_indptr, out_indices, out_data):  # type: ignore[no-untyped-def]
    """Copy the cells of the rows `labels` whose column has a rank, renumbered by rank - 1."""
    filled = 0
    for row in range(len(labels)):
        for cell in range(indptr[labels[row]], indptr[labels[row] + 1]):
            column = rank[indices[cell]]
            if column > 0:
                out_indices[filled] = column - 1
                out_data[filled] = data[cell]
                filled += 1
        out_indptr[row + 1] = filled
