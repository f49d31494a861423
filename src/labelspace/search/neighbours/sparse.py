"""Exact neighbours by cosine on sparse features: an inverted index, read for a query's non-zeros.

Brute force as in scikit-learn multiplies whole blocks and keeps n x n_train results.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np
from scipy.sparse import csr_matrix, hstack, vstack

from labelspace._core.compiled import loop
from labelspace._core.slots import new_table, slot_of
from labelspace._core.sparse import pack_csr, unit_rows, unpack_csr
from labelspace._core.sparse_loops import inverse_length
from labelspace._core.threads import parallel_blocks
from labelspace._core.top_k import keep_best
from labelspace.search.neighbours.voting import vote_of_one

_FEW = 4  # a query that reads more postings than a share of 1 / _FEW of the examples scans all
SMALLEST = np.float32(1e-6)  # cosine of a neighbour: below it, two examples share nothing


class SparseNeighbours:
    """Inverted index over examples of length 1.

    Attributes
    ----------
    postings : csr_matrix of shape (features, examples)
        The examples that have each feature, and its value there.
    """

    def __init__(self, postings: csr_matrix) -> None:
        self.postings = postings
        self._rows: csr_matrix | None = None

    @property
    def rows(self) -> csr_matrix:
        """Return the same by example, of shape (examples, features), made at the first access."""
        if self._rows is None:
            self._rows = csr_matrix(self.postings.T)
        return self._rows

    @classmethod
    def of(cls, X: csr_matrix, common: float | None = None) -> Self:
        """Index the rows of X, without features that more than the share `common` of them have."""
        return cls(csr_matrix(rare_features(unit_rows(X), common).T))

    def extended(self, X: csr_matrix, *, scaled: bool = False) -> SparseNeighbours:
        """Return an index with further examples behind those of this one; `scaled`: as they are."""
        # CSR blocks are merged by one loop of scipy's, others by way of a list of all entries.
        rows = X if scaled else unit_rows(X)
        more = csr_matrix(rows.T)
        longer = SparseNeighbours(csr_matrix(hstack([self.postings, more], "csr", np.float32)))
        if self._rows is not None:
            longer._rows = csr_matrix(vstack([self._rows, rows], "csr", np.float32))
        return longer

    def floats(self) -> dict[str, np.ndarray]:
        """Return all arrays of floats that are in memory, to be rounded in place."""
        made = {} if self._rows is None else {"rows": self._rows.data}
        return {"postings": self.postings.data, **made}

    def search(self, X: csr_matrix, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the k nearest examples (n, k) int64 and their cosines, best first; -1 and 0 pad.

        Examples that share no feature with the query are no neighbours.
        """
        postings = self.postings
        near = np.full((X.shape[0], k), -1, np.int64)
        cosines = np.zeros((X.shape[0], k), np.float32)

        def block(start: int, stop: int) -> None:
            _nearest(
                *(X.indptr[start : stop + 1], X.indices, X.data),
                *(postings.indptr, postings.indices, postings.data, postings.shape[1]),
                *(near[start:stop], cosines[start:stop]),
            )

        parallel_blocks(X.shape[0], block, block=64)
        return near, cosines

    def votes(
        self, X: csr_matrix, neighbours: int, power: float, Y: csr_matrix, k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return `rank_votes` of what `search` finds, in blocks: quicker for single queries."""
        postings = self.postings
        labels = np.full((X.shape[0], k), -1, np.int64)
        shares = np.zeros((X.shape[0], k), np.float32)

        def block(start: int, stop: int) -> None:
            near = np.full((stop - start, neighbours), -1, np.int64)
            cosines = np.zeros(near.shape, np.float32)
            _nearest(
                *(X.indptr[start : stop + 1], X.indices, X.data),
                *(postings.indptr, postings.indices, postings.data, postings.shape[1]),
                *(near, cosines),
            )
            vote_of_one(near, cosines, power, Y, labels[start:stop], shares[start:stop])

        parallel_blocks(X.shape[0], block, block=64)
        return labels, shares

    def state(self) -> dict[str, np.ndarray]:
        return pack_csr("postings", self.postings)

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the index whose `state` the arrays are: a matrix of features by examples."""
        return cls(unpack_csr("postings", arrays))


def rare_features(X: csr_matrix, common: float | None) -> csr_matrix:
    """Return X without features that more than the share `common` of the rows have; None: all."""
    if common is None:
        return X
    rare = np.bincount(X.indices, minlength=X.shape[1]) <= common * X.shape[0]
    left = csr_matrix(X.multiply(rare))
    left.eliminate_zeros()
    return left


@loop
def _nearest(  # type: ignore[no-untyped-def]
    q_indptr, q_indices, q_data, p_indptr, p_indices, p_data, n_examples, near, cosines
):
    similarity = np.zeros(0, np.float32)  # of all examples, once a query meets many of them
    for row in range(len(q_indptr) - 1):
        scale = inverse_length(q_data, q_indptr[row], q_indptr[row + 1])
        many = 0
        for cell in range(q_indptr[row], q_indptr[row + 1]):
            many += p_indptr[q_indices[cell] + 1] - p_indptr[q_indices[cell]]
        filled = np.int64(0)  # a literal 0 would be a second type to compile
        if _FEW * many > n_examples:  # scanning all examples is cheaper than finding those met
            if len(similarity) == 0:
                similarity = np.zeros(n_examples, np.float32)
            for cell in range(q_indptr[row], q_indptr[row + 1]):
                feature, value = q_indices[cell], scale * q_data[cell]
                for posting in range(p_indptr[feature], p_indptr[feature + 1]):
                    similarity[p_indices[posting]] += value * p_data[posting]
            for example in range(n_examples):
                if similarity[example] > SMALLEST:
                    filled = keep_best(
                        similarity[example], example, cosines[row], near[row], filled
                    )
            similarity[:] = 0.0
            continue
        table = new_table(many)
        seen, sums = np.empty(many, np.int64), np.empty(many, np.float32)
        n_seen = 0
        for cell in range(q_indptr[row], q_indptr[row + 1]):
            feature, value = q_indices[cell], scale * q_data[cell]
            for posting in range(p_indptr[feature], p_indptr[feature + 1]):
                slot = slot_of(table, seen, p_indices[posting])
                if table[slot] < 0:
                    table[slot], seen[n_seen], sums[n_seen] = n_seen, p_indices[posting], 0.0
                    n_seen += 1
                sums[table[slot]] += value * p_data[posting]
        for s in range(n_seen):
            if sums[s] > SMALLEST:
                filled = keep_best(sums[s], seen[s], cosines[row], near[row], filled)
