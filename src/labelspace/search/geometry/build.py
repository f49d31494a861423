"""Nearest points in hyperbolic, flat or spherical space: which index to use, building it.

Codes are made of the points themselves: the Lorentz lift, which makes the distance an inner
product, has coordinates that grow without bound near the rim, too large for codes of 4 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from labelspace._core.arrays import with_prefix
from labelspace._core.schema import Schema
from labelspace.errors import ParameterError
from labelspace.search.build import is_large
from labelspace.search.faiss import has_faiss
from labelspace.search.geometry.cells import CellNeighbours
from labelspace.search.geometry.codes import CodedNeighbours, choose_codes
from labelspace.search.geometry.points import GEOMETRIES, ExactNeighbours, NeighbourIndex
from labelspace.search.index import checked_rows, kind_of, unknown_kind
from labelspace.search.product_codes import code_schema
from labelspace.search.tuning import Tuner, checked_queries, probe_counts, sample_queries

KINDS = ("auto", "exact", "codes", "cells")
POINTS_PER_CELL = 3000  # the paper takes N / 3000 random centroids
_LEAST_SPEEDUP = 3  # cells per probe, below which exact search is as quick


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
    """Build an index over points.

    Parameters
    ----------
    points : array-like of shape (n, dim)
        In the ball, on the unit sphere, or anywhere, as the geometry has it.
    geometry : {"hyperbolic", "euclidean", "spherical"}
        The space.
    kind : {"auto", "exact", "codes", "cells"}
        "codes" finds candidates by 4-bit codes (needs faiss), "cells" around random points. "auto"
        is exact for few points, else codes, and cells or exact where these do not reach the recall
        or faiss is missing.
    k : int
        Number of neighbours per query; recall is measured at k.
    recall : float
        Share of the true k nearest to find; the cheapest settings that reach it are taken.
    cells : int, optional
        Number of cells; one per 3,000 points if None.
    seed : int
        Seed of the sample queries, the cells and the codes.
    queries : array-like of shape (n, dim), optional
        Typical queries to measure recall on. A sample of the points is taken if None, and beside
        them where they are few.

    Returns
    -------
    NeighbourIndex
        The index.

    Raises
    ------
    InputError
        If points or queries are not finite numbers, or no queries are in `queries`.
    ParameterError
        If `kind` or `geometry` is unknown.
    MissingExtraError
        If `kind` needs faiss and it is not installed.
    """
    points = checked_rows(points, "points")
    for name, value, allowed in (("kind", kind, KINDS), ("geometry", geometry, GEOMETRIES)):
        if value not in allowed:
            raise ParameterError(f"{name}={value!r}: expected one of {', '.join(allowed)}")
    exact = ExactNeighbours(points, geometry)
    if kind == "exact" or len(points) == 0 or (kind == "auto" and not is_large(*points.shape)):
        return exact
    rng = np.random.default_rng([seed, len(points)])
    given = checked_queries(queries, points.shape[1])

    def some_points(count: int) -> np.ndarray:
        return np.asarray(points[np.sort(rng.permutation(len(points))[:count])])

    sample = sample_queries(given, rng, some_points)
    tuner = Tuner.against(exact, sample, min(k, len(points)), recall)
    if kind == "codes" or (kind == "auto" and has_faiss()):
        codes, reached = choose_codes(points, geometry, tuner, seed)
        if reached or kind == "codes":
            return codes
    cells = max(1, len(points) // POINTS_PER_CELL) if cells is None else cells
    index = CellNeighbours.build(points, geometry, min(cells, len(points)), seed)
    reached = tuner.choose(index, probe_counts(len(index.centres)), index.set_probes)
    quick = reached and _LEAST_SPEEDUP * index.probes <= cells
    return index if kind == "cells" or quick else exact


def neighbour_schema(arrays: Mapping[str, np.ndarray], prefix: str, points: str) -> Schema:
    """Declare the arrays of an index whose names have this prefix, over so many points."""
    kind = kind_of(with_prefix(prefix, arrays))
    if kind == ExactNeighbours.kind:
        return []
    if kind == CellNeighbours.kind:
        return CellNeighbours.schema(prefix, points)
    if kind == CodedNeighbours.kind:
        return code_schema(kind, prefix)
    raise unknown_kind(kind)


def restore_neighbours(
    points: np.ndarray, geometry: str, arrays: Mapping[str, np.ndarray]
) -> NeighbourIndex:
    """Return the index whose `state` the arrays are.

    Parameters
    ----------
    points : ndarray of shape (n, dim)
        The points that it was built on.
    geometry : {"hyperbolic", "euclidean", "spherical"}
        The space.
    arrays : mapping of str to ndarray
        What `state` returned.

    Raises
    ------
    StoreError
        If the arrays are of no known kind or do not fit the points.
    """
    points = np.ascontiguousarray(points, np.float32)
    kind = kind_of(arrays)
    if kind == ExactNeighbours.kind:
        return ExactNeighbours(points, geometry)
    if kind == CodedNeighbours.kind:
        return CodedNeighbours.restore(points, geometry, arrays)
    if kind == CellNeighbours.kind:
        return CellNeighbours.restore(points, geometry, arrays)
    raise unknown_kind(kind)
