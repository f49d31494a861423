"""Scores of labels whose weights are sparse, in compiled loops, example by example.

Examples are brought to length 1 on the way. All labels are scored by feature (`best`): the labels a
feature speaks for are listed with it, or stand in an array where it speaks for a good part of them,
and a short list by label (`scores_of`): each candidate's
weights meet the example, spread out; where they are many, or examples few, the example's features
are looked up among them.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from scipy.sparse import csr_matrix

from labelspace._core.sparse_loops import inverse_length
from labelspace._core.threads import parallel_blocks
from labelspace._core.top_k import keep_best

_SPREAD = 8  # examples from which it pays to have a place for each feature
_MANY = 8  # weights for each feature of an example, from which looking up is quicker than reading


def best(
    X: csr_matrix,
    postings: csr_matrix | np.ndarray,
    offsets: np.ndarray,
    k: int,
    floor: float = -np.inf,
) -> tuple[np.ndarray, np.ndarray]:
    """The k labels of largest X @ postings + offsets above the floor, and these values.

    X         rows of any length, each divided by it here
    postings  (features, labels), sparse or an array with the same outcome; offsets (labels,)

    Rows with fewer are padded by -1 and -inf.
    """
    labels = np.full((X.shape[0], k), -1, np.int64)
    scores = np.full((X.shape[0], k), -np.inf, np.float32)

    def block(start: int, stop: int) -> None:
        given = X.indptr[start : stop + 1], X.indices, X.data
        wanted = offsets, np.float32(floor), labels[start:stop], scores[start:stop]
        if isinstance(postings, np.ndarray):
            _best_of_array(*given, postings, *wanted)
        else:
            _best(*given, postings.indptr, postings.indices, postings.data, *wanted)

    parallel_blocks(X.shape[0], block, block=64)
    return labels, scores


def scores_of(X: csr_matrix, weights: csr_matrix, candidates: np.ndarray) -> np.ndarray:
    """<x, w_l> + bias of each example's candidate labels, (n, k); -inf where the label is -1.

    weights     (labels, features + 1), the last column the bias; indices sorted
    candidates  (n, k) integers
    """
    scores = np.full(candidates.shape, -np.inf, np.float32)
    candidates = np.ascontiguousarray(candidates, np.int64)

    def block(start: int, stop: int) -> None:
        _scores_of(
            *(X.indptr[start : stop + 1], X.indices, X.data),
            *(weights.indptr, weights.indices, weights.data, weights.shape[1]),
            *(candidates[start:stop], scores[start:stop]),
        )

    parallel_blocks(X.shape[0], block, block=256)
    return scores


@njit(cache=True, nogil=True)
def _best(  # type: ignore[no-untyped-def]
    x_indptr, x_indices, x_data, indptr, indices, data, offsets, floor, labels, scores
):
    totals = np.empty(len(offsets), np.float32)
    for row in range(len(labels)):
        totals[:] = offsets
        scale = inverse_length(x_data, x_indptr[row], x_indptr[row + 1])
        for cell in range(x_indptr[row], x_indptr[row + 1]):
            feature, value = x_indices[cell], scale * x_data[cell]
            for posting in range(indptr[feature], indptr[feature + 1]):
                totals[indices[posting]] += value * data[posting]
        _keep_above(floor, totals, labels[row], scores[row])


@njit(cache=True, nogil=True)
def _best_of_array(  # type: ignore[no-untyped-def]
    x_indptr, x_indices, x_data, weights, offsets, floor, labels, scores
):
    totals = np.empty(len(offsets), np.float32)
    for row in range(len(labels)):
        totals[:] = offsets
        scale = inverse_length(x_data, x_indptr[row], x_indptr[row + 1])
        for cell in range(x_indptr[row], x_indptr[row + 1]):
            own, value = weights[x_indices[cell]], scale * x_data[cell]
            for label in range(len(totals)):
                totals[label] += value * own[label]
        _keep_above(floor, totals, labels[row], scores[row])


@njit(cache=True, nogil=True)
def _keep_above(floor, totals, labels, scores):  # type: ignore[no-untyped-def]
    filled = 0
    for label in range(len(totals)):
        if totals[label] > floor:
            filled = keep_best(totals[label], label, scores, labels, filled)


@njit(cache=True, nogil=True)
def _scores_of(  # type: ignore[no-untyped-def]
    x_indptr, x_indices, x_data, indptr, indices, data, width, candidates, scores
):
    spread = len(candidates) >= _SPREAD
    x = np.zeros(width if spread else 0, np.float32)
    if spread:
        x[width - 1] = 1.0
    for row in range(len(candidates)):
        first, last = x_indptr[row], x_indptr[row + 1]
        scale = inverse_length(x_data, first, last)
        if spread:
            for cell in range(first, last):
                x[x_indices[cell]] = scale * x_data[cell]
        for place in range(candidates.shape[1]):
            label = candidates[row, place]
            if label < 0:
                continue
            start, stop = indptr[label], indptr[label + 1]
            total = np.float32(0.0)
            if spread and stop - start <= _MANY * (last - first):
                for cell in range(start, stop):
                    total += x[indices[cell]] * data[cell]
            else:
                for cell in range(first, last):
                    at = _lookup(indices, start, stop, x_indices[cell])
                    if at >= 0:
                        total += scale * x_data[cell] * data[at]
                if indices[stop - 1] == width - 1:  # last, as above: not a bit may differ
                    total += data[stop - 1]
            scores[row, place] = total
        if spread:
            for cell in range(first, last):
                x[x_indices[cell]] = 0.0


@njit(cache=True, nogil=True)
def _lookup(indices, start, stop, wanted):  # type: ignore[no-untyped-def]
    """Where indices[start:stop], sorted, hold what is wanted, or -1."""
    low, high = start, stop
    while low < high:
        middle = (low + high) // 2
        if indices[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low if low < stop and indices[low] == wanted else -1
