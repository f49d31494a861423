"""Points in hyperbolic, flat or spherical space and the nearest of them to a query, exactly.

For one query x all three geometries rank points y by w_y |x - y|^2: w_y = 1 / (1 - |y|^2) in the
Poincare ball, and 1 in flat space and on the sphere. Scans work on that in float32, by differences,
since these keep their digits near the rim. All candidates are reranked in float64, by one compiled
loop: a query gets the same neighbours alone and in a batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from labelspace._core.compiled import loop, loop_part
from labelspace._core.threads import parallel_blocks
from labelspace._core.top_k import keep_best
from labelspace.errors import ParameterError
from labelspace.search.index import MARGIN, QUERY_BLOCK, checked_rows

GEOMETRIES = ("hyperbolic", "euclidean", "spherical")
_TILE = 512  # points; they stay in a core's cache while a block of queries is compared with them
_SMALLEST_GAP = 1e-12  # of 1 - |y|^2, should a point lie on the rim


class NeighbourIndex(ABC):
    """Finds the points nearest to a query.

    Attributes
    ----------
    points : ndarray of shape (n, dim)
        float32; in the ball, on the unit sphere, or anywhere.
    geometry : {"hyperbolic", "euclidean", "spherical"}
        The space.
    recall : float
        Share of the true nearest that is found, measured on sample queries.
    """

    kind: ClassVar[str]
    by_distance: ClassVar[bool] = True

    def __init__(self, points: np.ndarray, geometry: str) -> None:
        self.points, self.geometry = points, geometry
        self.weights = point_weights(points, geometry)
        self.names = np.arange(len(points))
        self.recall = 1.0

    def search(self, queries: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the k nearest points of each query.

        Parameters
        ----------
        queries : array-like of shape (n, dim)
            Finite numbers.
        k : int
            Number of points per query.

        Returns
        -------
        ids : ndarray of shape (n, k)
            int64, nearest first, equal distances by id; -1 where there are fewer than k points.
        distances : ndarray of shape (n, k)
            float64; inf where there are fewer than k points.

        Raises
        ------
        InputError
            If the queries are not finite numbers of the points' dimension.
        ParameterError
            If k is smaller than 1.
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
        """Return (n, k or more) int64 places in `points` that hold the nearest k; -1 pads."""

    @abstractmethod
    def state(self) -> dict[str, np.ndarray]:
        """Return all of the index but the points, as arrays for `restore_neighbours`."""

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
    """Compares every point, a tile at a time."""

    kind: ClassVar[str] = "exact"

    def state(self) -> dict[str, np.ndarray]:
        return {}

    def _candidates(self, queries: np.ndarray, k: int) -> np.ndarray:
        places = np.full((len(queries), min(k + MARGIN, len(self.points))), -1, np.int64)

        def block(start: int, stop: int) -> None:
            _scan_all(queries[start:stop], self.points, self.weights, places[start:stop])

        parallel_blocks(len(queries), block, block=32)
        return places


def point_weights(points: np.ndarray, geometry: str) -> np.ndarray:
    """Return the weights w_y of the points in float32."""
    if geometry != "hyperbolic":
        return np.ones(len(points), np.float32)
    return np.asarray(1.0 / _gaps(points), np.float32)


def _gaps(points: np.ndarray) -> np.ndarray:
    """Return 1 - |x|^2 in float64, above zero."""
    double = points.astype(np.float64)
    return np.asarray(np.maximum(1.0 - np.einsum("ij,ij->i", double, double), _SMALLEST_GAP))


def _distances(queries: np.ndarray, spreads: np.ndarray, geometry: str) -> np.ndarray:
    """Return the distances of the geometry for w |x - y|^2; inf stays."""
    if geometry == "euclidean":
        return np.asarray(np.sqrt(spreads))
    if geometry == "spherical":  # the angle over a chord
        angles = 2.0 * np.arcsin(np.minimum(np.sqrt(spreads) / 2.0, 1.0))
        return np.where(np.isinf(spreads), np.inf, angles)
    return np.asarray(2.0 * np.arcsinh(np.sqrt(spreads / _gaps(queries)[:, None])))


# Sums may be reordered, or the loop would not use vector instructions.
@loop_part(fastmath={"reassoc", "contract"})
def spread(one, other):  # type: ignore[no-untyped-def]
    """Return the squared Euclidean distance in float32."""
    total = np.float32(0.0)
    for j in range(len(one)):
        difference = one[j] - other[j]
        total += difference * difference
    return total


@loop
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


@loop
def _rank_in_double(queries, points, names, curved, places, ids, spreads):  # type: ignore[no-untyped-def]
    """Rank candidates: the only place where distances that users see are computed."""
    for row in range(len(queries)):
        filled = 0
        for place in places[row]:
            if place < 0:
                break
            total, square = _spread_and_square(queries[row], points[place])
            if curved:
                total /= max(1.0 - square, _SMALLEST_GAP)
            filled = keep_best(-total, names[place], spreads[row], ids[row], filled)


@loop_part(fastmath={"reassoc", "contract"})
def _spread_and_square(x, y):  # type: ignore[no-untyped-def]
    """Return |x - y|^2 and |y|^2 in float64."""
    total, square = 0.0, 0.0
    for j in range(len(y)):
        other = np.float64(y[j])
        difference = np.float64(x[j]) - other
        total += difference * difference
        square += other * other
    return total, square
