"""The spaces of TreeSpace: one a level, and the vectors of nodes and examples in them.

    e_c = settle(e_p P_p + own_c)      a child on its parent, own_c its own part
    z_s(x) = settle(h(x) A_s)          an example in space s, h one pass of the encoder

P_p takes the parent's space into the child's: a matrix for the level, with a low-rank one of the
parent's own beside it, or a whole one of the parent's own. Top nodes are their own part alone.
`settle` is the geometry's: vectors of length 1, or tangents of a ball.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor
from torch.nn.functional import embedding

from labelspace.methods.treespace.geometry import Geometry
from labelspace.methods.treespace.nodes import Nodes
from labelspace.nn.encoder import TINY, Encoder, unit_array
from labelspace.nn.products import dense_times_dense
from labelspace.nn.row_tables import RowTable, SparseLinear

Projections = Literal["node", "low-rank", "shared"]
RANK = 4
WHOLE_NUMBERS, LOW_RANK_NUMBERS = 8_000_000, 64_000_000  # most numbers that "auto" spends
ENCODED_AT_A_TIME = 4096


@dataclass(frozen=True, eq=False)
class Layout:
    """Which space each node lives in, and where it stands there.

    dims   dimension of each space, growing with depth; labels outside of the taxonomy have a last
           one of their own, as what tells a brand is not what tells a category
    space  (nodes,) int32, -1 for the root
    row    (nodes,) int32 place among the nodes of the same space
    """

    dims: tuple[int, ...]
    space: np.ndarray
    row: np.ndarray

    @classmethod
    def of(cls, nodes: Nodes, dim: int, top_dim: int, most_spaces: int) -> Layout:
        n_spaces = int(np.clip(nodes.depth.max(), 1, most_spaces))
        steps = np.linspace(0.0, 1.0, n_spaces) if n_spaces > 1 else np.ones(1)
        dims = np.rint(top_dim * (dim / top_dim) ** steps).astype(int)
        space = np.minimum(nodes.depth - 1, n_spaces - 1)
        outside = nodes.grouped & (nodes.label >= 0)
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
        """Where each space begins in the row of all of an example's vectors."""
        return np.concatenate([[0], np.cumsum(self.dims)])


@dataclass(frozen=True)
class Step:
    """Nodes of one depth and one space, their parents all of one space.

    parents  (m,) places of their parents among the batch's nodes
    """

    nodes: np.ndarray
    parents: np.ndarray
    pair: tuple[int, int]


