"""Agglomerative clustering of a sparse similarity graph, by chains of nearest neighbours.

Similarities that are not stored are 0, and clusters of similarity 0 are not merged: the result is a
forest. Memory is a few times that of the graph, never nodes x nodes; rows of merged clusters are
merged when they are next read.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.compiled import loop, loop_part

Link = Literal["complete", "average"]

# Similarities as integers: sums come out the same in any order, so that i is as near to j as j to i
# and chains end.
_UNITS = 1 << 30


def agglomerate(graph: csr_matrix, link: Link) -> np.ndarray:
    """Return the parents in the forest of repeatedly merging the two most similar clusters.

    Parameters
    ----------
    graph : csr_matrix of shape (n, n)
        Similarities from 0 to 2**20, symmetric, without a diagonal.
    link : {"complete", "average"}
        The similarity of two clusters: that of their least similar pair of members, or the mean
        over all pairs.

    Returns
    -------
    ndarray
        Nodes 0 to n - 1 are those of the graph, later ones the merged clusters; roots have -1.
    """
    n = graph.shape[0]
    whole = bool(np.all(graph.data == np.rint(graph.data)))
    values = np.rint(graph.data.astype(np.float64) * (1 if whole else _UNITS)).astype(np.int64)
    capacity = 2 * graph.nnz + 1
    ids, similarity = np.empty(capacity, np.int32), np.empty(capacity, np.int64)
    ids[: graph.nnz], similarity[: graph.nnz] = graph.indices, values
    pairs = np.ones(capacity, np.int32)
    parent = np.full(max(1, 2 * n - 1), -1, np.int64)[: max(0, 2 * n - 1)]
    starts, lengths = graph.indptr[:-1].astype(np.int64), np.diff(graph.indptr).astype(np.int64)
    used = _merge_all(
        starts, lengths, ids, similarity, pairs, graph.nnz, link == "complete", parent
    )
    return parent[:used]


@loop
def _merge_all(starts, lengths, ids, similarity, pairs, filled, complete, parent):  # type: ignore[no-untyped-def]
    """Merge until no two clusters are similar; return the number of nodes of the forest."""
    n = len(starts)
    into, node = np.arange(n), np.arange(n)  # the cluster a cluster went into; its node
    sizes, place = np.ones(n, np.int64), np.full(n, -1, np.int64)
    chain, links = np.empty(n + 1, np.int64), 0
    n_nodes, begin = n, 0
    while True:
        if links == 0:
            while begin < n and (into[begin] != begin or lengths[begin] == 0):
                begin += 1
            if begin == n:
                return n_nodes
            chain[0], links = begin, 1
        here = chain[links - 1]
        before = chain[links - 2] if links > 1 else -1
        lengths[here] = _read_row(
            here, starts[here], lengths[here], ids, similarity, pairs, into, sizes, place, complete
        )
        nearest = _nearest(
            here, before, starts[here], lengths[here], ids, similarity, sizes, complete
        )
        if nearest < 0:
            links = 0  # nothing is similar, which is possible only at the start of a chain
        elif nearest != before:
            chain[links] = nearest
            links += 1
        else:
            links -= 2
            parent[node[here]] = parent[node[before]] = n_nodes
            node[here] = n_nodes
            n_nodes += 1
            into[before] = here
            sizes[here] += sizes[before]
            filled = _join_rows(here, before, starts, lengths, ids, similarity, pairs, filled, into)


@loop_part
def _read_row(  # type: ignore[no-untyped-def]
    here, start, length, ids, similarity, pairs, into, sizes, place, complete
):
    """Update a cluster's row to one cell per current neighbouring cluster; return its length."""
    kept = 0
    for cell in range(start, start + length):
        there = _current(ids[cell], into)
        if there == here:
            continue
        at = place[there]
        if at < 0:
            place[there] = at = start + kept
            kept += 1
            ids[at], similarity[at], pairs[at] = there, similarity[cell], pairs[cell]
        elif complete:
            similarity[at] = min(similarity[at], similarity[cell])
            pairs[at] += pairs[cell]
        else:
            similarity[at] += similarity[cell]
    alike = 0
    for cell in range(start, start + kept):
        there = ids[cell]
        place[there] = -1
        # A pair that is not stored has similarity 0, so the least similarity stays 0.
        if not complete or pairs[cell] == sizes[here] * sizes[there]:
            at = start + alike
            ids[at], similarity[at], pairs[at] = there, similarity[cell], pairs[cell]
            alike += 1
    return alike


@loop_part
def _current(cluster, into):  # type: ignore[no-untyped-def]
    """Return the cluster that this one is now part of, and shorten the path to it."""
    while into[cluster] != cluster:
        into[cluster] = into[into[cluster]]
        cluster = into[cluster]
    return cluster


@loop_part
def _nearest(here, before, start, length, ids, similarity, sizes, complete):  # type: ignore[no-untyped-def]
    """Return the most similar cluster; of equals `before`, else that of the lowest number."""
    nearest, best = -1, -1.0
    for cell in range(start, start + length):
        there, alike = ids[cell], np.float64(similarity[cell])
        if not complete:
            alike /= sizes[here] * sizes[there]
        wins = there == before or (nearest != before and there < nearest)
        if alike > best or (alike == best and wins):
            nearest, best = there, alike
    return nearest


@loop_part
def _join_rows(here, other, starts, lengths, ids, similarity, pairs, filled, into):  # type: ignore[no-untyped-def]
    """Concatenate the rows of two clusters as that of `here`; return the new fill."""
    total = lengths[here] + lengths[other]
    if filled + total > len(ids):
        filled = _move_together(starts, lengths, ids, similarity, pairs, into, other)
    start = filled
    for cluster in (here, other):
        for cell in range(starts[cluster], starts[cluster] + lengths[cluster]):
            ids[filled], similarity[filled] = ids[cell], similarity[cell]
            pairs[filled] = pairs[cell]
            filled += 1
    starts[here], lengths[here], lengths[other] = start, total, 0
    return filled


@loop_part
def _move_together(starts, lengths, ids, similarity, pairs, into, other):  # type: ignore[no-untyped-def]
    """Close the gaps that old rows left; rows only shrink, so half of the array is free."""
    filled = 0
    for cluster in np.argsort(starts):
        if into[cluster] != cluster and cluster != other:
            continue
        start = starts[cluster]
        starts[cluster] = filled
        for cell in range(start, start + lengths[cluster]):
            ids[filled], similarity[filled] = ids[cell], similarity[cell]
            pairs[filled] = pairs[cell]
            filled += 1
    return filled
