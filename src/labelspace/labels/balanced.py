"""Balanced splits: items of similar direction come together, in parts of equal size.

Spherical 2-means in which the better half for one side goes there (as in Parabel, Prabhu et al.
2018), repeated: a split into B parts is a split into two, and each of these into its share of the
B. Vectors stay sparse; all ranges of a level are split at once, over all cores.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.compiled import loop, loop_part
from labelspace._core.random64 import GOLDEN, mix
from labelspace._core.sorting import stable_order
from labelspace._core.sparse import unit_rows
from labelspace._core.threads import cores, parallel_blocks

ROUNDS = 20  # of 2-means at most
GAIN = 1e-4  # relative, of the objective: less ends 2-means


def label_centroids(X: csr_matrix, Y: csr_matrix) -> csr_matrix:
    """Return the unit sums of the unit vectors of each label's examples, (labels, features)."""
    return unit_rows(csr_matrix(Y.T) @ unit_rows(X))


def split_balanced(
    vectors: csr_matrix, *, fanout: int, most: int, seed: int = 0, at_random: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Split all items into at most `fanout` parts, these again, until a part has `most` items.

    Returns the parent of each part, part 0 being the whole with parent -1, and the last part of
    each item. With `at_random`, vectors do not matter.
    """
    n = vectors.shape[0]
    order = np.arange(n)
    if at_random:
        order = np.random.default_rng(seed).permutation(n)
    starts, sizes, nodes = np.array([0]), np.array([n]), np.array([0])
    parents, part_of, level = [np.array([-1])], np.zeros(n, np.int64), 0
    n_nodes = 1
    while len(starts):
        done = sizes <= most
        for start, size, node in zip(starts[done], sizes[done], nodes[done], strict=True):
            part_of[order[start : start + size]] = node
        starts, sizes, nodes = starts[~done], sizes[~done], nodes[~done]
        wanted = np.minimum(fanout, -(-sizes // most))
        while (wanted > 1).any():
            level += 1
            lefts = sizes * (wanted // 2) // wanted
            if not at_random:
                _split(vectors, order, starts, sizes, np.where(wanted > 1, lefts, 0), seed, level)
            starts, sizes, wanted, nodes = _halves(starts, sizes, lefts, wanted, nodes)
        parents.append(nodes)
        nodes = np.arange(n_nodes, n_nodes + len(starts))
        n_nodes += len(starts)
    return np.concatenate(parents), part_of


def _halves(
    starts: np.ndarray, sizes: np.ndarray, lefts: np.ndarray, wanted: np.ndarray, nodes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return starts, sizes, number of parts still to make, and nodes, after one split into two."""
    whole = wanted == 1
    pairs = [
        np.stack([starts, starts + lefts], axis=1),
        np.stack([np.where(whole, sizes, lefts), sizes - lefts], axis=1),
        np.stack([np.where(whole, 1, wanted // 2), wanted - wanted // 2], axis=1),
        np.stack([nodes, nodes], axis=1),
    ]
    keep = np.stack([np.ones(len(whole), bool), ~whole], axis=1)
    first, second, third, fourth = (pair[keep] for pair in pairs)
    return first, second, third, fourth


def _split(
    vectors: csr_matrix,
    order: np.ndarray,
    starts: np.ndarray,
    sizes: np.ndarray,
    lefts: np.ndarray,
    seed: int,
    level: int,
) -> None:
    """Reorder each range of `order` so that its first `left` items belong together."""

    def block(first: int, last: int) -> None:
        _split_ranges(
            *(vectors.indptr, vectors.indices, vectors.data, vectors.shape[1], order),
            *(starts[first:last], sizes[first:last], lefts[first:last]),
            *(np.uint64(seed), np.uint64(level)),
        )

    parallel_blocks(len(starts), block, block=max(1, len(starts) // (8 * cores())))


@loop
def _split_ranges(  # type: ignore[no-untyped-def]
    indptr, indices, data, n_features, order, starts, sizes, lefts, seed, level
):
    one, other = np.zeros(n_features, np.float32), np.zeros(n_features, np.float32)
    seen, features = np.zeros(n_features, np.bool_), np.empty(n_features, np.int32)
    for place in range(len(starts)):
        if lefts[place] == 0:
            continue
        items = order[starts[place] : starts[place] + sizes[place]]
        size, left = len(items), lefts[place]
        met = features[: _features_of(indptr, indices, items, seen, features)]
        random = _mixed(_mixed(seed) + _mixed(level) + np.uint64(starts[place]))
        first = random % np.uint64(size)
        second = (first + np.uint64(1) + _mixed(random) % np.uint64(size - 1)) % np.uint64(size)
        _add_item(indptr, indices, data, items[first], np.float32(1.0), one)
        _add_item(indptr, indices, data, items[second], np.float32(-1.0), one)
        best = 0.0
        for _ in range(ROUNDS):
            ranks = stable_order(_products(indptr, indices, data, items, one))
            before = items.copy()
            for n in range(size):
                items[n] = before[ranks[n]]
            for feature in met:
                one[feature] = 0.0
            for n in range(size):
                to = one if n < left else other
                _add_item(indptr, indices, data, items[n], np.float32(1.0), to)
            # The cosines of all items with their side's mean add up to these two lengths.
            lengths = _length(one, met), _length(other, met)
            if lengths[0] + lengths[1] <= best * (1.0 + GAIN):
                break
            best = lengths[0] + lengths[1]
            for feature in met:
                one[feature] = one[feature] / lengths[0] - other[feature] / lengths[1]
                other[feature] = 0.0
        for feature in met:
            one[feature] = other[feature] = 0.0


@loop_part
def _mixed(random):  # type: ignore[no-untyped-def]
    return mix(random + GOLDEN)


@loop_part
def _add_item(indptr, indices, data, item, weight, total):  # type: ignore[no-untyped-def]
    for cell in range(indptr[item], indptr[item + 1]):
        total[indices[cell]] += weight * data[cell]


@loop_part
def _products(indptr, indices, data, items, direction):  # type: ignore[no-untyped-def]
    """Return the products with a direction, times -1: the largest come first in order."""
    scores = np.empty(len(items), np.float32)
    for n in range(len(items)):
        score = np.float32(0.0)
        for cell in range(indptr[items[n]], indptr[items[n] + 1]):
            score += data[cell] * direction[indices[cell]]
        scores[n] = -score
    return scores


@loop_part
def _features_of(indptr, indices, items, seen, features):  # type: ignore[no-untyped-def]
    """List the features that any of the items has; `seen` is left as it was, all False."""
    found = 0
    for item in items:
        for cell in range(indptr[item], indptr[item + 1]):
            feature = indices[cell]
            if not seen[feature]:
                seen[feature] = True
                features[found] = feature
                found += 1
    for n in range(found):
        seen[features[n]] = False
    return found


@loop_part
def _length(vector, features):  # type: ignore[no-untyped-def]
    square = 1e-12  # never 0, since it is divided by
    for feature in features:
        square += vector[feature] * vector[feature]
    return np.float32(np.sqrt(square))