class TreeVectors:
    """Own parts and projections, and the nodes' vectors made of them."""

    def __init__(
        self,
        nodes: Nodes,
        layout: Layout,
        own: list[RowTable],
        shared: dict[tuple[int, int], Tensor],
        special: dict[tuple[int, int], RowTable],
        kind: Projections,
        geometry: Geometry,
    ) -> None:
        self.nodes, self.layout, self.kind, self.geometry = nodes, layout, kind, geometry
        self.own, self.shared, self.special = own, shared, special
        self.parents = _parents(nodes, layout)  # which node a row of `special` belongs to

    @classmethod
    def fresh(
        cls,
        nodes: Nodes,
        layout: Layout,
        projections: str,
        geometry: Geometry,
        rng: np.random.Generator,
    ) -> TreeVectors:
        """No own parts yet; projections that keep lengths and angles."""
        counts = np.bincount(layout.space[1:], minlength=len(layout.dims))
        own = [
            RowTable(np.zeros((n, d), np.float32)) for n, d in zip(counts, layout.dims, strict=True)
        ]
        parents = _parents(nodes, layout)
        kind = _affordable(layout, parents) if projections == "auto" else projections
        shared, special = {}, {}
        for (a, b), those in parents.items():
            matrix = orthonormal(layout.dims[a], layout.dims[b], rng)
            if kind == "node":
                special[a, b] = RowTable(np.tile(matrix.ravel(), (len(those), 1)))
                continue
            shared[a, b] = torch.from_numpy(matrix).requires_grad_()
            if kind == "low-rank":
                into = rng.standard_normal((len(those), RANK * layout.dims[a]), np.float32)
                into /= np.sqrt(np.float32(layout.dims[a]))
                out = np.zeros((len(those), RANK * layout.dims[b]), np.float32)
                special[a, b] = RowTable(np.hstack([into, out]))
        return cls(nodes, layout, own, shared, special, kind, geometry)  # type: ignore[arg-type]  # checked by the method

    def steps(self, chosen: np.ndarray) -> list[Step]:
        """The nodes, sorted and with all their main ancestors, in parts that are computed at once.

        Parts come by depth; each node's parent is in an earlier one.
        """
        space, main = self.layout.space, self.nodes.main
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
        """These nodes and all on the way of their main parents to the root, sorted."""
        wanted = np.zeros(len(self.nodes), bool)
        while len(chosen):
            wanted[chosen] = True
            chosen = self.nodes.main[chosen]
            chosen = np.unique(chosen[(chosen > 0) & ~wanted[chosen]])
        return np.flatnonzero(wanted)

    def batch(
        self, steps: list[Step]
    ) -> tuple[list[Tensor], list[Tensor | None], list[Tensor], Tensor]:
        """Vectors of each step's nodes, settled, what their parents say, and all own parts.

        The last number is the mean square of the projections used, summed over pairs of spaces.
        Looks every table up once, so that its next step moves just these rows.
        """
        layout = self.layout
        by_space: list[np.ndarray] = []
        for number in range(len(layout.dims)):
            here = [layout.row[s.nodes] for s in steps if s.pair[1] == number]
            by_space.append(np.concatenate(here) if here else np.empty(0, np.int32))
        own = [table.rows(rows) for table, rows in zip(self.own, by_space, strict=True)]
        used, special = self._look_up_special(steps)
        taken = [0] * len(layout.dims)
        first = [0]
        vectors: list[Tensor] = []
        expected: list[Tensor | None] = []
        for step in steps:
            number, size = step.pair[1], len(step.nodes)
            vector = own[number][taken[number] : taken[number] + size]
            taken[number] += size
            guess = None
            if step.pair[0] >= 0:
                guess = self._project(step, first, vectors, used, special)
                vector = vector + guess
            vectors.append(self.geometry.settle(vector))
            expected.append(guess)
            first.append(first[-1] + size)
        return vectors, expected, own, self._mean_squares(special)

    def _mean_squares(self, special: Mapping[tuple[int, int], Tensor]) -> Tensor:
        """Of the entries of the levels' matrices, and of the nodes' own parts of projections."""
        total = torch.zeros(())
        for matrix in self.shared.values():
            total = total + matrix.square().sum(1).sum() / matrix.numel()
        for pair, rows in special.items():
            into, out = (self.layout.dims[space] for space in pair)
            if self.kind == "node":
                squares = rows.square().sum(1)
            else:  # |A' B|^2 = <A A', B B'>, of rank by rank matrices
                a, b = _factors(rows, into, out)
                squares = ((a @ a.transpose(1, 2)) * (b @ b.transpose(1, 2))).sum((1, 2))
            total = total + squares.sum() / (max(1, len(rows)) * into * out)
        return total

    def _look_up_special(
        self, steps: list[Step]
    ) -> tuple[dict[tuple[int, int], np.ndarray], dict[tuple[int, int], Tensor]]:
        """The parents of each pair of spaces, sorted, and the rows of their own projections."""
        used, found = {}, {}
        for pair, table in self.special.items():
            parents = [self.nodes.main[step.nodes] for step in steps if step.pair == pair]
            used[pair] = np.unique(np.concatenate(parents or [np.empty(0, np.int32)]))
            found[pair] = table.rows(np.searchsorted(self.parents[pair], used[pair]))
        return used, found

    def _project(
        self,
        step: Step,
        first: list[int],
        vectors: list[Tensor],
        used: Mapping[tuple[int, int], np.ndarray],
        special: Mapping[tuple[int, int], Tensor],
    ) -> Tensor:
        """What each node's parent says of it, (m, dimension)."""
        parents, back = np.unique(step.parents, return_inverse=True)
        home = np.searchsorted(first, parents, side="right") - 1
        pieces = [  # mostly one: parents of one space and depth
            vectors[number][torch.from_numpy(parents[home == number] - first[number])]
            for number in np.unique(home)
        ]
        above = torch.cat(pieces)  # parents are sorted, and so are their homes
        if step.pair in self.shared:
            said = above @ self.shared[step.pair]
        if step.pair in self.special:
            names = np.empty(len(parents), np.int64)
            names[back] = self.nodes.main[step.nodes]
            rows = special[step.pair][torch.from_numpy(np.searchsorted(used[step.pair], names))]
            own = _apply(rows, above, self.layout.dims[step.pair[1]], self.kind)
            said = said + own if step.pair in self.shared else own
        # Unlike an index, its gradient is summed in one order whatever the number of threads is.
        return embedding(torch.from_numpy(back), said)

    def place(self, points: list[np.ndarray]) -> None:
        """Set own parts so that nodes stand at these settled vectors, [space] a row a node."""
        steps = self.steps(np.arange(1, len(self.nodes)))
        rows = [self.layout.row[step.nodes] for step in steps]
        wanted = [torch.from_numpy(points[s.pair[1]][r]) for s, r in zip(steps, rows, strict=True)]
        first = np.cumsum([0, *(len(step.nodes) for step in steps)]).tolist()
        with torch.no_grad():
            used, special = self._look_up_special(steps)
            for step, here, point in zip(steps, rows, wanted, strict=True):
                own = self.geometry.free(point)
                if step.pair[0] >= 0:
                    own = own - self._project(step, first, wanted, used, special)
                self.own[step.pair[1]].weight[here] = own.numpy()

    def final(self) -> list[np.ndarray]:
        """All nodes' vectors, [s] for the nodes of space s in their rows."""
        steps = self.steps(np.arange(1, len(self.nodes)))
        found = [np.zeros_like(table.weight) for table in self.own]
        with torch.no_grad():
            vectors, *_ = self.batch(steps)
        for step, vector in zip(steps, vectors, strict=True):
            found[step.pair[1]][self.layout.row[step.nodes]] = vector.numpy()
        return found

    def tables(self) -> dict[str, RowTable]:
        own = {f"own.{number}": table for number, table in enumerate(self.own)}
        return own | {f"special.{a}.{b}": table for (a, b), table in self.special.items()}

    def tensors(self) -> dict[str, Tensor]:
        rows = {name: torch.from_numpy(table.weight) for name, table in self.tables().items()}
        return rows | {f"shared.{a}.{b}": matrix for (a, b), matrix in self.shared.items()}


