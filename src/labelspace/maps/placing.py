"""Projection of label vectors to points of the disk, and the nearest labels of each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from labelspace.maps.disk import polar
from labelspace.search.geometry.build import build_neighbours

RECALL = 0.95  # of the true nearest labels, for models with many
_ROUNDS = 40  # of moving labels towards their nearest ones; more change little
_FEWEST_CODED = 22_500  # labels from which on approximate search is faster
_NEAR_AND_FAR = (0.4, 4.5)  # hyperbolic distances that Euclidean lengths are scaled to


class Near(NamedTuple):
    """The nearest labels of each, in the space of all dimensions; -1 and inf pad a row."""

    labels: np.ndarray
    distances: np.ndarray


def nearest_labels(vectors: np.ndarray, geometry: str, k: int) -> Near:
    """Return the k nearest labels of each label, without itself."""
    n = len(vectors)
    # Fewer than for examples: here every point is a query too.
    kind = "codes" if n >= _FEWEST_CODED else "exact"
    index = build_neighbours(vectors, geometry, kind=kind, k=k + 1, recall=RECALL)
    if index.recall < RECALL:
        index = build_neighbours(vectors, geometry, kind="exact")
    found, distances = index.search(vectors, k + 1)
    own = found == np.arange(n)[:, None]
    own[~own.any(axis=1), -1] = True  # among many equal points the label itself may be missing
    return Near(
        found[~own].reshape(n, k).astype(np.int32),
        distances[~own].reshape(n, k).astype(np.float32),
    )


def place(vectors: np.ndarray, geometry: str, near: np.ndarray) -> tuple[np.ndarray, str]:
    """Return each label's point in the disk, and a sentence on the projection.

    Parameters
    ----------
    vectors : (labels, dimensions) array
        Label vectors.
    geometry : str
        The geometry of the vectors.
    near : (labels, k) array
        The nearest labels of each; -1 pads a row.
    """
    double = np.asarray(vectors, np.float64)
    if geometry != "hyperbolic":
        offsets = double - double.mean(axis=0)
        distances = _stretched(np.linalg.norm(offsets, axis=1))
        return polar(distances, directions(offsets, near)), (
            "Distances from the centre are those from the mean of all label vectors, scaled to "
            "fill the disk; similar labels lie in similar directions."
        )
    if double.shape[1] <= 2:
        across = double[:, 1] if double.shape[1] == 2 else 0.0
        return double[:, 0] + 1j * across, "The model's own two dimensions, unchanged."
    lengths = np.linalg.norm(double, axis=1)
    distances = 2.0 * np.arctanh(np.minimum(lengths, 1.0 - 1e-12))
    rays = double / np.maximum(lengths, 1e-300)[:, None]
    return polar(distances, directions(rays, near)), (
        f"Distances from the centre are the model's own; directions of its {double.shape[1]} "
        "dimensions are projected to two."
    )


def directions(vectors: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Return angles for vectors of many dimensions, such that near labels have similar angles.

    The first angles are those in the plane of the two leading principal components. Then, in turns,
    each label moves to the mean direction of its nearest ones, and all are spaced evenly.
    """
    centred = vectors - vectors.mean(axis=0)
    _, leading = np.linalg.eigh(centred.T @ centred)
    plane = centred @ leading[:, :-3:-1]
    angles = _spread(np.arctan2(plane[:, -1], plane[:, 0]))
    known = near >= 0
    others = np.maximum(known.sum(axis=1), 1)
    for _ in range(_ROUNDS):
        rays = np.exp(1j * angles)
        angles = _spread(np.angle(0.5 * rays + (rays[near] * known).sum(axis=1) / others))
    return angles


def _spread(angles: np.ndarray) -> np.ndarray:
    """Return evenly spaced angles in the same order."""
    even = np.empty(len(angles))
    even[np.argsort(angles, kind="stable")] = np.arange(len(angles)) * (2 * np.pi / len(angles))
    return even


def _stretched(lengths: np.ndarray) -> np.ndarray:
    """Return lengths scaled to fill the disk: in high dimensions they hardly differ."""
    least, most = np.quantile(lengths, (0.01, 0.99))
    if most - least < 1e-6 * max(most, 1e-300):
        return np.full(len(lengths), sum(_NEAR_AND_FAR) / 2)
    low, high = _NEAR_AND_FAR
    share = (np.clip(lengths, least, most) - least) / (most - least)
    return np.asarray(low + (high - low) * share)
