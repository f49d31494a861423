"""Nearest points in hyperbolic, flat or spherical space, exactly or approximately.

For one query x all three geometries rank points y by w_y |x - y|^2: w_y = 1 / (1 - |y|^2) in the
Poincare ball, and 1 in flat space and on the sphere. Scans work on that in float32, by differences,
since these keep their digits near the rim. As an inner product, which any index for those can
search, it is the Lorentz lift <(|x|^2, x, 1), -w (1, -2y, |y|^2)>; near the rim w explodes, so
that a lift in float32 is searched wide. Every short list is ranked again in float64, by one
compiled loop: a query gets the same answer alone and in a batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numba import njit

from labelspace.errors import ParameterError, StoreError
from labelspace.parallel import over_rows
from labelspace.search.index import QUERY_BLOCK, InnerProductIndex, checked_rows
from labelspace.search.inner_product import build_index, restore_index
from labelspace.search.votes import keep_best

GEOMETRIES = ("hyperbolic", "euclidean", "spherical")
POINTS_PER_CELL = 3000  # the paper takes N / 3000 random centroids
_MARGIN = 8  # float32 may rank a point a little below place k that belongs above it
_TILE = 512  # points that stay in a core's cache while a block of queries passes over them
_SAMPLE = 256  # queries that recall is measured on
_SMALLEST_GAP = 1e-12  # of 1 - |y|^2, should a point lie on the rim
_WIDE = 8  # a lift in float32 is asked for so many times the neighbours wanted


class NeighbourIndex(ABC):
    """Finds the points nearest to a query.

    points  (n, dim) float32; in the ball, on the unit sphere, or anywhere
    recall  the share of the true nearest that is found, measured on sample queries
    """

    kind: ClassVar[str]

    def __init__(self, points: np.ndarray, geometry: str) -> None:
        self.points, self.geometry = points, geometry
        self.weights = _weights(points, geometry)
        self.names = np.arange(len(points))
        self.recall = 1.0

    def search(self, queries: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k nearest points of each query as (ids (n, k) int64, distances (n, k) float64).

        Nearest first, equal distances by id; -1 and inf pad a row that has fewer than k points.
        """
        if k < 1:
            raise ParameterError(f"k={k}: expected an integer of at least 1")
        queries = checked_rows(queries, "queries", self.points.shape[1])
        ids = np.full((len(queries), k), -1, np.int64)
        spreads = np.full((len(queries), k), -np.inf)
        for start in range(0, len(queries), QUERY_BLOCK):
            rows = slice(start, start + QUERY_BLOCK)
            if len(self.points):
                places = self._candidates(queries[rows], min(k, len(self.points)))
                self._rank(queries[rows], places, ids[rows], spreads[rows])
        return ids, _distances(queries, -spreads, self.geometry)

    @abstractmethod
    def _candidates(self, queries: np.ndarray, k: int) -> np.ndarray:
        """(n, k or more) int64 places in `points` that hold the nearest k; -1 pads at the end."""

    @abstractmethod
    def state(self) -> dict[str, np.ndarray]:
        """All of the index but the points, as flat arrays for `restore_neighbours`."""

    def _rank(
        self, queries: np.ndarray, places: np.ndarray, ids: np.ndarray, spreads: np.ndarray
    ) -> None:
        curved = self.geometry == "hyperbolic"

        def block(start: int, stop: int) -> None:
            _rank_in_double(
                *(queries[start:stop], self.points, self.names, curved),
                *(places[start:stop], ids[start:stop], spreads[start:stop]),
            )

        over_rows(len(queries), block, block=64)


class ExactNeighbours(NeighbourIndex):
    """Looks at every point, a tile at a time."""

    kind: ClassVar[str] = "exact"

    def state(self) -> dict[str, np.ndarray]:
        return {}

    def _candidates(self, queries: np.ndarray, k: int) -> np.ndarray:
        places = np.full((len(queries), min(k + _MARGIN, len(self.points))), -1, np.int64)

        def block(start: int, stop: int) -> None:
            _scan_all(queries[start:stop], self.points, self.weights, places[start:stop])

        over_rows(len(queries), block, block=32)
        return places


