"""Scores of labels with sparse weights, in compiled loops over the examples.

Examples are scaled to length 1 in the loop. `best` ranks all labels, through lists of labels by
feature, or an array where a good part of all weights is not zero. Where an example's features have
few labels, these alone are scored: the others are ranked by their offsets. `scores_of` scores short
lists of candidates: the weights of a candidate are multiplied by the example as a dense vector, or,
with few examples, merged with its features; where weights are many, the features are looked up in
them.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.compiled import loop, loop_part
from labelspace._core.slots import new_table, slot_of
from labelspace._core.sparse_loops import inverse_length
from labelspace._core.threads import parallel_blocks
from labelspace._core.top_k import keep_best

_FEW = 8  # an example whose lists have more than 1 / _FEW of the labels is scored on all of them
_MIN_DENSE = 8  # examples from which a dense vector pays
_MANY = 8  # weights per feature of the example, above which looking features up is faster


def best(
    X: csr_matrix,
    postings: csr_matrix | np.ndarray,
    offsets: np.ndarray,
    k: int,
    highest: float = np.inf,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k labels with the largest scores X @ postings + offsets, and the scores.

    Parameters
    ----------
    X : csr_matrix of shape (n, n_features)
        Rows are scaled to length 1 here.
    postings : csr_matrix or ndarray of shape (n_features, n_labels)
        Weights; both forms give the same bits.
    offsets : ndarray of shape (n_labels,)
        A label whose offset is -inf is left out.
    k : int
    highest : float
        The largest offset, if it is at hand, or more: where k labels score higher, others are not
        looked at.

    Returns
    -------
    labels, scores : ndarray of shape (n, k)
        Rows with fewer labels are padded with -1 and -inf.
    """
    labels = np.full((X.shape[0], k), -1, np.int64)
    scores = np.full((X.shape[0], k), -np.inf, np.float32)

    def block(start: int, stop: int) -> None:
        given = X.indptr[start : stop + 1], X.indices, X.data
        wanted = offsets, labels[start:stop], scores[start:stop]
        if isinstance(postings, np.ndarray):
            _best_of_array(*given, postings, *wanted)
        else:
            arrays = postings.indptr, postings.indices, postings.data
            _best(*given, *arrays, np.float32(highest), *wanted)

    parallel_blocks(X.shape[0], block, block=64, least=8)
    return labels, scores


def scores_of(X: csr_matrix, weights: csr_matrix, candidates: np.ndarray) -> np.ndarray:
    """Return the scores <x, w_l> + b_l of given labels.

    Parameters
    ----------
    X : csr_matrix of shape (n, n_features)
        Rows are scaled to length 1 here.
    weights : csr_matrix of shape (n_labels, n_features + 1)
        The last column is the bias; indices are sorted.
    candidates : ndarray of int of shape (n, k)
        Labels per row; -1 pads.

    Returns
    -------
    ndarray of shape (n, k)
        -inf where the label is -1.
    """
    scores = np.full(candidates.shape, -np.inf, np.float32)
    candidates = np.ascontiguousarray(candidates, np.int64)

    def block(start: int, stop: int) -> None:
        _scores_of(
            *(X.indptr[start : stop + 1], X.indices, X.data),
            *(weights.indptr, weights.indices, weights.data, weights.shape[1]),
            *(candidates[start:stop], scores[start:stop]),
        )

    parallel_blocks(X.shape[0], block, block=256, least=8)
    return scores


@loop
def _best(  # type: ignore[no-untyped-def]
    x_indptr, x_indices, x_data, indptr, indices, data, highest, offsets, labels, scores
):
    """Score labels by lists of labels per feature."""
    totals = np.empty(0, np.float32)  # of all labels, once an example has many of them
    for row in range(len(labels)):
        many = 0
        for cell in range(x_indptr[row], x_indptr[row + 1]):
            many += indptr[x_indices[cell] + 1] - indptr[x_indices[cell]]
        if _FEW * many < len(offsets):
            given = x_indptr[row], x_indptr[row + 1], x_indices, x_data
            _best_of_few(
                *(given, indptr, indices, data, many, highest, offsets, labels[row], scores[row])
            )
            continue
        if len(totals) == 0:
            totals = np.empty(len(offsets), np.float32)
        for label in range(len(totals)):  # a copied slice takes seconds to compile
            totals[label] = offsets[label]
        scale = inverse_length(x_data, x_indptr[row], x_indptr[row + 1])
        for cell in range(x_indptr[row], x_indptr[row + 1]):
            feature, value = x_indices[cell], scale * x_data[cell]
            for posting in range(indptr[feature], indptr[feature + 1]):
                totals[indices[posting]] += value * data[posting]
        _keep_finite(totals, labels[row], scores[row])


