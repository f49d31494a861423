"""The spaces of TreeSpace, one per level of the tree, and the vectors of the nodes in them.

    e_c = normalise(e_p P_p + offset_c)

The vector of a node c is the projection of its parent's vector plus an offset of its own. P_p maps
the parent's space into the child's: one matrix per level, that and a low-rank matrix per parent, or
a full matrix per parent. Nodes without a parent have an offset only. `normalise` is that of the
geometry: to vectors of length 1, or to tangents of a ball.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding

from labelspace.methods.treespace.geometry import Geometry
from labelspace.methods.treespace.nodes import Nodes
from labelspace.nn.row_tables import RowTable

Projections = Literal["node", "low-rank", "shared"]
RANK = 4  # of low-rank projections
# Maximum size of all projections, in floats, up to which "auto" takes a kind: 32 and 256 MB.
MAX_FULL_SIZE, MAX_LOW_RANK_SIZE = 8_000_000, 64_000_000


@dataclass(frozen=True, eq=False)
class Layout:
    """The space of each node, and its row among the nodes of the same space.

    Attributes
    ----------
    dims : tuple of int
        Dimension of each space, growing with depth. Labels outside of the taxonomy have a last
        space of their own, since other words predict a brand than predict a category.
    space : ndarray of shape (n_nodes,)
        int32; -1 for the root.
    row : ndarray of shape (n_nodes,)
        int32.
    """

    dims: tuple[int, ...]
    space: np.ndarray
    row: np.ndarray

    @classmethod
    def of(cls, nodes: Nodes, dim: int, top_dim: int, max_spaces: int) -> Layout:
        """Return a layout whose dimensions grow geometrically from `top_dim` to `dim`."""
        n_spaces = int(np.clip(nodes.depth.max(), 1, max_spaces))
        steps = np.linspace(0.0, 1.0, n_spaces) if n_spaces > 1 else np.ones(1)
        dims = np.rint(top_dim * (dim / top_dim) ** steps).astype(int)
        space = np.minimum(nodes.depth - 1, n_spaces - 1)
        outside = nodes.outside & (nodes.label >= 0)
        if outside.any():
            dims = np.append(dims, dim)
            space[outside] = n_spaces
        row = np.zeros(len(nodes), np.int32)
        for number in range(len(dims)):
            here = np.flatnonzero(space == number)
            row[here] = np.arange(len(here))
        return cls(tuple(int(d) for d in dims), space.astype(np.int32), row)

    @property
    def starts(self) -> np.ndarray:
        """Where each space begins in an array of all spaces side by side."""
        return np.concatenate([[0], np.cumsum(self.dims)])


@dataclass(frozen=True)
class Step:
    """Nodes of one depth and one space whose parents are all of one space: computed at once.

    Attributes
    ----------
    nodes : ndarray of shape (m,)
    parents : ndarray of shape (m,) or (0,)
        Positions of the parents among the nodes of all steps, in the order of the steps; empty for
        nodes without a parent.
    pair : tuple of int
        The spaces of parents, -1 if there are none, and of nodes.
    """

    nodes: np.ndarray
    parents: np.ndarray
    pair: tuple[int, int]


class TreeVectors:
    """The trained offsets and projections, and the vectors of nodes computed from them.

    Attributes
    ----------
    offsets : list of RowTable
        Per space, the offsets of its nodes.
    level_projections : dict
        Per pair of spaces, the matrix that all nodes share; empty if `kind` is "node".
    node_projections : dict
        Per pair of spaces, a row of parameters per parent; empty if `kind` is "shared".
    projected_nodes : dict
        Per pair of spaces, the parents that the rows of `node_projections` belong to, sorted.
    kind : {"node", "low-rank", "shared"}
    """

    def __init__(
        self,
        nodes: Nodes,
        layout: Layout,
        offsets: list[RowTable],
        level_projections: dict[tuple[int, int], Tensor],
        node_projections: dict[tuple[int, int], RowTable],
        kind: Projections,
        geometry: Geometry,
    ) -> None:
        self.nodes, self.layout, self.kind, self.geometry = nodes, layout, kind, geometry
        self.offsets = offsets
        self.level_projections, self.node_projections = level_projections, node_projections
        self.projected_nodes = _projected_nodes(nodes, layout)

    @classmethod
    def fresh(
        cls,
        nodes: Nodes,
        layout: Layout,
        projections: str,
        geometry: Geometry,
        rng: np.random.Generator,
    ) -> TreeVectors:
        """Return vectors with offsets of 0 and orthonormal projections."""
        counts = np.bincount(layout.space[1:], minlength=len(layout.dims))
        offsets = [
            RowTable(np.zeros((n, d), np.float32)) for n, d in zip(counts, layout.dims, strict=True)
        ]
        projected = _projected_nodes(nodes, layout)
        kind = _default_kind(layout, projected) if projections == "auto" else projections
        by_level, by_node = {}, {}
        for (a, b), parents in projected.items():
            matrix = orthonormal(layout.dims[a], layout.dims[b], rng)
            if kind == "node":
                by_node[a, b] = RowTable(np.tile(matrix.ravel(), (len(parents), 1)))
                continue
            by_level[a, b] = torch.from_numpy(matrix).requires_grad_()
            if kind == "low-rank":
                into = rng.standard_normal((len(parents), RANK * layout.dims[a]), np.float32)
                into /= np.sqrt(np.float32(layout.dims[a]))
                out = np.zeros((len(parents), RANK * layout.dims[b]), np.float32)
                by_node[a, b] = RowTable(np.hstack([into, out]))
        return cls(nodes, layout, offsets, by_level, by_node, kind, geometry)  # type: ignore[arg-type]  # checked by the method

    def steps(self, chosen: np.ndarray) -> list[Step]:
        """Return steps over these nodes, which are sorted and include all their main ancestors.

        Steps are in the order of depth: the parent of each node is in an earlier one.
        """
        space, main = self.layout.space, self.nodes.main_parent
        above = np.where(main[chosen] > 0, space[main[chosen]], -1)
        keys = np.stack([space[chosen], above, self.nodes.depth[chosen]])
        order = np.lexsort(keys)
        bounds = np.flatnonzero(np.diff(keys[:, order], axis=1).any(axis=0)) + 1
        parts = np.split(order, bounds) if len(order) else []
        place = np.empty(len(chosen), np.int64)
        place[order] = np.arange(len(chosen))
        found = []
        for part in parts:
            nodes, pair = chosen[part], (int(above[part[0]]), int(space[chosen[part[0]]]))
            parents = np.empty(0, np.int64)
            if pair[0] >= 0:
                parents = place[np.searchsorted(chosen, main[nodes])]
            found.append(Step(nodes, parents, pair))
        return found

    def with_ancestors(self, chosen: np.ndarray) -> np.ndarray:
        """Return these nodes and all their main ancestors but the root, sorted."""
        wanted = np.zeros(len(self.nodes), bool)
        while len(chosen):
            wanted[chosen] = True
            chosen = self.nodes.main_parent[chosen]
            chosen = np.unique(chosen[(chosen > 0) & ~wanted[chosen]])
        return np.flatnonzero(wanted)

    def batch(
        self, steps: list[Step]
    ) -> tuple[list[Tensor], list[Tensor | None], list[Tensor], Tensor]:
        """Return the normalised vectors of the nodes of each step, with gradients.

        Every table is looked up once, so that the next step of the optimiser updates these rows
        only.

        Returns
        -------
        vectors : list of Tensor
            Per step, the vectors of its nodes.
        projected : list of Tensor or None
            Per step, the projections of the nodes' parents; None for nodes without a parent.
        offsets : list of Tensor
            Per space, the offsets that were used.
        mean_squares : Tensor
            The mean square of the projections that were used, summed over pairs of spaces.
        """
        layout = self.layout
        by_space: list[np.ndarray] = []
        for number in range(len(layout.dims)):
            here = [layout.row[s.nodes] for s in steps if s.pair[1] == number]
            by_space.append(np.concatenate(here) if here else np.empty(0, np.int32))
        offsets = [table.rows(rows) for table, rows in zip(self.offsets, by_space, strict=True)]
        used, own = self._look_up_projections(steps)
        taken = [0] * len(layout.dims)
        first = [0]
        vectors: list[Tensor] = []
        projected: list[Tensor | None] = []
        for step in steps:
            number, size = step.pair[1], len(step.nodes)
            vector = offsets[number][taken[number] : taken[number] + size]
            taken[number] += size
            projection = None
            if step.pair[0] >= 0:
                projection = self._project(step, first, vectors, used, own)
                vector = vector + projection
            vectors.append(self.geometry.normalise(vector))
            projected.append(projection)
            first.append(first[-1] + size)
        return vectors, projected, offsets, self._mean_squares(own)

    def _mean_squares(self, own: Mapping[tuple[int, int], Tensor]) -> Tensor:
        """Return the mean square of the matrices of levels plus that of the matrices of nodes."""
        total = torch.zeros(())
        for matrix in self.level_projections.values():
            total = total + matrix.square().sum(1).sum() / matrix.numel()
        for pair, rows in own.items():
            into, out = (self.layout.dims[space] for space in pair)
            if self.kind == "node":
                squares = rows.square().sum(1)
            else:  # |A' B|^2 = <A A', B B'>, with products of size RANK x RANK only
                a, b = _factors(rows, into, out)
                squares = ((a @ a.transpose(1, 2)) * (b @ b.transpose(1, 2))).sum((1, 2))
            total = total + squares.sum() / (max(1, len(rows)) * into * out)
        return total

    def _look_up_projections(
        self, steps: list[Step]
    ) -> tuple[dict[tuple[int, int], np.ndarray], dict[tuple[int, int], Tensor]]:
        """Return per pair of spaces the parents of these nodes, sorted, and their projections."""
        used, found = {}, {}
        for pair, table in self.node_projections.items():
            parents = [self.nodes.main_parent[step.nodes] for step in steps if step.pair == pair]
            used[pair] = np.unique(np.concatenate(parents or [np.empty(0, np.int32)]))
            found[pair] = table.rows(np.searchsorted(self.projected_nodes[pair], used[pair]))
        return used, found

    def _project(
        self,
        step: Step,
        first: list[int],
        vectors: list[Tensor],
        used: Mapping[tuple[int, int], np.ndarray],
        own: Mapping[tuple[int, int], Tensor],
    ) -> Tensor:
        """Return the projection of each node's parent, (m, dimension of the nodes' space)."""
        parents, back = np.unique(step.parents, return_inverse=True)
        step_of = np.searchsorted(first, parents, side="right") - 1
        pieces = [  # mostly one: the parents are of one space and depth
            vectors[number][torch.from_numpy(parents[step_of == number] - first[number])]
            for number in np.unique(step_of)
        ]
        above = torch.cat(pieces)  # in the order of `parents`, which are sorted
        if step.pair in self.level_projections:
            projected = above @ self.level_projections[step.pair]
        if step.pair in self.node_projections:
            ids = np.empty(len(parents), np.int64)
            ids[back] = self.nodes.main_parent[step.nodes]
            rows = own[step.pair][torch.from_numpy(np.searchsorted(used[step.pair], ids))]
            by_node = _apply(rows, above, self.layout.dims[step.pair[1]], self.kind)
            projected = projected + by_node if step.pair in self.level_projections else by_node
        # Unlike an index, its gradient is summed in one order whatever the number of threads is.
        return embedding(torch.from_numpy(back), projected)

    def set_vectors(self, vectors: list[np.ndarray]) -> None:
        """Set the offsets so that the nodes of each space have these normalised vectors."""
        steps = self.steps(np.arange(1, len(self.nodes)))
        rows = [self.layout.row[step.nodes] for step in steps]
        wanted = [torch.from_numpy(vectors[s.pair[1]][r]) for s, r in zip(steps, rows, strict=True)]
        first = np.cumsum([0, *(len(step.nodes) for step in steps)]).tolist()
        with torch.no_grad():
            used, own = self._look_up_projections(steps)
            for step, here, vector in zip(steps, rows, wanted, strict=True):
                offset = self.geometry.unnormalise(vector)
                if step.pair[0] >= 0:
                    offset = offset - self._project(step, first, wanted, used, own)
                self.offsets[step.pair[1]].weight[here] = offset.numpy()

    def final(self) -> list[np.ndarray]:
        """Return the vectors of the nodes of each space."""
        steps = self.steps(np.arange(1, len(self.nodes)))
        found = [np.zeros_like(table.weight) for table in self.offsets]
        with torch.no_grad():
            vectors, *_ = self.batch(steps)
        for step, vector in zip(steps, vectors, strict=True):
            found[step.pair[1]][self.layout.row[step.nodes]] = vector.numpy()
        return found

    def tables(self) -> dict[str, RowTable]:
        """Return the tables that are trained row by row, by name."""
        offsets = {f"offset.{number}": table for number, table in enumerate(self.offsets)}
        return offsets | {f"node.{a}.{b}": rows for (a, b), rows in self.node_projections.items()}

    def tensors(self) -> dict[str, Tensor]:
        """Return all trained tensors by name."""
        rows = {name: torch.from_numpy(table.weight) for name, table in self.tables().items()}
        levels = {f"level.{a}.{b}": matrix for (a, b), matrix in self.level_projections.items()}
        return rows | levels


def orthonormal(n_in: int, n_out: int, rng: np.random.Generator) -> np.ndarray:
    """Return a random (n_in, n_out) matrix with orthonormal rows, or columns if these are fewer."""
    q, _ = np.linalg.qr(rng.standard_normal((max(n_in, n_out), min(n_in, n_out))))
    return np.ascontiguousarray(q if n_in >= n_out else q.T, np.float32)


def _apply(rows: Tensor, above: Tensor, dim: int, kind: str) -> Tensor:
    """Return the vector of each parent, projected by its own matrix."""
    n, width = above.shape
    if kind == "node":
        return torch.bmm(above[:, None], rows.view(n, width, dim))[:, 0]
    into, out = _factors(rows, width, dim)
    return torch.bmm(torch.bmm(above[:, None], into.transpose(1, 2)), out)[:, 0]


def _factors(rows: Tensor, into: int, out: int) -> tuple[Tensor, Tensor]:
    """Return the two factors of low-rank projections, (n, RANK, into) and (n, RANK, out)."""
    split = RANK * into
    return rows[:, :split].reshape(-1, RANK, into), rows[:, split:].reshape(-1, RANK, out)


def _projected_nodes(nodes: Nodes, layout: Layout) -> dict[tuple[int, int], np.ndarray]:
    """Return per pair (space of the parent, of the child) the parents of such nodes, sorted."""
    below = np.flatnonzero(nodes.main_parent > 0)
    main = nodes.main_parent[below]
    pairs = np.stack([layout.space[main], layout.space[below]], axis=1)
    return {
        (int(a), int(b)): np.unique(main[(pairs == (a, b)).all(axis=1)])
        for a, b in np.unique(pairs, axis=0)
    }


def _default_kind(layout: Layout, projected: Mapping[tuple[int, int], np.ndarray]) -> Projections:
    """Return the kind of projections with the most parameters that the limits allow."""
    sizes = [(len(nodes), layout.dims[a], layout.dims[b]) for (a, b), nodes in projected.items()]
    if sum(n * a * b for n, a, b in sizes) <= MAX_FULL_SIZE:
        return "node"
    if sum(n * RANK * (a + b) for n, a, b in sizes) <= MAX_LOW_RANK_SIZE:
        return "low-rank"
    return "shared"
