"""The compiled loop of a tree's classifiers: siblings side by side, on one thread."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from labelspace._core.compiled import loop, loop_part
from labelspace._core.random64 import GOLDEN, mix
from labelspace.classifiers.lane_loops import descend, kept_weights
from labelspace.classifiers.lanes import LANES

SIBLING_BYTES = 5 * LANES + 20  # per example of a node, beside 8 per feature


class SiblingScratch(NamedTuple):
    """Arrays that a thread reuses from siblings to siblings.

    `place` has the number of each feature among those that the examples of the siblings have; -1
    between calls.
    """

    place: np.ndarray
    used: np.ndarray

    @classmethod
    def fresh(cls, n_features: int) -> SiblingScratch:
        return cls(np.full(n_features, -1, np.int32), np.empty(n_features, np.int32))


@loop
def solve_siblings(  # type: ignore[no-untyped-def]
    examples, reach_indptr, reached, nodes, parent, settings, scratch
):
    """Return weights of up to LANES children of a node: counts per child, features and values.

    The examples are those that reach the parent, and positive are those that reach the child. A
    child that all of them reach gets no weights. Only features of these examples have weights, so
    that these take little memory, and those of one feature are on one cache line.
    """
    first, last = reach_indptr[parent], reach_indptr[parent + 1]
    n = last - first
    indptr, indices, data, squares, n_used = _own_examples(examples, reached, first, last, scratch)
    signs, numbers = np.empty((n, LANES), np.int8), np.zeros((4, LANES), np.float32)
    signs[:] = -1
    for lane in range(len(nodes)):
        mine, end = reach_indptr[nodes[lane]], reach_indptr[nodes[lane] + 1]
        if end - mine < n:
            numbers[3, lane] = 1.0
        for row in range(n):
            if mine < end and reached[mine] == reached[first + row]:
                signs[row, lane] = 1
                mine += 1
    weights = np.zeros((n_used + 1, LANES), np.float32)
    # A stream of its own for each node: threads and other nodes do not change it.
    random = mix(np.uint64(settings.seed) * GOLDEN + np.uint64(nodes[0] + 1)) | np.uint64(1)
    alpha = np.zeros((n, LANES), np.float32)
    descend(
        *(indptr, indices, data, squares),
        *(weights, alpha, signs, numbers, settings, random),
    )
    counts, features, values = kept_weights(weights, len(nodes), settings.prune)
    width = len(scratch.place)
    for cell in range(len(features)):
        here = features[cell]
        features[cell] = scratch.used[here] if here < n_used else width
    return counts, features, values


@loop_part
def _own_examples(examples, reached, first, last, scratch):  # type: ignore[no-untyped-def]
    """Return the examples with features numbered among their own, and the number of these."""
    cells = np.int64(0)
    for at in range(first, last):
        cells += examples.indptr[reached[at] + 1] - examples.indptr[reached[at]]
    indptr, indices = np.empty(last - first + 1, np.int64), np.empty(cells, np.uint32)
    data, squares = np.empty(cells, np.float32), np.empty(last - first, np.float64)
    place, used, n_used, filled = scratch.place, scratch.used, np.int64(0), np.int64(0)
    indptr[0] = 0
    for at in range(first, last):
        row = reached[at]
        for cell in range(examples.indptr[row], examples.indptr[row + 1]):
            feature = examples.indices[cell]
            if place[feature] < 0:
                place[feature], used[n_used] = n_used, feature
                n_used += 1
            indices[filled], data[filled] = place[feature], examples.data[cell]
            filled += 1
        indptr[at - first + 1], squares[at - first] = filled, examples.squares[row]
    for number in range(n_used):
        place[used[number]] = -1
    return indptr, indices, data, squares, n_used