class CellNeighbours(NeighbourIndex):
    """Points in cells around random ones of them; a query looks into the `probes` nearest cells.

    `points` are in the order of their cells: those of cell c are points[starts[c]:starts[c + 1]].
    """

    kind: ClassVar[str] = "cells"

    def __init__(
        self, points: np.ndarray, geometry: str, centres: np.ndarray, cell_of: np.ndarray
    ) -> None:
        """centres: ids of the points that cells lie around; cell_of: each point's cell."""
        order = np.argsort(cell_of, kind="stable")
        super().__init__(np.ascontiguousarray(points[order]), geometry)
        self.names, self.cell_of = order, cell_of
        self.starts = np.searchsorted(cell_of[order], np.arange(len(centres) + 1))
        self.centres, self.around = centres, ExactNeighbours(points[centres], geometry)
        self.probes = 1

    @classmethod
    def build(cls, points: np.ndarray, geometry: str, cells: int, seed: int) -> Self:
        drawn = np.random.default_rng(seed).choice(len(points), cells, replace=False)
        centres = np.sort(drawn)
        nearest, _ = ExactNeighbours(points[centres], geometry).search(points, 1)
        return cls(points, geometry, centres, nearest[:, 0].astype(np.int32))

    @classmethod
    def restore(cls, points: np.ndarray, geometry: str, arrays: Mapping[str, np.ndarray]) -> Self:
        centres, cell_of = arrays["centres"], arrays["cell_of"]
        fits = len(cell_of) == len(points) and len(centres) > 0
        for ids, limit in ((centres, len(points)), (cell_of, len(centres))):
            fits = fits and (len(ids) == 0 or bool(ids.min() >= 0 and ids.max() < limit))
        if not fits:
            raise StoreError("the search cells do not fit the points")
        index = cls(points, geometry, centres, cell_of)
        index.probes, index.recall = int(arrays["probes"][0]), float(arrays["recall"][0])
        return index

    def state(self) -> dict[str, np.ndarray]:
        return {
            "centres": self.centres,
            "cell_of": self.cell_of,
            "probes": np.array([self.probes]),
            "recall": np.array([self.recall]),
        }

    def _candidates(self, queries: np.ndarray, k: int) -> np.ndarray:
        probed, _ = self.around.search(queries, min(self.probes, len(self.centres)))
        places = np.full((len(queries), min(k + _MARGIN, len(self.points))), -1, np.int64)

        def block(start: int, stop: int) -> None:
            _scan_cells(
                *(queries[start:stop], self.points, self.weights, self.starts),
                *(probed[start:stop], places[start:stop]),
            )

        over_rows(len(queries), block, block=16)
        return places


