"""Neighbours vote: the labels of near training examples, weighted and ranked, in compiled loops."""

from __future__ import annotations

import numpy as np
from numba import njit

from labelspace._core.top_k import keep_best


@njit(cache=True, nogil=True)
def vote(neighbours, weights, count, indptr, indices, tally, labels_out, scores_out):  # type: ignore[no-untyped-def]
    """Score labels by the weighted share of neighbours that carry them; write the best, in order.

    tally is a scratch array of zeros, one a label, and is left as zeros.
    """
    total = np.float32(0.0)
    for n in range(count):
        total += weights[n]
    if total <= 0.0:
        return
    touched = 0
    for n in range(count):
        touched += indptr[neighbours[n] + 1] - indptr[neighbours[n]]
    seen = np.empty(touched, np.int64)
    n_seen = 0
    for n in range(count):
        if weights[n] <= 0.0:
            continue
        for cell in range(indptr[neighbours[n]], indptr[neighbours[n] + 1]):
            label = indices[cell]
            if tally[label] == 0.0:
                seen[n_seen] = label
                n_seen += 1
            tally[label] += weights[n]
    filled = 0
    for s in range(n_seen):
        label = seen[s]
        score = min(tally[label] / total, np.float32(1.0))
        filled = keep_best(score, label, scores_out, labels_out, filled)
        tally[label] = 0.0


@njit(cache=True, nogil=True)
def vote_rows(  # type: ignore[no-untyped-def]
    neighbours, similarities, powers, says, indptr, indices, n_labels, labels, shares
):
    """The votes of each row's neighbours (n, learners, m): see `neighbours.rank_votes`."""
    n_learners, width = neighbours.shape[1:]
    near = np.empty(n_learners * width, np.int64)
    weights = np.empty(n_learners * width, np.float32)
    tally = np.zeros(n_labels, np.float32)
    for row in range(len(neighbours)):
        count = 0
        for learner in range(n_learners):
            nearest = similarities[row, learner, 0]
            first, total = count, np.float32(0.0)
            for n in range(width):
                example = neighbours[row, learner, n]
                if example < 0:
                    break
                weight = np.float32(1.0)
                if nearest > 0.0:
                    relative = max(similarities[row, learner, n] / nearest, np.float32(0.0))
                    weight = relative ** powers[learner]
                near[count], weights[count] = example, weight
                total += weight
                count += 1
            for place in range(first, count):
                weights[place] *= says[learner] / total
        vote(near, weights, count, indptr, indices, tally, labels[row], shares[row])