@loop_part
def _best_of_few(given, indptr, indices, data, many, highest, offsets, labels, scores):  # type: ignore[no-untyped-def]
    """Score the labels that some feature has, in the same order of sums; then rank all others."""
    first, last, x_indices, x_data = given
    scale = inverse_length(x_data, first, last)
    table = new_table(many)
    seen, sums = np.empty(many, np.int64), np.empty(many, np.float32)
    n_seen = 0
    for cell in range(first, last):
        feature, value = x_indices[cell], scale * x_data[cell]
        for posting in range(indptr[feature], indptr[feature + 1]):
            label = indices[posting]
            slot = slot_of(table, seen, label)
            if table[slot] < 0:
                table[slot], seen[n_seen], sums[n_seen] = n_seen, label, offsets[label]
                n_seen += 1
            sums[table[slot]] += value * data[posting]
    filled = np.int64(0)
    for place in range(n_seen):
        if sums[place] > -np.inf:
            filled = keep_best(sums[place], seen[place], scores, labels, filled)
    if filled == len(labels) and scores[filled - 1] > highest:
        return
    for label in range(len(offsets)):
        offset = offsets[label]
        if offset == -np.inf or (filled == len(labels) and offset < scores[filled - 1]):
            continue
        if table[slot_of(table, seen, label)] < 0:
            filled = keep_best(offset, np.int64(label), scores, labels, filled)


@loop
def _best_of_array(  # type: ignore[no-untyped-def]
    x_indptr, x_indices, x_data, weights, offsets, labels, scores
):
    """Score all labels by an array of weights."""
    totals = np.empty(len(offsets), np.float32)
    for row in range(len(labels)):
        for label in range(len(totals)):  # a copied slice takes seconds to compile
            totals[label] = offsets[label]
        scale = inverse_length(x_data, x_indptr[row], x_indptr[row + 1])
        for cell in range(x_indptr[row], x_indptr[row + 1]):
            own, value = weights[x_indices[cell]], scale * x_data[cell]
            for label in range(len(totals)):
                totals[label] += value * own[label]
        _keep_finite(totals, labels[row], scores[row])


@loop_part
def _keep_finite(totals, labels, scores):  # type: ignore[no-untyped-def]
    """Keep the best labels whose score is not -inf."""
    filled = np.int64(0)
    for label in range(len(totals)):
        if totals[label] > -np.inf:
            filled = keep_best(totals[label], label, scores, labels, filled)


@loop
def _scores_of(  # type: ignore[no-untyped-def]
    x_indptr, x_indices, x_data, indptr, indices, data, width, candidates, scores
):
    """Score the candidates of each row of a block."""
    dense = len(candidates) >= _MIN_DENSE
    x = np.zeros(width if dense else 0, np.float32)
    if dense:
        x[width - 1] = 1.0
    for row in range(len(candidates)):
        first, last = x_indptr[row], x_indptr[row + 1]
        scale = inverse_length(x_data, first, last)
        if dense:
            for cell in range(first, last):
                x[x_indices[cell]] = scale * x_data[cell]
        for place in range(candidates.shape[1]):
            label = candidates[row, place]
            if label < 0:
                continue
            start, stop = indptr[label], indptr[label + 1]
            total = np.float32(0.0)
            if dense and stop - start <= _MANY * (last - first):
                for cell in range(start, stop):
                    total += x[indices[cell]] * data[cell]
            else:
                short, at = stop - start <= _MANY * (last - first), start
                for cell in range(first, last):
                    if short:
                        while at < stop and indices[at] < x_indices[cell]:
                            at += 1
                    else:
                        at = _lookup(indices, at, stop, x_indices[cell])
                    if at == stop:
                        break
                    if indices[at] == x_indices[cell]:
                        total += scale * x_data[cell] * data[at]
                # Last, as above, for the same bits.
                if stop > start and indices[stop - 1] == width - 1:
                    total += data[stop - 1]
            scores[row, place] = total
        if dense:
            for cell in range(first, last):
                x[x_indices[cell]] = 0.0


@loop_part
def _lookup(indices, start, stop, wanted):  # type: ignore[no-untyped-def]
    """Return the position of the first of the sorted indices[start:stop] that is not smaller."""
    low, high = start, stop
    while low < high:
        middle = (low + high) // 2
        if indices[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low
