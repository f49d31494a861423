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
from scipy.sparse import csr_matrix, vstack

from labelspace._core.compiled import loop, loop_part
from labelspace._core.slots import slot_of
from labelspace._core.sparse import pack_csr, unit_rows, unpack_csr
from labelspace._core.sparse_loops import inverse_length
from labelspace._core.threads import parallel_blocks
from labelspace._core.top_k import keep_best, pop, push
from labelspace.search.neighbours.sparse import SMALLEST, rare_features
from labelspace.search.neighbours.voting import vote_of_one

CANDIDATES = 100  # examples per query that are compared in full
_READ = 128  # entries of a list that are read at a time
_MET = 1024  # examples that a query's table has room for, at first
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

    def __init__(
        self,
        postings: csr_matrix,
        max_postings: int,
        candidates: int,
        rows: csr_matrix | None = None,
    ) -> None:
        self.postings, self.rows = postings, csr_matrix(postings.T) if rows is None else rows
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
        rows = vstack([self.rows, more], "csr", np.float32)
        # Lists in order are merged: to sort them all would take many times as long.
        postings = _merged(self.postings, _by_size(more))
        return BoundedNeighbours(postings, self.max_postings, self.candidates, rows)

    def floats(self) -> dict[str, np.ndarray]:
        """Return all arrays of floats that are in memory, to be rounded in place."""
        return {"postings": self.postings.data, "rows": self.rows.data}

    def search(self, X: csr_matrix, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return k near examples (n, k) int64 and their cosines, best first; -1 and 0 pad."""
        near = np.full((X.shape[0], k), -1, np.int64)
        cosines = np.zeros((X.shape[0], k), np.float32)

        def block(start: int, stop: int) -> None:
            _nearest(*self._arrays(X, start, stop), near[start:stop], cosines[start:stop])

        parallel_blocks(X.shape[0], block, block=64, least=8)
        return near, cosines

    def votes(
        self, X: csr_matrix, neighbours: int, power: float, Y: csr_matrix, k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return `rank_votes` of what `search` finds, in blocks: quicker for single queries."""
        labels = np.full((X.shape[0], k), -1, np.int64)
        shares = np.zeros((X.shape[0], k), np.float32)

        def block(start: int, stop: int) -> None:
            near = np.full((stop - start, neighbours), -1, np.int64)
            cosines = np.zeros(near.shape, np.float32)
            _nearest(*self._arrays(X, start, stop), near, cosines)
            vote_of_one(near, cosines, power, Y, labels[start:stop], shares[start:stop])

        parallel_blocks(X.shape[0], block, block=64, least=8)
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
        max_postings: int,
        candidates: int = CANDIDATES,
    ) -> Self:
        """Return the index whose `state` the arrays are: a matrix of features by examples."""
        return cls(unpack_csr("postings", arrays), max_postings, candidates)


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


def _merged(one: csr_matrix, other: csr_matrix) -> csr_matrix:
    """Return the rows of two matrices beside each other, with the values of a row by size.

    Those of each matrix are by size; of equal ones, those of the first come first.
    """
    total = one.nnz + other.nnz
    offsets = np.int32 if total <= np.iinfo(np.int32).max else np.int64
    indptr = one.indptr.astype(offsets) + other.indptr.astype(offsets)
    indices, data = np.empty(total, np.int32), np.empty(total, np.float32)

    def block(start: int, stop: int) -> None:
        rows = slice(start, stop + 1)
        _merge_rows(
            *(one.indptr[rows], one.indices, one.data, other.indptr[rows], other.indices),
            *(other.data, one.shape[1], indptr[rows], indices, data),
        )

    parallel_blocks(one.shape[0], block, block=4096)
    shape = (one.shape[0], one.shape[1] + other.shape[1])
    return csr_matrix((data, indices, indptr), shape, copy=False)


@loop
def _merge_rows(  # type: ignore[no-untyped-def]
    a_indptr, a_indices, a_data, b_indptr, b_indices, b_data, shift, indptr, indices, data
):
    """Merge rows whose values are by size; columns of the second matrix follow the first's."""
    for row in range(len(indptr) - 1):
        a, a_end = a_indptr[row], a_indptr[row + 1]
        b, b_end = b_indptr[row], b_indptr[row + 1]
        for place in range(indptr[row], indptr[row + 1]):
            if b == b_end or (a < a_end and abs(a_data[a]) >= abs(b_data[b])):
                indices[place], data[place] = a_indices[a], a_data[a]
                a += 1
            else:
                indices[place], data[place] = shift + b_indices[b], b_data[b]
                b += 1


@loop
def _sort_rows(indptr, indices, data, sorted_indices, sorted_data):  # type: ignore[no-untyped-def]
    """Sort the values of each row by size; those of equal size keep their order."""
    for row in range(len(indptr) - 1):
        start, stop = indptr[row], indptr[row + 1]
        order = np.argsort(-np.abs(data[start:stop]), kind="mergesort")
        for place in range(stop - start):
            sorted_indices[start + place] = indices[start + order[place]]
            sorted_data[start + place] = data[start + order[place]]


