"""Random walks on a graph of labels, in a compiled loop over all cores.

Each walk has its own random stream, derived from the seed and the walk's number, so that walks do
not depend on the number of threads. They are made in blocks and are never all in memory.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.compiled import loop
from labelspace._core.random64 import GOLDEN, mix
from labelspace._core.threads import parallel_blocks
from labelspace.errors import InputError, ParameterError

WALKS_PER_BLOCK = 16_384  # 2.6 MB at 40 nodes per walk
_WALKS_PER_TASK = 512  # of one thread: about a millisecond


class RandomWalks:
    """Random walks from every node that has an edge; they can be iterated over repeatedly.

    Each of `per_node` rounds starts once at all these nodes, in a random order. A step follows an
    edge with a probability proportional to its weight.

    Parameters
    ----------
    graph : csr_matrix of shape (nodes, nodes)
        Symmetric, with positive weights.
    per_node : int
        Number of walks per node.
    length : int
        Number of nodes per walk, the first included.
    seed : int

    Raises
    ------
    InputError
        If an edge leads to a node without edges, or a weight is not above 0.
    ParameterError
        If `per_node` or `length` is below 1.
    """

    def __init__(
        self, graph: csr_matrix, *, per_node: int = 10, length: int = 40, seed: int = 0
    ) -> None:
        if per_node < 1 or length < 1:
            raise ParameterError(f"per_node={per_node}, length={length}: expected at least 1")
        degrees = np.diff(graph.indptr)
        if graph.nnz and degrees[graph.indices].min() == 0:
            raise InputError("the graph has edges into nodes without edges: walks would get stuck")
        if graph.nnz and not graph.data.min() > 0:
            raise InputError("the graph has edges whose weight is not above 0")
        self.graph, self.per_node, self.length, self.seed = graph, per_node, length, seed
        self.starts = np.flatnonzero(degrees).astype(np.int32)
        self._cumulative = (
            _cumulative_shares(graph) if graph.nnz and np.ptp(graph.data) > 0 else None
        )

    def __len__(self) -> int:
        """Return the number of walks."""
        return self.per_node * len(self.starts)

    def blocks(self) -> Iterator[np.ndarray]:
        """Yield walks as (n, length) int32 arrays of nodes."""
        for round_ in range(self.per_node):
            order = np.random.default_rng([self.seed, round_]).permutation(self.starts)
            for start in range(0, len(order), WALKS_PER_BLOCK):
                first = round_ * len(order) + start
                yield self._walk(order[start : start + WALKS_PER_BLOCK], first)

    def _walk(self, starts: np.ndarray, first: int) -> np.ndarray:
        walks = np.empty((len(starts), self.length), np.int32)
        walks[:, 0] = starts
        indptr, indices = self.graph.indptr, self.graph.indices

        def task(begin: int, end: int) -> None:
            stream = np.uint64(self.seed), np.uint64(first + begin)
            if self._cumulative is None:
                _walk_unweighted(*stream, indptr, indices, walks[begin:end])
            else:
                _walk_weighted(*stream, indptr, indices, self._cumulative, walks[begin:end])

        parallel_blocks(len(starts), task, block=_WALKS_PER_TASK)
        return walks


def _cumulative_shares(graph: csr_matrix) -> np.ndarray:
    """Return the cumulative sums of each row's weights, divided by the row's sum."""
    total = np.cumsum(graph.data, dtype=np.float64)
    before = np.concatenate([[0.0], total])[graph.indptr]
    lengths = np.diff(graph.indptr)
    share = (total - np.repeat(before[:-1], lengths)) / np.repeat(np.diff(before), lengths)
    return np.asarray(share, np.float32)


@loop(inline="always")
def _initial_state(seed, number):  # type: ignore[no-untyped-def]
    """Return the initial state of a walk; mixed twice, so that states are unrelated."""
    return mix(mix(seed + GOLDEN) ^ (number + np.uint64(1)))


@loop
def _walk_unweighted(seed, first, indptr, indices, walks):  # type: ignore[no-untyped-def]
    states = np.empty(len(walks), np.uint64)
    nodes = walks[:, 0].copy()
    for row in range(len(walks)):
        states[row] = _initial_state(seed, first + np.uint64(row))
    # All walks take a step before any takes the next, so that their cache misses overlap.
    for place in range(1, walks.shape[1]):
        for row in range(len(walks)):
            states[row] += GOLDEN
            begin = indptr[nodes[row]]
            degree = np.uint64(indptr[nodes[row] + 1] - begin)
            # The high half of a 32 x 32 bit product is below `degree`, without a division.
            chosen = ((mix(states[row]) >> np.uint64(32)) * degree) >> np.uint64(32)
            nodes[row] = indices[begin + np.int64(chosen)]
            walks[row, place] = nodes[row]


@loop
def _walk_weighted(seed, first, indptr, indices, cumulative, walks):  # type: ignore[no-untyped-def]
    for row in range(len(walks)):
        state = _initial_state(seed, first + np.uint64(row))
        node = walks[row, 0]
        for place in range(1, walks.shape[1]):
            state += GOLDEN
            drawn = np.float64(mix(state) >> np.uint64(11)) * 2.0**-53
            low, high = indptr[node], indptr[node + 1] - 1
            while low < high:  # the first edge whose cumulative share is above `drawn`
                middle = (low + high) // 2
                if cumulative[middle] > drawn:
                    high = middle
                else:
                    low = middle + 1
            node = indices[low]
            walks[row, place] = node
