"""Compiled loops of TreeSpace's search: best-first search, and the reference that scores all nodes.

Lists per node come as two arrays: the items of node i are items[item_ends[i]:item_ends[i + 1]].
"""

from __future__ import annotations

import numpy as np

from labelspace._core.compiled import loop, loop_part
from labelspace._core.top_k import keep_best, pop, push
from labelspace.components.calibration import EPS, PATH_EPS
from labelspace.components.neighbour_blend import blended
from labelspace.search.neighbours.voting import softmax_weights, votes_by_label
from labelspace.search.row_products import dot


@loop
def rank_rows(  # type: ignore[no-untyped-def]
    queries, space, child_ends, children, parent_ends, parents, ancestor_ends, ancestors, label,
    node_of, near, cosines, y_ends, y, parameters, tail_bias, n_candidates, beam, labels, scores,
    scored,
):  # fmt: skip
    """Write the best labels of each query, their scores, and the number of nodes scored.

    Candidates are the `n_candidates` labels that are best by the tree alone, and all labels with
    votes.
    """
    found, found_p = np.empty(n_candidates, np.int64), np.empty(n_candidates)
    no_labels = np.empty(0, np.int64)
    for row in range(len(queries)):
        query = queries[row]
        if beam < 0:
            filled = _score_all(query, space, parent_ends, parents, label, found_p, found)
            scored[row] = len(label) - 1
        else:
            filled, scored[row] = _best_first(
                *(query, space, child_ends, children, parent_ends, label),
                *(beam, found_p, found),
            )
        weights = softmax_weights(near[row], cosines[row])
        voted, votes = votes_by_label(near[row], weights, no_labels, y_ends, y)
        place = np.full(len(voted), -1, np.int64)
        missing = np.empty(len(voted), np.int64)
        n_missing = 0
        for v in range(len(voted)):
            for i in range(filled):
                if found[i] == voted[v]:
                    place[v] = i
            if place[v] < 0 and node_of[voted[v]] >= 0:
                missing[n_missing] = node_of[voted[v]]
                n_missing += 1
        nodes, p = _score_with_ancestors(
            *(query, space, parent_ends, parents, ancestor_ends, ancestors),
            missing[:n_missing],
        )
        scored[row] += len(nodes)
        kept = 0
        shares = np.zeros(filled)
        for v in range(len(voted)):
            if place[v] >= 0:
                shares[place[v]] = votes[v]
            elif node_of[voted[v]] >= 0:
                own = p[np.searchsorted(nodes, node_of[voted[v]])]
                value = blended(_log_odds(own), votes[v], parameters, tail_bias[voted[v]])
                kept = keep_best(value, voted[v], scores[row], labels[row], kept)
        for i in range(filled):
            value = blended(_log_odds(found_p[i]), shares[i], parameters, tail_bias[found[i]])
            kept = keep_best(value, found[i], scores[row], labels[row], kept)


@loop_part
def _probability(query, space, node):  # type: ignore[no-untyped-def]
    """Return the probability of a node given its parent."""
    flat, starts, part, bias, slope = space
    begin, end = starts[node], starts[node + 1]
    point, other = flat[begin:end], query[part[node] : part[node] + end - begin]
    if len(slope):
        logit = bias[node] - slope[node] * ball_distance(point, other)
    else:
        logit = np.float64(dot(point, other) + bias[node])
    return 1.0 / (1.0 + np.exp(-logit))


# Sums may be reordered, without which the loop would not use vector instructions.
@loop_part(fastmath={"reassoc", "contract"})
def ball_distance(one, other):  # type: ignore[no-untyped-def]
    """Return the distance as in `poincare`; differences keep the digits of close points."""
    difference, square, other_square = np.float32(0.0), np.float32(0.0), np.float32(0.0)
    for j in range(len(one)):
        difference += (one[j] - other[j]) ** 2
        square += one[j] * one[j]
        other_square += other[j] * other[j]
    t = np.float64(difference) / ((1.0 - np.float64(square)) * (1.0 - np.float64(other_square)))
    return 2.0 * np.arcsinh(np.sqrt(t))