@loop
def _nearest(  # type: ignore[no-untyped-def]
    q_indptr, q_indices, q_data, p_indptr, p_indices, p_data, x_indptr, x_indices, x_data,
    max_postings, candidates, near, cosines,
):  # fmt: skip
    for row in range(len(q_indptr) - 1):
        start, stop = q_indptr[row], q_indptr[row + 1]
        features = q_indices[start:stop]
        values = inverse_length(q_data, start, stop) * q_data[start:stop]
        examples, bounds = _read_lists(
            *(features, values, p_indptr, p_indices, p_data),
            *(max_postings, max(candidates, near.shape[1]), near.shape[1]),
        )
        # Nothing is added; the rows come into the cache together instead of one after the other.
        filled = min(_touched(examples, x_indptr, x_indices, x_data), 0)
        for place in range(len(examples)):
            if filled == near.shape[1] and bounds[place] < cosines[row, -1]:
                continue  # it cannot be nearer than the last neighbour
            cosine = _product(features, values, x_indptr, x_indices, x_data, examples[place])
            if cosine > SMALLEST:
                filled = keep_best(cosine, examples[place], cosines[row], near[row], filled)


@loop_part
def _touched(examples, indptr, indices, data):  # type: ignore[no-untyped-def]
    """Read the begin of each example's row; return a number that is not negative."""
    total = 0
    for example in examples:
        cell = indptr[example]
        total += indices[cell] + (data[cell] > 0.0)
    return total


@loop_part
def _read_lists(  # type: ignore[no-untyped-def]
    features, values, indptr, indices, data, max_postings, candidates, k
):
    """Read the lists of a query's features until no other example can be among the k nearest.

    Return the examples with the largest sums, nearly in their order, and the largest cosine that
    each can have: its sum, and the bounds of the lists in which it was not met.
    """
    place, bound = np.empty(len(features), np.int64), np.zeros(len(features), np.float32)
    queue_bounds = np.empty(len(features), np.float32)
    queue = np.empty(len(features), np.int64)
    queued, unread = np.int64(0), np.float32(0.0)
    for f in range(len(features)):
        place[f] = indptr[features[f]]
        if place[f] < indptr[features[f] + 1]:
            bound[f] = abs(values[f] * data[place[f]])
            queued = push(bound[f], f, queue_bounds, queue, queued)
    table = np.full(2 * _MET, -1, np.int32)
    # Of the examples met, in this order: number, sum of products, and the lists that have it.
    examples, sums, lists = (
        np.empty(_MET, np.int32),
        np.empty(_MET, np.float32),
        np.empty(_MET, np.uint64),
    )
    sizes = np.zeros(_SIZES, np.int64)  # how many sums are of which size
    met, read = 0, 0
    while queued > 0 and read < max_postings:
        f = queue[0]
        queued = pop(queue_bounds, queue, queued)
        end = indptr[features[f] + 1]
        stop = min(end, place[f] + _READ)
        while met + stop - place[f] > len(examples):
            examples, sums, lists = _longer(examples), _longer(sums), _longer(lists)
            table = _table_of(examples, met)
        # Lists beyond the 63rd are not told apart: then the bounds are larger than they might be.
        mark = np.uint64(1) << np.uint64(f) if f < 63 else np.uint64(0)
        for entry in range(place[f], stop):
            slot = slot_of(table, examples, indices[entry])
            number = table[slot]
            if number < 0:
                number = table[slot] = met
                examples[met], sums[met], lists[met] = indices[entry], 0.0, 0
                met += 1
            else:
                sizes[_size(sums[number])] -= 1
            sums[number] += values[f] * data[entry]
            lists[number] |= mark
            sizes[_size(sums[number])] += 1
        read += stop - place[f]
        place[f] = stop
        bound[f] = abs(values[f] * data[stop]) if stop < end else np.float32(0.0)
        if stop < end:
            queued = push(bound[f], f, queue_bounds, queue, queued)
        unread = bound.sum() + np.float32(_ROUNDING)
        if met >= k and _least(sizes, k) > unread:
            break
    chosen = _largest(sums[:met], sizes, candidates)
    bounds = np.empty(len(chosen), np.float32)
    for n in range(len(chosen)):
        bounds[n] = sums[chosen[n]] + unread
        for f in range(min(len(features), 63)):
            if lists[chosen[n]] >> np.uint64(f) & np.uint64(1):
                bounds[n] -= bound[f]
    return examples[chosen], bounds


@loop_part
def _largest(sums, sizes, count):  # type: ignore[no-untyped-def]
    """Return the places of the largest sums, class by class; within one they keep their order."""
    begins = np.empty(_SIZES, np.int64)
    total, size = 0, _SIZES
    while size > 0 and total < count:
        size -= 1
        begins[size] = total
        total += sizes[size]
    chosen = np.empty(total, np.int64)
    for place in range(len(sums)):
        own = _size(sums[place])
        if own >= size:
            chosen[begins[own]] = place
            begins[own] += 1
    return chosen[:count]


@loop_part
def _size(total):  # type: ignore[no-untyped-def]
    """Return the class of a sum by size; cosines are at most 1, and those below 0 do not matter."""
    return min(max(np.int64(total * _SIZES), 0), _SIZES - 1)


@loop_part
def _least(sizes, count):  # type: ignore[no-untyped-def]
    """Return a number that at least `count` sums reach: the lower end of a class of sizes."""
    size = _SIZES
    while size > 0 and count > 0:
        size -= 1
        count -= sizes[size]
    return np.float32(size / _SIZES) if size > 0 else np.float32(-np.inf)


@loop_part
def _table_of(examples, met):  # type: ignore[no-untyped-def]
    """Return a table of the numbers of the examples met, with twice as many slots as they need."""
    table = np.full(2 * len(examples), -1, np.int32)
    for number in range(met):
        table[slot_of(table, examples, examples[number])] = number
    return table


@loop_part
def _longer(array):  # type: ignore[no-untyped-def]
    """Return an array of four times the length that begins with this one."""
    longer = np.empty(4 * len(array), array.dtype)
    longer[: len(array)] = array
    return longer


@loop_part
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
