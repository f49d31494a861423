"""Indexes over points in hyperbolic, flat or spherical space: which to use, built and brought back.

Codes are made of the points themselves: the Lorentz lift, which makes the distance an inner
product, has coordinates that grow without bound near the rim, too large for codes of 4 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from labelspace.errors import ParameterError
from labelspace.search.build import is_large
from labelspace.search.faiss import has_faiss
from labelspace.search.geometry.cells import CellNeighbours, choose_probes
from labelspace.search.geometry.codes import CodedNeighbours, choose_codes
from labelspace.search.geometry.points import (
    GEOMETRIES,
    ExactNeighbours,
    NeighbourIndex,
)
from labelspace.search.index import checked_rows
from labelspace.search.tuning import QUERIES, tuning_queries

POINTS_PER_CELL = 3000  # the paper takes N / 3000 random centroids


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
             points); "auto": exact for few points, else codes, and cells or exact where these do
             not reach the recall or faiss is missing
    k        how many neighbours will be asked for; recall is measured on so many
    recall   share of them that approximate search has to find: the fewest cells that do are probed
    cells    how many; one for 3,000 points if None
    queries  (n, dim) typical queries to measure on; a sample of the points if None, and beside
             them where they are few
    """
    points = checked_rows(points, "points")
    kinds = ("auto", "exact", "codes", "cells")
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
    return ExactNeighbours(points, geometry)
