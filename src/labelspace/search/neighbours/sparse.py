"""Exact neighbours by cosine on sparse features: an inverted index, read for a query's non-zeros.

Brute force as in scikit-learn multiplies whole blocks and keeps n x n_train results.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np
from scipy.sparse import csr_matrix, hstack, vstack

from labelspace._core.compiled import loop
from labelspace._core.growing_rows import GrowingRows
from labelspace._core.slots import new_table, slot_of
from labelspace._core.sparse import pack_csr, unit_rows, unpack_csr
from labelspace._core.sparse_loops import inverse_length
from labelspace._core.threads import parallel_blocks
from labelspace._core.top_k import keep_best
from labelspace.search.neighbours.voting import vote_of_one

# Entries of examples that updates added, which a query compares one by one, before they are merged
# into the index: a merge takes as long as all examples, a comparison of so many 0.1 ms.
_MOST_PENDING = 50_000
_FEW = 4  # a query that reads more postings than a share of 1 / _FEW of the examples scans all
_NO_ROWS = csr_matrix((0, 0), dtype=np.float32)
SMALLEST = np.float32(1e-6)  # cosine of a neighbour: below it, two examples share nothing


class SparseNeighbours:
    """Inverted index over examples of length 1.

    The last examples that updates added may wait beside the index, so that one more example does
    not cost as much as all of them. Cosines have the same bits either way.

    Parameters
    ----------
    postings : csr_matrix of shape (features, examples)
        The examples that have each feature, and its value there.
    """

    def __init__(self, postings: csr_matrix) -> None:
        self._postings = postings
        self._pending: GrowingRows | None = None  # examples behind those of the index
        self._rows: csr_matrix | None = None

    @property
    def postings(self) -> csr_matrix:
        """The examples that have each feature, (features, examples); merged at an access."""
        if self._pending is not None:
            more = csr_matrix(self._pending.matrix(self._postings.shape[0]).T)
            self._postings = csr_matrix(hstack([self._postings, more], "csr", np.float32))
            self._pending = None
        return self._postings

    def __len__(self) -> int:
        return int(self._postings.shape[1]) + (len(self._pending) if self._pending else 0)

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
        rows = X if scaled else unit_rows(X)
        if not rows.has_sorted_indices:  # sums in the order of features, as in the index
            rows = rows.sorted_indices()
        longer = SparseNeighbours(self._postings)
        pending = GrowingRows.of(rows) if self._pending is None else self._pending.plus(rows)
        longer._pending = pending
        if pending.nnz > _MOST_PENDING:
            longer.postings  # noqa: B018 - merges
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
        near = np.full((X.shape[0], k), -1, np.int64)
        cosines = np.zeros((X.shape[0], k), np.float32)
        arrays = self._arrays()

        def block(start: int, stop: int) -> None:
            queries = X.indptr[start : stop + 1], X.indices, X.data
            _nearest(*queries, *arrays, near[start:stop], cosines[start:stop])

        parallel_blocks(X.shape[0], block, block=64)
        return near, cosines

    def votes(
        self, X: csr_matrix, neighbours: int, power: float, Y: csr_matrix, k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return `rank_votes` of what `search` finds, in blocks: quicker for single queries."""
        labels = np.full((X.shape[0], k), -1, np.int64)
        shares = np.zeros((X.shape[0], k), np.float32)
        arrays = self._arrays()

        def block(start: int, stop: int) -> None:
            near = np.full((stop - start, neighbours), -1, np.int64)
            cosines = np.zeros(near.shape, np.float32)
            queries = X.indptr[start : stop + 1], X.indices, X.data
            _nearest(*queries, *arrays, near, cosines)
            vote_of_one(near, cosines, power, Y, labels[start:stop], shares[start:stop])

        parallel_blocks(X.shape[0], block, block=64)
        return labels, shares

    def _arrays(self) -> tuple[object, ...]:
        """Return what the loop takes of the index and of the examples beside it."""
        postings, rows = self._postings, _NO_ROWS
        if self._pending is not None:
            rows = self._pending.matrix(postings.shape[0])
        return (
            *(postings.indptr, postings.indices, postings.data, postings.shape[1]),
            *(rows.indptr, rows.indices, rows.data),
        )

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
    q_indptr, q_indices, q_data, p_indptr, p_indices, p_data, n_examples,
    r_indptr, r_indices, r_data, near, cosines,
):  # fmt: skip
    similarity = np.zeros(0, np.float32)  # of all examples, once a query meets many of them
    for row in range(len(q_indptr) - 1):
        scale = inverse_length(q_data, q_indptr[row], q_indptr[row + 1])
        many = 0
        for cell in range(q_indptr[row], q_indptr[row + 1]):
            many += p_indptr[q_indices[cell] + 1] - p_indptr[q_indices[cell]]
        filled = np.int64(0)  # a literal 0 would be a second type to compile
        if len(r_indptr) > 1:
            first, last = q_indptr[row], q_indptr[row + 1]
            table = new_table(last - first)
            for cell in range(first, last):
                table[slot_of(table, q_indices[first:last], q_indices[cell])] = cell - first
            for example in range(len(r_indptr) - 1):
                cosine = np.float32(0.0)
                for cell in range(r_indptr[example], r_indptr[example + 1]):
                    place = table[slot_of(table, q_indices[first:last], r_indices[cell])]
                    if place >= 0:
                        cosine += (scale * q_data[first + place]) * r_data[cell]
                if cosine > SMALLEST:
                    filled = keep_best(
                        cosine, n_examples + example, cosines[row], near[row], filled
                    )
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
