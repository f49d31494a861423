"""Neighbours by cosine on sparse features, at a bounded cost per query.

The examples of a feature are listed by the size of its value there, the largest first. A query
reads the lists in the order of what they can still add to a cosine, and stops as soon as an example
that it has not met cannot be a neighbour, or after a given number of entries (score-at-a-time
evaluation, Anh & Moffat, SIGIR 2006). The most promising examples are then compared in full.
faiss has no such search on sparse vectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np
from numba import njit
from scipy.sparse import csr_matrix, vstack

from labelspace._core.sparse import pack_csr, unit_rows, unpack_csr
from labelspace._core.sparse_loops import inverse_length
from labelspace._core.threads import parallel_blocks
from labelspace._core.top_k import keep_best, pop, push
from labelspace.search.neighbours.sparse import SMALLEST, rare_features
from labelspace.search.neighbours.voting import vote_rows

CANDIDATES = 500  # examples per query that are compared in full
_READ = 128  # entries of a list that are read at a time
_TABLE = 1024  # slots of a query's table of cosines, at first
_SIZES = 512  # classes of cosines by size, to find the k-th largest
_ROUNDING = 1e-5  # by which sums of the same products in another order may differ


class BoundedNeighbours:
    """Inverted index over examples of length 1, read in part.

    Attributes
    ----------
    postings : csr_matrix of shape (features, examples)
        The examples that have each feature and its value there, the largest values first.
    rows : csr_matrix of shape (examples, features)
        The same by example.
    max_postings, candidates : int
        Entries to read, and examples to compare in full, per query.
    """

    def __init__(self, postings: csr_matrix, max_postings: int, candidates: int) -> None:
        self.postings, self.rows = postings, csr_matrix(postings.T)
        self.max_postings, self.candidates = max_postings, candidates

    @classmethod
    def of(
        cls,
        X: csr_matrix,
        max_postings: int,
        common: float | None = None,
        candidates: int = CANDIDATES,
    ) -> Self:
        """Index the rows of X, without features that more than the share `common` of them have."""
        return cls(_by_size(rare_features(unit_rows(X), common)), max_postings, candidates)

    def extended(self, X: csr_matrix, *, scaled: bool = False) -> BoundedNeighbours:
        """Return an index with further examples behind those of this one; `scaled`: as they are."""
        more = X if scaled else unit_rows(X)
        postings = _by_size(vstack([self.rows, more], "csr", np.float32))
        return BoundedNeighbours(postings, self.max_postings, self.candidates)

    def floats(self) -> dict[str, np.ndarray]:
        """Return all arrays of floats that are in memory, to be rounded in place."""
        return {"postings": self.postings.data, "rows": self.rows.data}

    def search(self, X: csr_matrix, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return k near examples (n, k) int64 and their cosines, best first; -1 and 0 pad."""
        near = np.full((X.shape[0], k), -1, np.int64)
        cosines = np.zeros((X.shape[0], k), np.float32)

        def block(start: int, stop: int) -> None:
            _nearest(*self._arrays(X, start, stop), near[start:stop], cosines[start:stop])

        parallel_blocks(X.shape[0], block, block=64)
        return near, cosines

    def votes(
        self, X: csr_matrix, neighbours: int, power: float, Y: csr_matrix, k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return `rank_votes` of what `search` finds, in one loop: quicker for single queries."""
        labels = np.full((X.shape[0], k), -1, np.int64)
        shares = np.zeros((X.shape[0], k), np.float32)

        def block(start: int, stop: int) -> None:
            _vote(
                *self._arrays(X, start, stop),
                *(neighbours, np.float32(power), Y.indptr, Y.indices, Y.shape[1]),
                *(labels[start:stop], shares[start:stop]),
            )

        parallel_blocks(X.shape[0], block, block=64)
        return labels, shares

    def _arrays(self, X: csr_matrix, start: int, stop: int) -> tuple[object, ...]:
        """Return what the loops take first: some queries, the index and its limits."""
        postings, rows = self.postings, self.rows
        return (
            *(X.indptr[start : stop + 1], X.indices, X.data),
            *(postings.indptr, postings.indices, postings.data),
            *(rows.indptr, rows.indices, rows.data),
            *(self.max_postings, self.candidates),
        )

    def state(self) -> dict[str, np.ndarray]:
        """Return the lists; `restore` makes the rows of them."""
        return pack_csr("postings", self.postings)

    @classmethod
    def restore(
        cls,
        arrays: Mapping[str, np.ndarray],
        shape: tuple[int, int],
        max_postings: int,
        candidates: int = CANDIDATES,
    ) -> Self:
        """Return the index whose `state` the arrays are; shape: features and examples."""
        return cls(unpack_csr("postings", arrays, shape), max_postings, candidates)


def _by_size(X: csr_matrix) -> csr_matrix:
    """Return the transposed matrix with the values of a row by size, the largest first."""
    postings = csr_matrix(X.T)
    indices, data = np.empty_like(postings.indices), np.empty_like(postings.data)

    def block(start: int, stop: int) -> None:
        _sort_rows(
            *(postings.indptr[start : stop + 1], postings.indices, postings.data, indices, data)
        )

    parallel_blocks(postings.shape[0], block, block=4096)
    return csr_matrix((data, indices, postings.indptr), postings.shape, copy=False)


@njit(cache=True, nogil=True)
def _sort_rows(indptr, indices, data, sorted_indices, sorted_data):  # type: ignore[no-untyped-def]
    """Sort the values of each row by size; those of equal size keep their order."""
    for row in range(len(indptr) - 1):
        start, stop = indptr[row], indptr[row + 1]
        order = np.argsort(-np.abs(data[start:stop]), kind="mergesort")
        for place in range(stop - start):
            sorted_indices[start + place] = indices[start + order[place]]
            sorted_data[start + place] = data[start + order[place]]


@njit(cache=True, nogil=True)
def _nearest(  # type: ignore[no-untyped-def]
    q_indptr, q_indices, q_data, p_indptr, p_indices, p_data, x_indptr, x_indices, x_data,
    max_postings, candidates, near, cosines,
):  # fmt: skip
    for row in range(len(q_indptr) - 1):
        start, stop = q_indptr[row], q_indptr[row + 1]
        features = q_indices[start:stop]
        values = inverse_length(q_data, start, stop) * q_data[start:stop]
        examples, sums, unread = _read_lists(
            features, values, p_indptr, p_indices, p_data, max_postings, candidates, near.shape[1]
        )
        filled = 0
        for place in range(len(examples)):
            if filled == near.shape[1] and sums[place] + unread + _ROUNDING < cosines[row, -1]:
                break  # neither this nor a later one can be nearer than the last neighbour
            cosine = _product(features, values, x_indptr, x_indices, x_data, examples[place])
            if cosine > SMALLEST:
                filled = keep_best(cosine, examples[place], cosines[row], near[row], filled)


@njit(cache=True, nogil=True)
def _read_lists(  # type: ignore[no-untyped-def]
    features, values, indptr, indices, data, max_postings, candidates, k
):
    """Read the lists of a query's features until no other example can be among the k nearest.

    Return the examples with the largest sums, these sums, the largest first, and the most that
    unread entries can add to them.
    """
    place, bound = np.empty(len(features), np.int64), np.zeros(len(features), np.float32)
    queue_bounds = np.empty(len(features), np.float32)
    queue = np.empty(len(features), np.int64)
    queued = 0
    for f in range(len(features)):
        place[f] = indptr[features[f]]
        if place[f] < indptr[features[f] + 1]:
            bound[f] = abs(values[f] * data[place[f]])
            queued = push(bound[f], f, queue_bounds, queue, queued)
    keys, sums = np.full(_TABLE, -1, np.int64), np.zeros(_TABLE, np.float32)
    sizes = np.zeros(_SIZES, np.int64)  # how many sums are of which size
    met, read = 0, 0
    while queued > 0 and read < max_postings:
        f = queue[0]
        queued = pop(queue_bounds, queue, queued)
        end = indptr[features[f] + 1]
        stop = min(end, place[f] + _READ)
        if 2 * (met + stop - place[f]) > len(keys):
            keys, sums = _grown(keys, sums)
        for entry in range(place[f], stop):
            slot = _slot(keys, indices[entry])
            if keys[slot] < 0:
                keys[slot] = indices[entry]
                met += 1
            else:
                sizes[_size(sums[slot])] -= 1
            sums[slot] += values[f] * data[entry]
            sizes[_size(sums[slot])] += 1
        read += stop - place[f]
        place[f] = stop
        bound[f] = abs(values[f] * data[stop]) if stop < end else np.float32(0.0)
        if stop < end:
            queued = push(bound[f], f, queue_bounds, queue, queued)
        if met >= k and _least(sizes, k) > bound.sum() + _ROUNDING:
            break
    chosen = np.flatnonzero((keys >= 0) & (sums >= _least(sizes, min(met, candidates))))
    chosen = chosen[np.argsort(-sums[chosen], kind="mergesort")][:candidates]
    return keys[chosen], sums[chosen], bound.sum()


@njit(cache=True, nogil=True)
def _size(total):  # type: ignore[no-untyped-def]
    """Return the class of a sum by size; cosines are at most 1, and those below 0 do not matter."""
    return min(max(np.int64(total * _SIZES), 0), _SIZES - 1)


@njit(cache=True, nogil=True)
def _least(sizes, count):  # type: ignore[no-untyped-def]
    """Return a number that at least `count` sums reach: the lower end of a class of sizes."""
    size = _SIZES
    while size > 0 and count > 0:
        size -= 1
        count -= sizes[size]
    return np.float32(size / _SIZES) if size > 0 else np.float32(-np.inf)


@njit(cache=True, nogil=True)
def _slot(keys, key):  # type: ignore[no-untyped-def]
    """Return the slot of a key, or a free one for it; the table's size is a power of two."""
    last = len(keys) - 1
    slot = (key * 0x9E3779B1 >> 7) & last
    while keys[slot] >= 0 and keys[slot] != key:
        slot = (slot + 1) & last
    return slot


@njit(cache=True, nogil=True)
def _grown(keys, sums):  # type: ignore[no-untyped-def]
    """Return a table of four times the size with the same content."""
    more_keys, more_sums = np.full(4 * len(keys), -1, np.int64), np.zeros(4 * len(keys), np.float32)
    for slot in range(len(keys)):
        if keys[slot] >= 0:
            new = _slot(more_keys, keys[slot])
            more_keys[new], more_sums[new] = keys[slot], sums[slot]
    return more_keys, more_sums


@njit(cache=True, nogil=True)
def _product(features, values, indptr, indices, data, example):  # type: ignore[no-untyped-def]
    """Return the inner product of a query and an example; both have their features in order."""
    total = np.float32(0.0)
    cell, stop = indptr[example], indptr[example + 1]
    for f in range(len(features)):
        while cell < stop and indices[cell] < features[f]:
            cell += 1
        if cell == stop:
            break
        if indices[cell] == features[f]:
            total += values[f] * data[cell]
    return total


@njit(cache=True, nogil=True)
def _vote(  # type: ignore[no-untyped-def]
    q_indptr, q_indices, q_data, p_indptr, p_indices, p_data, x_indptr, x_indices, x_data,
    max_postings, candidates, neighbours, power, y_indptr, y_indices, n_labels, labels, shares,
):  # fmt: skip
    near = np.full((len(labels), neighbours), -1)
    cosines = np.zeros((len(labels), neighbours), np.float32)
    _nearest(
        q_indptr, q_indices, q_data, p_indptr, p_indices, p_data, x_indptr, x_indices, x_data,
        max_postings, candidates, near, cosines,
    )  # fmt: skip
    shape, one = (len(labels), 1, neighbours), np.ones(1, np.float32)
    vote_rows(
        *(near.reshape(shape), cosines.reshape(shape), power * one, one),
        *(y_indptr, y_indices, n_labels, labels, shares),
    )
