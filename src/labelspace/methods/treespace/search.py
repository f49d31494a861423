"""Best-first search from the root, which scores only children of nodes that can still rank.

p(c | x) is the largest product of sigmoids along a path from the root to c, so a node is never more
probable than its most probable parent. The most probable node is expanded first; when k labels are
at least as probable as every node that is not expanded, they are the k best: search is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.threads import parallel_blocks
from labelspace.components.neighbour_blend import BlendParameters, NeighbourBlend
from labelspace.methods.treespace.geometry import Geometry
from labelspace.methods.treespace.nodes import Nodes
from labelspace.methods.treespace.search_loops import close_rows, rank_rows
from labelspace.methods.treespace.vectors import Layout
from labelspace.search.neighbours.compressed import CompressedExamples

TAIL_BIASES = (0.25, 0.5, 1.0, 1.5)  # values that are tried, in order
MAX_TAIL_COST = 0.1  # maximum loss of the validation score, in percent
MORE_CANDIDATES = 16  # labels beyond the k best that a tail bias may rank higher
IDENTITY = BlendParameters()  # leaves p unchanged


@dataclass(frozen=True, eq=False)
class TreeIndex:
    """The label tree with the points of its nodes, as flat arrays.

    Attributes
    ----------
    flat : ndarray
        The points of all nodes, concatenated; scaled by the scale of their space if scored by inner
        product.
    starts : ndarray of shape (n_nodes + 1,)
        Where each node's point begins in `flat`.
    part : ndarray of shape (n_nodes,)
        Where the matching part of a query begins.
    bias : ndarray of shape (n_nodes,)
    slope : ndarray of shape (n_nodes,) or (0,)
        Decrease of the logit per distance in the ball; empty if scored by inner product.
    node_of : ndarray of shape (n_labels,)
        The node of each label, or -1.
    beam : int
        Maximum number of nodes to expand per example; 0 for no limit.
    """

    nodes: Nodes
    flat: np.ndarray
    starts: np.ndarray
    part: np.ndarray
    bias: np.ndarray
    slope: np.ndarray
    node_of: np.ndarray
    beam: int

    @property
    def n_labels(self) -> int:
        return len(self.node_of)

    @classmethod
    def build(
        cls,
        nodes: Nodes,
        layout: Layout,
        vectors: list[np.ndarray],
        scale: np.ndarray,
        bias: np.ndarray,
        n_labels: int,
        beam: int,
        geometry: Geometry,
    ) -> TreeIndex:
        """Build the index from the vectors of each space, scales of spaces and biases of nodes."""
        starts, slope = _starts(layout), np.empty(0, np.float32)
        in_flat = scale.astype(np.float32)
        if geometry.neutral_distance > 0:
            slope, in_flat = in_flat[layout.space], np.ones_like(in_flat)
            bias = (bias + geometry.neutral_distance * slope).astype(np.float32)
        flat = np.empty(starts[-1], np.float32)
        for space, matrix in enumerate(vectors):
            here = np.flatnonzero(layout.space == space)
            places = starts[here][:, None] + np.arange(matrix.shape[1])
            flat[places] = geometry.points(matrix[layout.row[here]]) * in_flat[space]
        return cls.over(nodes, layout, flat, bias, slope, n_labels, beam)

    @classmethod
    def over(
        cls,
        nodes: Nodes,
        layout: Layout,
        flat: np.ndarray,
        bias: np.ndarray,
        slope: np.ndarray,
        n_labels: int,
        beam: int,
    ) -> TreeIndex:
        """Build the index over points that are concatenated already."""
        # Read-only as in a loaded model: for writable arrays the compiler generates a loop that
        # rounds differently, and scores would change when a model is saved and loaded.
        flat, bias, slope = (_read_only(array) for array in (flat, bias, slope))
        node_of = np.full(n_labels, -1, np.int32)
        labelled = np.flatnonzero(nodes.label >= 0)
        node_of[nodes.label[labelled]] = labelled
        part = layout.starts[np.maximum(layout.space, 0)]
        return cls(nodes, flat, _starts(layout), part, bias, slope, node_of, beam)

    def effective_dimensions(self, layout: Layout) -> list[float]:
        """Return (sum of norms)^2 / sum of squared norms of the columns of each space.

        The column of a dimension holds it for all nodes of the space. The figure is the dimension
        of the space if all columns are of one length, and 1 if a single one is not zero.
        """
        found = []
        for space, dim in enumerate(layout.dims):
            here = self.starts[:-1][layout.space == space]
            norms = np.linalg.norm(self.flat[here[:, None] + np.arange(dim)], axis=0)
            squares = float(norms @ norms)
            found.append(float(norms.sum()) ** 2 / squares if squares > 0 else 0.0)
        return found

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the k most probable labels per example and their log odds; -1 pads."""
        labels, scores, _ = self.rank(queries, k)
        p = np.clip(scores.astype(np.float64), 1e-9, 1.0 - 1e-6)
        return labels, np.log(p / (1.0 - p))

    def rank(
        self,
        queries: np.ndarray,
        k: int,
        votes: Votes | None = None,
        parameters: BlendParameters = IDENTITY,
        tail_bias: np.ndarray | None = None,
        exact: bool = False,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the k best labels, their scores, and the number of nodes scored per example.

        Parameters
        ----------
        queries : ndarray of shape (n, total dimension of the spaces)
        k : int
        votes : Votes, optional
            Near training examples.
        parameters : BlendParameters
            How path probability and votes are blended.
        tail_bias : ndarray of shape (n_labels,), optional
            Added to the log odds of the most probable labels.
        exact : bool
            Whether to score every node, as a reference.
        """
        n = len(queries)
        if votes is None:
            votes = Votes.none(n)
        labels = np.full((n, k), -1, np.int64)
        scores = np.zeros((n, k), np.float32)
        scored = np.zeros(n, np.int64)
        nodes = self.nodes
        n_candidates, added = k, np.zeros(self.n_labels, np.float32)
        if tail_bias is not None:
            n_candidates, added = min(k + MORE_CANDIDATES, self.n_labels), tail_bias

        def block(start: int, stop: int) -> None:
            rank_rows(
                *(queries[start:stop], (self.flat, self.starts, self.part, self.bias, self.slope)),
                *(nodes.children.indptr, nodes.children.indices),
                *(nodes.parents.indptr, nodes.parents.indices),
                *(nodes.ancestors.indptr, nodes.ancestors.indices, nodes.label, self.node_of),
                *(votes.rows[start:stop], votes.cosines[start:stop], votes.ends, votes.labels),
                *(tuple(parameters), added, n_candidates, -1 if exact else self.beam),
                *(labels[start:stop], scores[start:stop], scored[start:stop]),
            )

        parallel_blocks(n, block, block=64)
        return labels, scores, scored


def _read_only(array: np.ndarray) -> np.ndarray:
    """Return a read-only view."""
    view = array.view(np.ndarray)
    view.flags.writeable = False
    return view


def _starts(layout: Layout) -> np.ndarray:
    """Return where the point of each node begins if all are concatenated."""
    dims = np.asarray(layout.dims)[layout.space]
    dims[0] = 0  # the root has no vector
    return np.concatenate([[0], np.cumsum(dims)])


@dataclass(frozen=True, eq=False)
class Votes:
    """Near examples per query, -1 pads, their cosines, and the labels of all examples as CSR."""

    rows: np.ndarray
    cosines: np.ndarray
    ends: np.ndarray
    labels: np.ndarray

    @classmethod
    def none(cls, n: int) -> Votes:
        """Return no votes for n queries."""
        near = np.empty((n, 0), np.int64), np.empty((n, 0), np.float32)
        return cls(*near, np.zeros(1, np.int32), np.empty(0, np.int32))


class TreeBlend(NeighbourBlend):
    """Ranks labels by the tree and by the votes of near training examples together.

    Attributes
    ----------
    tail_bias : ndarray of shape (n_labels,) or None
        Added to the log odds. A label is never more probable than its parents, so without it rare
        labels would always rank last, even if all are nearly certain.
    """

    index: TreeIndex  # type: ignore[assignment]  # has the same `search` method

    def __init__(
        self,
        index: TreeIndex,
        voters: CompressedExamples | None,
        neighbours: int,
        parameters: BlendParameters | None = None,
    ) -> None:
        super().__init__(index, voters, neighbours, parameters)  # type: ignore[arg-type]  # as above
        self.tail_bias: np.ndarray | None = None

    def fit_tail_bias(
        self,
        vectors: np.ndarray,
        queries: np.ndarray,
        Y: csr_matrix,
        score: Callable[[np.ndarray, np.ndarray], float],
        rarity: np.ndarray,
    ) -> None:
        """Take the largest tail bias that costs at most MAX_TAIL_COST of the validation score.

        `rarity` is the log of each label's inverse propensity; the bias is a multiple of it.
        """
        k = min(5, Y.shape[1])
        least = score(*self.rank(vectors, queries, k)) - MAX_TAIL_COST
        for amount in TAIL_BIASES:
            before, self.tail_bias = self.tail_bias, (amount * rarity).astype(np.float32)
            if score(*self.rank(vectors, queries, k)) < least:
                self.tail_bias = before
                break
        self.recalibrate(vectors, queries, Y)

    def rank(
        self, vectors: np.ndarray, queries: np.ndarray, k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the k best labels per example and their probabilities; see `NeighbourBlend`."""
        votes = None
        if self.voters is not None and self.parameters.neighbour_share > 0:
            near = self.voters.nearest(vectors, min(self.neighbours, len(self.voters)))
            known = self.voters.Y
            votes = Votes(*near, _read_only(known.indptr), _read_only(known.indices))
        labels, scores, _ = self.index.rank(queries, k, votes, self.parameters, self.tail_bias)
        return labels, scores


def with_ancestors(
    labels: np.ndarray, scores: np.ndarray, ends: np.ndarray, ancestors: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ranking with the ancestors of each label inserted before it, with its score.

    The ancestors of label l are ancestors[ends[l]:ends[l + 1]], from the root down.
    """
    closed = np.full_like(labels, -1), np.zeros_like(scores)
    close_rows(labels, scores, ends, ancestors, *closed)
    return closed