class LiftedNeighbours(NeighbourIndex):
    """Any inner-product index over the lifted points, asked for more than is wanted."""

    kind: ClassVar[str] = "lift"

    def __init__(
        self, points: np.ndarray, geometry: str, index: InnerProductIndex, wide: int = _WIDE
    ) -> None:
        super().__init__(points, geometry)
        self.index, self.wide = index, wide

    def state(self) -> dict[str, np.ndarray]:
        inner = {f"inner.{name}": array for name, array in self.index.state().items()}
        return {**inner, "wide": np.array([self.wide]), "lift_recall": np.array([self.recall])}

    @classmethod
    def restore(cls, points: np.ndarray, geometry: str, arrays: Mapping[str, np.ndarray]) -> Self:
        inner = {k[6:]: v for k, v in arrays.items() if k.startswith("inner.")}
        found = restore_index(lifted_points(points, geometry), inner)
        index = cls(points, geometry, found, int(arrays["wide"][0]))
        index.recall = float(arrays["lift_recall"][0])
        return index

    def _candidates(self, queries: np.ndarray, k: int) -> np.ndarray:
        wide = min(self.wide * k + _MARGIN, len(self.points))
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

    kind     "exact"; "cells" (around random points); "lift" (the inner-product index that
             `build_index` chooses); "auto": cells where they pay and reach the recall, else exact
    k        how many neighbours will be asked for; recall is measured on so many
    recall   share of them that approximate search has to find: the fewest cells that do are probed
    cells    how many; one for 3,000 points if None
    queries  (n, dim) typical queries to measure on; a sample of the points if None
    """
    points = checked_rows(points, "points")
    kinds = ("auto", "exact", "cells", "lift")
    for name, value, allowed in (("kind", kind, kinds), ("geometry", geometry, GEOMETRIES)):
        if value not in allowed:
            raise ParameterError(f"{name}={value!r}: expected one of {', '.join(allowed)}")
    exact = ExactNeighbours(points, geometry)
    cells = max(1, len(points) // POINTS_PER_CELL) if cells is None else cells
    if kind == "exact" or len(points) == 0 or (kind == "auto" and cells < 8):
        return exact
    rng = np.random.default_rng([seed, len(points)])
    source = points if queries is None else checked_rows(queries, "queries", points.shape[1])
    sample = source[np.sort(rng.permutation(len(source))[:_SAMPLE])]
    if kind == "lift":
        inner = build_index(lifted_points(points, geometry), queries=lifted_queries(sample))
        lift = LiftedNeighbours(points, geometry, inner)
        lift.recall = recall_of(lift, exact, sample, k)[0]
        return lift
    index = CellNeighbours.build(points, geometry, min(cells, len(points)), seed)
    reached = _choose_probes(index, exact, sample, k, recall)
    return index if kind == "cells" or (reached and 3 * index.probes <= cells) else exact


def restore_neighbours(
    points: np.ndarray, geometry: str, arrays: Mapping[str, np.ndarray]
) -> NeighbourIndex:
    """The index whose `state` the arrays are, over the points that it was built on."""
    points = np.ascontiguousarray(points, np.float32)
    if "centres" in arrays:
        return CellNeighbours.restore(points, geometry, arrays)
    if "wide" in arrays:
        return LiftedNeighbours.restore(points, geometry, arrays)
    return ExactNeighbours(points, geometry)


def recall_of(
    index: NeighbourIndex, exact: NeighbourIndex, queries: np.ndarray, k: int
) -> tuple[float, float]:
    """Share of the true k nearest that the index finds, and its standard error.

    By distance, not by id: of points that are equally near any will do.
    """
    k = min(k, len(exact.points))
    wanted = exact.search(queries, k)[1][:, -1:]
    found = (index.search(queries, k)[1] <= wanted).mean(axis=1)
    return float(found.mean()), float(found.std() / np.sqrt(max(1, len(found))))


def _choose_probes(
    index: CellNeighbours, exact: ExactNeighbours, queries: np.ndarray, k: int, recall: float
) -> bool:
    """Set the fewest probes that reach the recall; False if that took all cells."""
    probes = 1
    while True:
        index.probes = min(probes, len(index.centres))
        index.recall, error = recall_of(index, exact, queries, k)
        if index.recall >= min(1.0, recall + error):
            return True
        if index.probes == len(index.centres):
            return False
        probes = max(probes + 1, round(1.3 * probes))


def lifted_points(points: np.ndarray, geometry: str) -> np.ndarray:
    """(n, dim + 2) float32 rows whose inner product with a lifted query is -w |x - y|^2."""
    weights, double = _weights(points, geometry).astype(np.float64), points.astype(np.float64)
    squares = np.einsum("ij,ij->i", double, double)
    lifted = np.column_stack([-weights, 2.0 * weights[:, None] * double, -weights * squares])
    return np.ascontiguousarray(lifted, np.float32)


def lifted_queries(queries: np.ndarray) -> np.ndarray:
    """(|x|^2, x, 1)."""
    squares = np.einsum("ij,ij->i", queries, queries)
    return np.column_stack([squares, queries, np.ones_like(squares)]).astype(np.float32)


def _weights(points: np.ndarray, geometry: str) -> np.ndarray:
    if geometry != "hyperbolic":
        return np.ones(len(points), np.float32)
    return np.asarray(1.0 / _gaps(points), np.float32)


def _gaps(points: np.ndarray) -> np.ndarray:
    """1 - |x|^2 in float64, above zero."""
    double = points.astype(np.float64)
    return np.asarray(np.maximum(1.0 - np.einsum("ij,ij->i", double, double), _SMALLEST_GAP))


def _distances(queries: np.ndarray, spreads: np.ndarray, geometry: str) -> np.ndarray:
    """From w |x - y|^2 to the distance of the geometry; inf stays."""
    if geometry == "euclidean":
        return np.asarray(np.sqrt(spreads))
    if geometry == "spherical":  # the angle over a chord
        angles = 2.0 * np.arcsin(np.minimum(np.sqrt(spreads) / 2.0, 1.0))
        return np.where(np.isinf(spreads), np.inf, angles)
    return np.asarray(2.0 * np.arcsinh(np.sqrt(spreads / _gaps(queries)[:, None])))


# Sums may be reordered, or the loop would not use vector instructions.
@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _spread(one, other):  # type: ignore[no-untyped-def]
    total = np.float32(0.0)
    for j in range(len(one)):
        difference = one[j] - other[j]
        total += difference * difference
    return total


@njit(cache=True, nogil=True)
def _scan_all(queries, points, weights, places):  # type: ignore[no-untyped-def]
    values = np.full(places.shape, -np.inf, np.float32)
    for first in range(0, len(points), _TILE):
        stop = min(first + _TILE, len(points))
        for row in range(len(queries)):
            query, best_values, best_places = queries[row], values[row], places[row]
            filled = min(first, len(best_values))
            for place in range(first, stop):
                value = -weights[place] * _spread(query, points[place])
                filled = keep_best(value, place, best_values, best_places, filled)


@njit(cache=True, nogil=True)
def _scan_cells(queries, points, weights, starts, probed, places):  # type: ignore[no-untyped-def]
    values = np.full(places.shape[1], -np.inf, np.float32)
    for row in range(len(queries)):
        query, best_places, filled = queries[row], places[row], 0
        for cell in probed[row]:
            for place in range(starts[cell], starts[cell + 1]):
                value = -weights[place] * _spread(query, points[place])
                filled = keep_best(value, place, values, best_places, filled)


@njit(cache=True, nogil=True)
def _rank_in_double(queries, points, names, curved, places, ids, spreads):  # type: ignore[no-untyped-def]
    """The only place where distances that users see are computed."""
    for row in range(len(queries)):
        filled = 0
        for place in places[row]:
            if place < 0:
                break
            total, square = 0.0, 0.0
            for j in range(points.shape[1]):
                y = np.float64(points[place, j])
                difference = np.float64(queries[row, j]) - y
                total += difference * difference
                square += y * y
            if curved:
                total /= max(1.0 - square, _SMALLEST_GAP)
            filled = keep_best(-total, names[place], spreads[row], ids[row], filled)
