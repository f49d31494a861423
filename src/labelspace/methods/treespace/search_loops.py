"""Compiled loops of TreeSpace's search: best first from the root, and the exact reference."""

from __future__ import annotations

import numpy as np
from numba import njit

from labelspace._core.top_k import keep_best, pop, push
from labelspace.components.calibration import EPS, PATH_EPS
from labelspace.components.neighbour_blend import blended
from labelspace.search.index import dot
from labelspace.search.neighbours.voting import softmax_weights, votes_by_label


@njit(cache=True, nogil=True)
def rank_rows(  # type: ignore[no-untyped-def]
    queries, space, down_ends, down, up_ends, up, above_ends, above, label,
    node_of, near, cosines, y_ends, y, parameters, lean, short, beam, labels, scores, scored,
):  # fmt: skip
    likeliest, their = np.empty(short, np.int64), np.empty(short)
    none = np.empty(0, np.int64)  # no other labels to count
    for row in range(len(queries)):
        query = queries[row]
        if beam < 0:
            filled = _score_all(query, space, up_ends, up, label, their, likeliest)
            scored[row] = len(label) - 1
        else:
            filled, scored[row] = _best_first(
                *(query, space, down_ends, down, up_ends, label),
                *(beam, their, likeliest),
            )
        weights = softmax_weights(near[row], cosines[row])
        voted, votes = votes_by_label(near[row], weights, none, y_ends, y)
        place = np.full(len(voted), -1, np.int64)
        missing = np.empty(len(voted), np.int64)
        n_missing = 0
        for v in range(len(voted)):
            for i in range(filled):
                if likeliest[i] == voted[v]:
                    place[v] = i
            if place[v] < 0 and node_of[voted[v]] >= 0:
                missing[n_missing] = node_of[voted[v]]
                n_missing += 1
        family, p = _score_family(
            *(query, space, up_ends, up, above_ends, above),
            missing[:n_missing],
        )
        scored[row] += len(family)
        kept = 0
        shares = np.zeros(filled)
        for v in range(len(voted)):
            if place[v] >= 0:
                shares[place[v]] = votes[v]
            elif node_of[voted[v]] >= 0:
                own = p[np.searchsorted(family, node_of[voted[v]])]
                value = blended(_log_odds(own), votes[v], parameters, lean[voted[v]])
                kept = keep_best(value, voted[v], scores[row], labels[row], kept)
        for i in range(filled):
            value = blended(_log_odds(their[i]), shares[i], parameters, lean[likeliest[i]])
            kept = keep_best(value, likeliest[i], scores[row], labels[row], kept)


@njit(cache=True, nogil=True)
def _odds(query, space, node):  # type: ignore[no-untyped-def]
    """Return the probability of a node given its parent."""
    flat, starts, part, bias, slope = space
    begin, end = starts[node], starts[node + 1]
    point, place = flat[begin:end], query[part[node] : part[node] + end - begin]
    if len(slope):
        logit = bias[node] - slope[node] * ball_distance(point, place)
    else:
        logit = np.float64(dot(point, place) + bias[node])
    return 1.0 / (1.0 + np.exp(-logit))


# Sums may be reordered, or the loop would not use vector instructions.
@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def ball_distance(one, other):  # type: ignore[no-untyped-def]
    """Return the distance as in `poincare`; differences keep the digits of near points."""
    apart, square, its_square = np.float32(0.0), np.float32(0.0), np.float32(0.0)
    for j in range(len(one)):
        apart += (one[j] - other[j]) ** 2
        square += one[j] * one[j]
        its_square += other[j] * other[j]
    t = np.float64(apart) / ((1.0 - np.float64(square)) * (1.0 - np.float64(its_square)))
    return 2.0 * np.arcsinh(np.sqrt(t))


