"""Exact neighbours by cosine on sparse features: an inverted index, walked for a query's non-zeros.

The lists of frequent features are the longest and say the least: they are walked only as far as
they can change the answer (after Turtle and Flood's MaxScore, 1995). scikit-learn's brute force
multiplies whole blocks and keeps n x n_train results.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np
from numba import njit
from scipy.sparse import csr_matrix, hstack

from labelspace.parallel import over_rows
from labelspace.search.votes import keep_best
from labelspace.sparse import pack_csr, unit_rows, unpack_csr


class SparseNeighbours:
    """postings: one row a feature, with the examples that have it and how much of it."""

    def __init__(self, postings: csr_matrix) -> None:
        self.postings = postings
        self.postings.sort_indices()
        self._largest = _largest(postings)

    @classmethod
    def of(cls, X: csr_matrix) -> Self:
        return cls(csr_matrix(unit_rows(X).T))

    def extended(self, X: csr_matrix) -> SparseNeighbours:
        """With further examples behind those here."""
        return SparseNeighbours(hstack([self.postings, unit_rows(X).T], "csr", np.float32))

    def search(self, X: csr_matrix, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k nearest examples (n, k) int64 and their cosines, best first; -1 and 0 pad.

        Examples without a common feature are no neighbours.
        """
        postings = self.postings
        near = np.full((X.shape[0], k), -1, np.int64)
        cosines = np.zeros((X.shape[0], k), np.float32)

        def block(start: int, stop: int) -> None:
            _nearest(
                *(X.indptr[start : stop + 1], X.indices, X.data),
                *(postings.indptr, postings.indices, postings.data),
                *(self._largest, postings.shape[1]),
                *(near[start:stop], cosines[start:stop]),
            )

        over_rows(X.shape[0], block, block=64)
        return near, cosines

    def state(self) -> dict[str, np.ndarray]:
        return pack_csr("postings", self.postings)

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        return cls(unpack_csr("postings", arrays))


def _largest(postings: csr_matrix) -> np.ndarray:
    """The largest value of each feature; infinite where one is below zero."""
    largest = np.zeros(postings.shape[0], np.float32)
    rows = np.repeat(np.arange(postings.shape[0]), np.diff(postings.indptr))
    np.maximum.at(largest, rows, np.where(postings.data < 0, np.inf, postings.data))
    return largest


@njit(cache=True, nogil=True)
def inverse_length(data, start, stop):  # type: ignore[no-untyped-def]
    """1 / |row| of a row's non-zeros data[start:stop], 1 if it has none: `unit_rows` in a loop."""
    square = np.float32(0.0)
    for cell in range(start, stop):
        square += data[cell] * data[cell]
    return np.float32(1.0) / np.sqrt(square) if square > 0.0 else np.float32(1.0)


@njit(cache=True, nogil=True)
def _nearest(  # type: ignore[no-untyped-def]
    q_indptr, q_indices, q_data, p_indptr, p_indices, p_data, largest, n_examples, near, cosines
):
    """Features go by the length of their lists, rare ones first, and the last may not be walked.

    Once what all further features can add (`rest`) is less than what the k-th best has already, no
    new example can come in: those that still can are looked up in the lists one by one.
    """
    similarity = np.zeros(n_examples, np.float32)
    marked = np.zeros(n_examples, np.bool_)
    seen = np.empty(n_examples, np.int64)
    k = near.shape[1]
    best_values, best_items = np.empty(k, np.float32), np.empty(k, np.int64)
    for row in range(len(q_indptr) - 1):
        features = q_indices[q_indptr[row] : q_indptr[row + 1]]
        scale = inverse_length(q_data, q_indptr[row], q_indptr[row + 1])
        values = scale * q_data[q_indptr[row] : q_indptr[row + 1]]
        lengths = p_indptr[features + 1] - p_indptr[features]
        order = np.argsort(lengths, kind="mergesort")
        rest = _what_is_left(features, values, order, largest)
        n_seen, walked, floor = 0, len(order), np.float32(0.0)
        for place in range(len(order)):
            cell = order[place]
            if lengths[cell] > n_seen and n_seen >= k and rest[place] < np.inf:
                filled = 0
                for s in range(n_seen):
                    filled = keep_best(
                        similarity[seen[s]], seen[s], best_values, best_items, filled
                    )
                if rest[place] < best_values[k - 1]:
                    walked, floor = place, best_values[k - 1] - rest[place]
                    break
            start, stop = p_indptr[features[cell]], p_indptr[features[cell] + 1]
            for posting in range(start, stop):
                example = p_indices[posting]
                if not marked[example]:
                    marked[example] = True
                    seen[n_seen] = example
                    n_seen += 1
                similarity[example] += values[cell] * p_data[posting]
        filled = 0
        for s in range(n_seen):
            example = seen[s]
            found = similarity[example]
            similarity[example], marked[example] = 0.0, False
            if found < floor:
                continue
            for place in range(walked, len(order)):
                cell = order[place]
                start, stop = p_indptr[features[cell]], p_indptr[features[cell] + 1]
                posting = start + np.searchsorted(p_indices[start:stop], example)
                if posting < stop and p_indices[posting] == example:
                    found += values[cell] * p_data[posting]
            if found > 1e-6:
                filled = keep_best(found, example, cosines[row], near[row], filled)


@njit(cache=True, nogil=True)
def _what_is_left(features, values, order, largest):  # type: ignore[no-untyped-def]
    """At most so much can the features from a place of the order on add to a cosine.

    By the largest value each has anywhere, and by length: examples have length 1. Infinite where
    values below zero could take away again.
    """
    rest = np.empty(len(order), np.float32)
    total, square = 0.0, 0.0
    for place in range(len(order) - 1, -1, -1):
        cell = order[place]
        total += values[cell] * largest[features[cell]]
        square += values[cell] * values[cell]
        if values[cell] < 0.0:
            total = np.inf
        # A little more, for what rounding may add.
        rest[place] = 1.0001 * min(total, np.sqrt(square)) + 1e-6 if total < np.inf else np.inf
    return rest
