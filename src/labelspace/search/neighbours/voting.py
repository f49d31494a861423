"""Votes of neighbours: the labels of near training examples, weighted, counted and ranked.

The loops take weights made elsewhere, and no array of all labels: `vote` counts the labels of the
neighbours in a hash table; `votes_by_label` sorts them, and can merge other candidates.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.compiled import loop, loop_part
from labelspace._core.slots import new_table, slot_of
from labelspace._core.sorting import stable_order
from labelspace._core.threads import parallel_blocks
from labelspace._core.top_k import keep_best

SHARPNESS = 20.0  # of `softmax_weights`, per unit of cosine


def rank_votes(
    neighbours: np.ndarray,
    similarities: np.ndarray,
    power: float | np.ndarray,
    Y: csr_matrix,
    k: int,
    learner_weights: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Rank labels by their share of the neighbours' votes.

    Parameters
    ----------
    neighbours : ndarray of shape (n, learners, m)
        Example numbers, nearest first; -1 pads.
    similarities : ndarray of shape (n, learners, m)
        A vote has the weight (similarity / that of the nearest) ** power.
    power : float or ndarray of shape (learners,)
        With 0 all votes have the same weight.
    Y : csr_matrix of shape (examples, labels)
        The labels of the examples.
    k : int
        Number of labels per query.
    learner_weights : ndarray of shape (learners,), optional
        Weights of the learners; all the same if None.

    Returns
    -------
    labels : ndarray of shape (n, k)
        int64, best first; -1 where fewer than k labels have votes.
    shares : ndarray of shape (n, k)
        float32 shares of the votes; 0 where fewer than k labels have votes.
    """
    labels = np.full((len(neighbours), k), -1, np.int64)
    shares = np.zeros((len(neighbours), k), np.float32)
    n_learners = neighbours.shape[1]
    powers, weights = np.empty(n_learners, np.float32), np.ones(n_learners, np.float32)
    powers[:] = power
    if learner_weights is not None:
        weights[:] = learner_weights

    def block(start: int, stop: int) -> None:
        rows = slice(start, stop)
        vote_rows(
            *(neighbours[rows], similarities[rows], powers, weights),
            *(Y.indptr, Y.indices, labels[rows], shares[rows]),
        )

    parallel_blocks(len(neighbours), block, block=64)
    return labels, shares


def vote_of_one(
    near: np.ndarray,
    similarities: np.ndarray,
    power: float,
    Y: csr_matrix,
    labels: np.ndarray,
    shares: np.ndarray,
) -> None:
    """Write what `rank_votes` returns for one learner, of neighbours (n, m); one thread."""
    one = np.ones(1, np.float32)
    vote_rows(
        *(near[:, None], similarities[:, None], np.float32(power) * one, one),
        *(Y.indptr, Y.indices, labels, shares),
    )


@loop
def vote_rows(  # type: ignore[no-untyped-def]
    neighbours, similarities, powers, learner_weights, indptr, indices, labels, shares
):
    """Count the votes of each row's neighbours (n, learners, m): see `rank_votes`."""
    n_learners, width = neighbours.shape[1:]
    near = np.empty(n_learners * width, np.int64)
    weights = np.empty(n_learners * width, np.float32)
    for row in range(len(neighbours)):
        count = np.int64(0)  # a literal 0 would be a second type to compile
        for learner in range(n_learners):
            first = count
            count = _power_weights(
                *(neighbours[row, learner], similarities[row, learner], powers[learner]),
                *(near, weights, count),
            )
            total = np.float32(0.0)
            for place in range(first, count):
                total += weights[place]
            for place in range(first, count):
                weights[place] *= learner_weights[learner] / total
        vote(near, weights, count, indptr, indices, labels[row], shares[row])


@loop_part
def _power_weights(neighbours, similarities, power, near, weights, count):  # type: ignore[no-untyped-def]
    """Append neighbours and (similarity / that of the nearest) ** power; return the new count."""
    nearest = similarities[0]
    for n in range(len(neighbours)):
        if neighbours[n] < 0:
            break
        weight = np.float32(1.0)
        if nearest > 0.0:
            weight = max(similarities[n] / nearest, np.float32(0.0)) ** power
        near[count], weights[count] = neighbours[n], weight
        count += 1
    return count


@loop_part
def vote(near, weights, count, indptr, indices, labels_out, scores_out):  # type: ignore[no-untyped-def]
    """Score labels by the weighted share of neighbours that have them; write the best, in order."""
    total = np.float32(0.0)
    for n in range(count):
        total += weights[n]
    if total <= 0.0:
        return
    most = 0
    for n in range(count):
        most += indptr[near[n] + 1] - indptr[near[n]]
    table = new_table(most)
    voted, sums = np.empty(most, np.int64), np.empty(most, np.float32)
    n_voted = 0
    for n in range(count):
        if weights[n] <= 0.0:
            continue
        for cell in range(indptr[near[n]], indptr[near[n] + 1]):
            slot = slot_of(table, voted, indices[cell])
            if table[slot] < 0:
                table[slot], voted[n_voted], sums[n_voted] = n_voted, indices[cell], 0.0
                n_voted += 1
            sums[table[slot]] += weights[n]
    filled = np.int64(0)
    for place in range(n_voted):
        score = min(sums[place] / total, np.float32(1.0))
        filled = keep_best(score, voted[place], scores_out, labels_out, filled)


@loop_part
def softmax_weights(near, cosines):  # type: ignore[no-untyped-def]
    """Return weights exp(SHARPNESS * cosine) of one query's neighbours, their sum 1; -1 has 0."""
    total = 0.0
    for n in range(len(near)):
        if near[n] >= 0:
            total += np.exp(SHARPNESS * (cosines[n] - cosines[0]))
    weights = np.zeros(len(near))
    for n in range(len(near)):
        if near[n] >= 0:
            weights[n] = np.exp(SHARPNESS * (cosines[n] - cosines[0])) / total
    return weights


@loop_part
def votes_by_label(near, weights, others, indptr, indices):  # type: ignore[no-untyped-def]
    """Return the labels of one query's neighbours and the labels `others`, sorted, each once, and
    the sum of the weights of the neighbours that have them; -1 pads `near` and `others`."""
    most = len(others)
    for n in range(len(near)):
        if near[n] >= 0:
            most += indptr[near[n] + 1] - indptr[near[n]]
    entries, entry_weights = np.empty(most, np.int64), np.zeros(most)
    count = 0
    for n in range(len(near)):
        if near[n] >= 0:
            for cell in range(indptr[near[n]], indptr[near[n] + 1]):
                entries[count], entry_weights[count] = indices[cell], weights[n]
                count += 1
    for label in others:
        if label >= 0:
            entries[count] = label
            count += 1
    order = stable_order(entries[:count])
    labels, votes = np.empty(count, np.int64), np.zeros(count)
    filled = 0
    for place in order:
        if filled == 0 or labels[filled - 1] != entries[place]:
            labels[filled] = entries[place]
            filled += 1
        votes[filled - 1] += entry_weights[place]
    return labels[:filled], votes[:filled]