class LevelEncoder:
    """An example's vectors in all spaces, from one pass of one encoder."""

    def __init__(self, trunk: Encoder, heads: list[Tensor], geometry: Geometry) -> None:
        self.trunk, self.heads, self.geometry = trunk, heads, geometry

    @classmethod
    def fresh(
        cls,
        n_features: int,
        width: int,
        dims: tuple[int, ...],
        geometry: Geometry,
        rng: np.random.Generator,
        **options: Any,
    ) -> LevelEncoder:
        trunk = Encoder.fresh(n_features, (width,), rng, **options)
        heads = [torch.from_numpy(orthonormal(width, d, rng)).requires_grad_() for d in dims]
        return cls(trunk, heads, geometry)

    @classmethod
    def restore(
        cls, arrays: Mapping[str, np.ndarray], n_spaces: int, geometry: Geometry
    ) -> LevelEncoder:
        """Take back what `arrays` gave, for prediction alone."""
        trunk = Encoder(SparseLinear.frozen(arrays["encoder.first"]), [])
        heads = [torch.from_numpy(np.array(arrays[f"head.{s}"])) for s in range(n_spaces)]
        return cls(trunk, heads, geometry)

    def tensors(self) -> dict[str, Tensor]:
        return self.trunk.tensors() | {f"head.{s}": head for s, head in enumerate(self.heads)}

    def arrays(self) -> dict[str, np.ndarray]:
        heads = {f"head.{s}": head.detach().numpy() for s, head in enumerate(self.heads)}
        return self.trunk.arrays() | heads

    def __call__(self, X: csr_matrix) -> list[Tensor]:
        h = self.trunk(X)
        return [self.geometry.settle(h @ head) for head in self.heads]

    def encode(self, X: csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        """The encoder's own vectors, of length 1, and (n, sum of dimensions) all spaces' points.

        A row's result does not depend on the rows beside it.
        """
        trunk, found = self._free(X)
        for part in self._parts():
            found[:, part] = self.geometry.points(self.geometry.settle_array(found[:, part]))
        return unit_array(trunk), found

    def trunk_points(self, X: csr_matrix) -> np.ndarray:
        """The first of what `encode` gives, without the work for the second."""
        return unit_array(self.trunk.encode(X))

    def stretch(self, X: csr_matrix) -> None:
        """Lengthen or shorten heads: examples begin, on average, at the geometry's first length."""
        found = self._free(X)[1]
        for head, part in zip(self.heads, self._parts(), strict=True):
            mean = np.linalg.norm(found[:, part], axis=1).mean()
            with torch.no_grad():
                head *= self.geometry.start / max(float(mean), TINY)

    def _free(self, X: csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        """The encoder's output and what all heads make of it, side by side."""
        heads = np.hstack([head.detach().numpy() for head in self.heads])
        found = np.empty((X.shape[0], heads.shape[1]), np.float32)
        trunk = np.empty((X.shape[0], heads.shape[0]), np.float32)
        for start in range(0, X.shape[0], ENCODED_AT_A_TIME):
            rows = slice(start, start + ENCODED_AT_A_TIME)
            trunk[rows] = self.trunk.encode(X[rows])
            found[rows] = dense_times_dense(trunk[rows], heads)
        return trunk, found

    def _parts(self) -> list[slice]:
        """Where the spaces lie side by side."""
        ends = np.cumsum([0, *(head.shape[1] for head in self.heads)]).tolist()
        return [slice(begin, end) for begin, end in pairwise(ends)]


def orthonormal(n_in: int, n_out: int, rng: np.random.Generator) -> np.ndarray:
    """(n_in, n_out) with orthonormal rows, or columns where these are fewer."""
    wide, narrow = max(n_in, n_out), min(n_in, n_out)
    q, _ = np.linalg.qr(rng.standard_normal((wide, narrow)))
    return np.ascontiguousarray(q if n_in >= n_out else q.T, np.float32)


def _apply(rows: Tensor, above: Tensor, dim: int, kind: str) -> Tensor:
    """Each parent's vector through its own projection."""
    n, width = above.shape
    if kind == "node":
        return torch.bmm(above[:, None], rows.view(n, width, dim))[:, 0]
    into, out = _factors(rows, width, dim)
    return torch.bmm(torch.bmm(above[:, None], into.transpose(1, 2)), out)[:, 0]


def _factors(rows: Tensor, into: int, out: int) -> tuple[Tensor, Tensor]:
    """The two factors of low-rank projections, (n, RANK, into) and (n, RANK, out)."""
    split = RANK * into
    return rows[:, :split].reshape(-1, RANK, into), rows[:, split:].reshape(-1, RANK, out)


def _parents(nodes: Nodes, layout: Layout) -> dict[tuple[int, int], np.ndarray]:
    """(parent's, child's) spaces -> the nodes, sorted, that are projected from one to the other."""
    below = np.flatnonzero(nodes.main > 0)
    main = nodes.main[below]
    pairs = np.stack([layout.space[main], layout.space[below]], axis=1)
    return {
        (int(a), int(b)): np.unique(main[(pairs == (a, b)).all(axis=1)])
        for a, b in np.unique(pairs, axis=0)
    }


def _affordable(layout: Layout, parents: Mapping[tuple[int, int], np.ndarray]) -> Projections:
    """The freest projections whose numbers stay within bounds."""
    sizes = [(len(those), layout.dims[a], layout.dims[b]) for (a, b), those in parents.items()]
    if sum(n * a * b for n, a, b in sizes) <= WHOLE_NUMBERS:
        return "node"
    if sum(n * RANK * (a + b) for n, a, b in sizes) <= LOW_RANK_NUMBERS:
        return "low-rank"
    return "shared"
