"""The Poincare disk for drawing: points are complex numbers inside the unit circle."""

from __future__ import annotations

import numpy as np

_WHOLE_DISK = 0.6  # the whole disk is shown if points lie beyond this radius
_INSIDE = 0.998  # share of the points that a picture must show


def polar(distance: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """Return the points at these hyperbolic distances from the centre, in these directions."""
    return np.asarray(np.tanh(0.5 * distance) * np.exp(1j * angle))


def translate(points: np.ndarray, centre: np.ndarray | complex) -> np.ndarray:
    """Apply to the points the isometry that maps `centre` to 0."""
    return np.asarray((points - centre) / (1.0 - np.conj(centre) * points))


def geodesics(start: np.ndarray, end: np.ndarray, n_points: int) -> np.ndarray:
    """Return (m, n_points) points along the geodesic from each start to each end.

    With its start moved to 0, a geodesic is a straight line, which is then moved back.
    """
    seen = translate(end, start)
    length = np.abs(seen)
    walked = np.tanh(np.outer(np.arctanh(np.minimum(length, 1.0 - 1e-15)), _shares(n_points)))
    direction = np.where(length > 0, seen / np.maximum(length, 1e-300), 0.0)
    return translate(walked * direction[:, None], -start[:, None])


def _shares(n_points: int) -> np.ndarray:
    return np.linspace(0.0, 1.0, n_points)


def view_radius(points: np.ndarray) -> float:
    """Return the radius that a picture shows: 1 for the whole disk, less if points lie inside."""
    if len(points) == 0:
        return 1.0
    reach = float(np.quantile(np.abs(points), _INSIDE))
    return 1.0 if reach > _WHOLE_DISK or reach == 0.0 else 1.06 * reach