@loop_part
def _best_first(  # type: ignore[no-untyped-def]
    query, space, child_ends, children, parent_ends, label, beam, best, best_labels
):
    """Write the best labels; return how many there are and how many nodes were scored."""
    k, filled, scored, expanded = len(best), 0, 0, 0
    heap_p, heap = np.empty(256), np.empty(256, np.int64)
    heap_p[0], heap[0], size = 1.0, 0, 1
    visited, n_visited = np.empty(64, np.int64), 0  # nodes with several parents
    while size > 0:
        p, node = heap_p[0], heap[0]
        size = pop(heap_p, heap, size)
        if filled == k and p < best[k - 1]:
            break
        if parent_ends[node + 1] - parent_ends[node] > 1:
            if _contains(visited, n_visited, node):
                continue
            if n_visited == len(visited):
                visited = np.concatenate((visited, np.empty_like(visited)))
            visited[n_visited] = node
            n_visited += 1
            if label[node] >= 0:
                filled = keep_best(p, label[node], best, best_labels, filled)
        if child_ends[node] == child_ends[node + 1]:
            continue
        expanded += 1
        if beam > 0 and expanded > beam:
            break
        for place in range(child_ends[node], child_ends[node + 1]):
            child = children[place]
            child_p = p * _probability(query, space, child)
            scored += 1
            if filled == k and child_p < best[k - 1]:
                continue
            # A node with several parents is ranked when it leaves the heap, by its best path.
            several = parent_ends[child + 1] - parent_ends[child] > 1
            if label[child] >= 0 and not several:
                filled = keep_best(child_p, label[child], best, best_labels, filled)
            if several or child_ends[child] < child_ends[child + 1]:
                if size == len(heap):
                    heap = np.concatenate((heap, np.empty_like(heap)))
                    heap_p = np.concatenate((heap_p, np.empty_like(heap_p)))
                size = push(child_p, child, heap_p, heap, size)
    return filled, scored


@loop_part
def _contains(items, count, item):  # type: ignore[no-untyped-def]
    """Return whether the item is among the first `count` items."""
    found = False
    for i in range(count):
        found = found or items[i] == item
    return found


@loop_part
def _score_all(  # type: ignore[no-untyped-def]
    query, space, parent_ends, parents, label, best, best_labels
):
    """Score every node; write the best labels and return how many there are."""
    filled = 0
    p = np.ones(len(label))
    for node in range(1, len(label)):
        most = 0.0
        for place in range(parent_ends[node], parent_ends[node + 1]):
            most = max(most, p[parents[place]])
        p[node] = most * _probability(query, space, node)
        if label[node] >= 0:
            filled = keep_best(p[node], label[node], best, best_labels, filled)
    return filled


@loop_part
def _score_with_ancestors(  # type: ignore[no-untyped-def]
    query, space, parent_ends, parents, ancestor_ends, ancestors, wanted
):
    """Return these nodes and all their ancestors, sorted, and the probability of each."""
    total = 0
    for node in wanted:
        total += ancestor_ends[node + 1] - ancestor_ends[node]
    nodes, count = np.empty(total, np.int64), 0
    for node in wanted:
        for place in range(ancestor_ends[node], ancestor_ends[node + 1]):
            nodes[count] = ancestors[place]
            count += 1
    nodes = np.unique(nodes)
    p = np.empty(len(nodes))
    for i in range(len(nodes)):
        most = 0.0
        for place in range(parent_ends[nodes[i]], parent_ends[nodes[i] + 1]):
            parent = parents[place]
            most = max(most, 1.0 if parent == 0 else p[np.searchsorted(nodes, parent)])
        p[i] = most * _probability(query, space, nodes[i])
    return nodes, p


@loop_part
def _log_odds(p):  # type: ignore[no-untyped-def]
    """Return the log odds of a path probability, whose float32 factors may round to 1."""
    p = min(max(p, EPS), 1.0 - PATH_EPS)
    return np.log(p / (1.0 - p))


@loop
def close_rows(labels, scores, ends, ancestors, closed, closed_scores):  # type: ignore[no-untyped-def]
    """Write each ranking with the ancestors of every label before it."""
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