@njit(cache=True, nogil=True)
def _best_first(  # type: ignore[no-untyped-def]
    query, space, down_ends, down, up_ends, label, beam, best, best_labels
):
    """Write the best labels; return how many there are and how many nodes were scored."""
    k, filled, scored, opened = len(best), 0, 0, 0
    heap_p, heap = np.empty(256), np.empty(256, np.int64)
    heap_p[0], heap[0], size = 1.0, 0, 1
    seen, n_seen = np.empty(64, np.int64), 0  # nodes with several parents that were opened
    while size > 0:
        p, node = heap_p[0], heap[0]
        size = pop(heap_p, heap, size)
        if filled == k and p < best[k - 1]:
            break
        if up_ends[node + 1] - up_ends[node] > 1:
            if _contains(seen, n_seen, node):
                continue
            if n_seen == len(seen):
                seen = np.concatenate((seen, np.empty_like(seen)))
            seen[n_seen] = node
            n_seen += 1
            if label[node] >= 0:
                filled = keep_best(p, label[node], best, best_labels, filled)
        if down_ends[node] == down_ends[node + 1]:
            continue
        opened += 1
        if beam > 0 and opened > beam:
            break
        for place in range(down_ends[node], down_ends[node + 1]):
            child = down[place]
            reached = p * _odds(query, space, child)
            scored += 1
            if filled == k and reached < best[k - 1]:
                continue
            several = up_ends[child + 1] - up_ends[child] > 1
            if label[child] >= 0 and not several:
                filled = keep_best(reached, label[child], best, best_labels, filled)
            if several or down_ends[child] < down_ends[child + 1]:
                if size == len(heap):
                    heap = np.concatenate((heap, np.empty_like(heap)))
                    heap_p = np.concatenate((heap_p, np.empty_like(heap_p)))
                size = push(reached, child, heap_p, heap, size)
    return filled, scored


@njit(cache=True, nogil=True)
def _contains(items, count, item):  # type: ignore[no-untyped-def]
    found = False
    for i in range(count):
        found = found or items[i] == item
    return found


@njit(cache=True, nogil=True)
def _score_all(  # type: ignore[no-untyped-def]
    query, space, up_ends, up, label, best, best_labels
):
    filled = 0
    p = np.ones(len(label))
    for node in range(1, len(label)):
        most = 0.0
        for place in range(up_ends[node], up_ends[node + 1]):
            most = max(most, p[up[place]])
        p[node] = most * _odds(query, space, node)
        if label[node] >= 0:
            filled = keep_best(p[node], label[node], best, best_labels, filled)
    return filled


@njit(cache=True, nogil=True)
def _score_family(  # type: ignore[no-untyped-def]
    query, space, up_ends, up, above_ends, above, wanted
):
    """Return these nodes and all their ancestors, sorted, and the probability of each."""
    total = 0
    for node in wanted:
        total += above_ends[node + 1] - above_ends[node]
    family, count = np.empty(total, np.int64), 0
    for node in wanted:
        for place in range(above_ends[node], above_ends[node + 1]):
            family[count] = above[place]
            count += 1
    family = np.unique(family)
    p = np.empty(len(family))
    for i in range(len(family)):
        most = 0.0
        for place in range(up_ends[family[i]], up_ends[family[i] + 1]):
            parent = up[place]
            most = max(most, 1.0 if parent == 0 else p[np.searchsorted(family, parent)])
        p[i] = most * _odds(query, space, family[i])
    return family, p


@njit(cache=True, nogil=True)
def _log_odds(p):  # type: ignore[no-untyped-def]
    """Return the log odds of a path probability, whose float32 factors may round to 1."""
    p = min(max(p, EPS), 1.0 - PATH_EPS)
    return np.log(p / (1.0 - p))


@njit(cache=True, nogil=True)
def close_rows(labels, scores, ends, ancestors, closed, closed_scores):  # type: ignore[no-untyped-def]
    k = labels.shape[1]
    for row in range(len(labels)):
        filled = 0
        for i in range(k):
            label = labels[row, i]
            if label < 0:
                break
            for place in range(ends[label], ends[label + 1] + 1):
                # Its ancestors first, then the label itself.
                name = ancestors[place] if place < ends[label + 1] else label
                if filled < k and not _contains(closed[row], filled, name):
                    closed[row, filled] = name
                    closed_scores[row, filled] = scores[row, i]
                    filled += 1
