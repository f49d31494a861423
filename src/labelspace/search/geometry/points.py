"""Points in hyperbolic, flat or spherical space and the nearest of them to a query, exactly.

For one query x all three geometries rank points y by w_y |x - y|^2: w_y = 1 / (1 - |y|^2) in the
Poincare ball, and 1 in flat space and on the sphere. Scans work on that in float32, by differences,
since these keep their digits near the rim. Every short list is ranked again in float64, by one
compiled loop: a query gets the same answer alone and in a batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numba import njit

from labelspace._core.threads import parallel_blocks
from labelspace._core.top_k import keep_best
from labelspace.errors import ParameterError
from labelspace.search.index import QUERY_BLOCK, checked_rows

GEOMETRIES = ("hyperbolic", "euclidean", "spherical")
MARGIN = 8  # float32 may rank a point a little below place k that belongs above it
_TILE = 512  # points that stay in a core's cache while a block of queries passes over them
_SMALLEST_GAP = 1e-12  # of 1 - |y|^2, should a point lie on the rim


class NeighbourIndex(ABC):
    """Finds the points nearest to a query.

    points  (n, dim) float32; in the ball, on the unit sphere, or anywhere
    recall  the share of the true nearest that is found, measured on sample queries
    """

    kind: ClassVar[str]

    def __init__(self, points: np.ndarray, geometry: str) -> None:
        self.points, self.geometry = points, geometry
        self.weights = point_weights(points, geometry)
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

        parallel_blocks(len(queries), block, block=64)


class ExactNeighbours(NeighbourIndex):
    """Looks at every point, a tile at a time."""

    kind: ClassVar[str] = "exact"

    def state(self) -> dict[str, np.ndarray]:
        return {}

    def _candidates(self, queries: np.ndarray, k: int) -> np.ndarray:
        places = np.full((len(queries), min(k + MARGIN, len(self.points))), -1, np.int64)

        def block(start: int, stop: int) -> None:
            _scan_all(queries[start:stop], self.points, self.weights, places[start:stop])

        parallel_blocks(len(queries), block, block=32)
        return places


def recall_of(
    index: NeighbourIndex, exact: NeighbourIndex, queries: np.ndarray, k: int
) -> tuple[float, float]:
    """Share of the true k nearest that the index finds, and its standard error."""
    found = shares_found(index, exact, queries, k)
    return float(found.mean()), float(found.std() / np.sqrt(max(1, len(found))))


def shares_found(
    index: NeighbourIndex, exact: NeighbourIndex, queries: np.ndarray, k: int
) -> np.ndarray:
    """(queries,) the share of its true k nearest that the index finds for each query.

    By distance, not by id: of points that are equally near any will do.
    """
    k = min(k, len(exact.points))
    wanted = exact.search(queries, k)[1][:, -1:]
    return np.asarray((index.search(queries, k)[1] <= wanted).mean(axis=1))


def point_weights(points: np.ndarray, geometry: str) -> np.ndarray:
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
def spread(one, other):  # type: ignore[no-untyped-def]
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
                value = -weights[place] * spread(query, points[place])
                filled = keep_best(value, place, best_values, best_places, filled)


@njit(cache=True, nogil=True)
def _rank_in_double(queries, points, names, curved, places, ids, spreads):  # type: ignore[no-untyped-def]
    """The only place where distances that users see are computed."""
    for row in range(len(queries)):
        filled = 0
        for place in places[row]:
            if place < 0:
                break
            total, square = _spread_and_square(queries[row], points[place])
            if curved:
                total /= max(1.0 - square, _SMALLEST_GAP)
            filled = keep_best(-total, names[place], spreads[row], ids[row], filled)


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _spread_and_square(x, y):  # type: ignore[no-untyped-def]
    """|x - y|^2 and |y|^2 in float64."""
    total, square = 0.0, 0.0
    for j in range(len(y)):
        other = np.float64(y[j])
        difference = np.float64(x[j]) - other
        total += difference * difference
        square += other * other
    return total, square
