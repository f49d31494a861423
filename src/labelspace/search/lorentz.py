"""Indexes over points in hyperbolic, flat or spherical space: which to use, built and brought back.

The rank w_y |x - y|^2 of a point, see `points`, is an inner product, which any index for those can
search: the Lorentz lift <(|x|^2, x, 1), -w (1, -2y, |y|^2)>. Near the rim w explodes, so that a
lift in float32 is searched wide, and codes of a few bits cannot follow it; these are made of the
points themselves, see `point_codes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from labelspace._core.arrays import prefixed, with_prefix
from labelspace._core.checks import kept_count
from labelspace.errors import ParameterError
from labelspace.search.cells import CellNeighbours, choose_probes
from labelspace.search.faiss import has_faiss
from labelspace.search.index import InnerProductIndex, checked_rows
from labelspace.search.inner_product import build_index, is_large, restore_index
from labelspace.search.point_codes import CodedNeighbours, choose_codes
from labelspace.search.points import (
    GEOMETRIES,
    MARGIN,
    ExactNeighbours,
    NeighbourIndex,
    point_weights,
    recall_of,
)
from labelspace.search.tuning import QUERIES, tuning_queries

POINTS_PER_CELL = 3000  # the paper takes N / 3000 random centroids
_WIDE = 8  # a lift in float32 is asked for so many times the neighbours wanted


class LiftedNeighbours(NeighbourIndex):
    """Any inner-product index over the lifted points, asked for more than is wanted."""

    kind: ClassVar[str] = "lift"

    def __init__(
        self, points: np.ndarray, geometry: str, index: InnerProductIndex, wide: int = _WIDE
    ) -> None:
        super().__init__(points, geometry)
        self.index, self.wide = index, wide

    def state(self) -> dict[str, np.ndarray]:
        inner = prefixed("inner.", self.index.state())
        return {**inner, "wide": np.array([self.wide]), "lift_recall": np.array([self.recall])}

    @classmethod
    def restore(cls, points: np.ndarray, geometry: str, arrays: Mapping[str, np.ndarray]) -> Self:
        inner = with_prefix("inner.", arrays)
        found = restore_index(lifted_points(points, geometry), inner)
        index = cls(points, geometry, found, kept_count(arrays, "wide"))
        index.recall = float(arrays["lift_recall"][0])
        return index

    def _candidates(self, queries: np.ndarray, k: int) -> np.ndarray:
        wide = min(self.wide * k + MARGIN, len(self.points))
        return self.index.search(lifted_queries(queries), wide)[0]


def build_neighbours(
    points: Any,
    geometry: str,
    *,
    kind: str = "auto",
    k: int = 10,
    recall: float = 0.99,
    cells: int | None = None,
    seed: int = 0,
    queries: Any = None,
) -> NeighbourIndex:
    """An index over points (n, dim).

    kind     "exact"; "codes" (4 bits a coordinate or two, needs faiss); "cells" (around random
             points); "lift" (the inner-product index that `build_index` chooses over the Lorentz
             lift); "auto": exact for few points, else codes, and cells or exact where these do
             not reach the recall or faiss is missing
    k        how many neighbours will be asked for; recall is measured on so many
    recall   share of them that approximate search has to find: the fewest cells that do are probed
    cells    how many; one for 3,000 points if None
    queries  (n, dim) typical queries to measure on; a sample of the points if None, and beside
             them where they are few
    """
    points = checked_rows(points, "points")
    kinds = ("auto", "exact", "codes", "cells", "lift")
    for name, value, allowed in (("kind", kind, kinds), ("geometry", geometry, GEOMETRIES)):
        if value not in allowed:
            raise ParameterError(f"{name}={value!r}: expected one of {', '.join(allowed)}")
    exact = ExactNeighbours(points, geometry)
    if kind == "exact" or len(points) == 0 or (kind == "auto" and not is_large(*points.shape)):
        return exact
    rng = np.random.default_rng([seed, len(points)])
    given = None if queries is None else checked_rows(queries, "queries", points.shape[1])

    def some_points(count: int) -> np.ndarray:
        return np.asarray(points[np.sort(rng.permutation(len(points))[:count])])

    sample, n_given = tuning_queries(given, QUERIES, rng, some_points)
    if kind == "lift":
        inner = build_index(lifted_points(points, geometry), queries=lifted_queries(sample))
        lift = LiftedNeighbours(points, geometry, inner)
        lift.recall = recall_of(lift, exact, sample, k)[0]
        return lift
    if kind == "codes" or (kind == "auto" and has_faiss()):
        codes, reached = choose_codes(exact, sample, n_given, k, recall, seed)
        if reached or kind == "codes":
            return codes
    cells = max(1, len(points) // POINTS_PER_CELL) if cells is None else cells
    index = CellNeighbours.build(points, geometry, min(cells, len(points)), seed)
    reached = choose_probes(index, exact, sample, n_given, k, recall)
    return index if kind == "cells" or (reached and 3 * index.probes <= cells) else exact


def restore_neighbours(
    points: np.ndarray, geometry: str, arrays: Mapping[str, np.ndarray]
) -> NeighbourIndex:
    """The index whose `state` the arrays are, over the points that it was built on."""
    points = np.ascontiguousarray(points, np.float32)
    if "centres" in arrays:
        return CellNeighbours.restore(points, geometry, arrays)
    if "typical" in arrays:
        return CodedNeighbours.restore(points, geometry, arrays)
    if "wide" in arrays:
        return LiftedNeighbours.restore(points, geometry, arrays)
    return ExactNeighbours(points, geometry)


def lifted_points(points: np.ndarray, geometry: str) -> np.ndarray:
    """(n, dim + 2) float32 rows whose inner product with a lifted query is -w |x - y|^2."""
    weights, double = point_weights(points, geometry).astype(np.float64), points.astype(np.float64)
    squares = np.einsum("ij,ij->i", double, double)
    lifted = np.column_stack([-weights, 2.0 * weights[:, None] * double, -weights * squares])
    return np.ascontiguousarray(lifted, np.float32)


def lifted_queries(queries: np.ndarray) -> np.ndarray:
    """(|x|^2, x, 1)."""
    squares = np.einsum("ij,ij->i", queries, queries)
    return np.column_stack([squares, queries, np.ones_like(squares)]).astype(np.float32)
