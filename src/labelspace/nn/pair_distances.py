"""Distances between listed pairs of points, in hyperbolic, Euclidean or spherical space.

Where each example has negatives of its own, a batch needs a few of all distances between examples
and labels. One compiled loop computes those, and one their gradient: torch would gather a vector of
the whole dimension for each side of a pair, and sum gradients in an order that depends on threads.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from labelspace._core.compiled import loop, loop_part

_CODES = {"hyperbolic": 0, "euclidean": 1, "spherical": 2}
_SMALLEST_GAP = np.finfo(np.float64).eps  # of 1 - |x|^2, on the rim
# Points nearer than its root have a gradient of 0: it would divide by their distance.
_COINCIDENT = np.finfo(np.float64).eps


def pair_distances(
    x: Tensor, y: Tensor, rows: np.ndarray, columns: np.ndarray, geometry: str
) -> Tensor:
    """Return the distances between x[rows] and y[columns], pair by pair.

    Parameters
    ----------
    x : Tensor of shape (n, dim), float64
    y : Tensor of shape (m, dim), float64
        Points in the ball, anywhere, or of length 1, as the geometry has it.
    rows, columns : ndarrays of shape (pairs,)
    geometry : {"hyperbolic", "euclidean", "spherical"}

    Returns
    -------
    Tensor of shape (pairs,)

    Examples
    --------
    >>> import numpy as np, torch
    >>> x, y = torch.zeros(1, 2).double(), torch.tensor([[0.5, 0.0], [0.0, 0.6]]).double()
    >>> pair_distances(x, y, np.array([0]), np.array([1]), "hyperbolic")
    tensor([1.3863], dtype=torch.float64)
    """
    return cast(Tensor, _PairDistances.apply(x, y, rows, columns, _CODES[geometry]))  # type: ignore[no-untyped-call]  # torch's `apply` has no types


class _PairDistances(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, y: Tensor, rows: np.ndarray, columns: np.ndarray, geometry: int
    ) -> Tensor:
        ctx.save_for_backward(x, y)
        ctx.pairs, ctx.geometry = (rows, columns), geometry
        found = np.empty(len(rows))
        _distances(x.numpy(), y.numpy(), rows, columns, geometry, found)
        return torch.from_numpy(found)

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        x, y = (points.numpy() for points in ctx.saved_tensors)
        on_x, on_y = np.zeros_like(x), np.zeros_like(y)
        _gradients(x, y, *ctx.pairs, ctx.geometry, outer.contiguous().numpy(), on_x, on_y)
        return torch.from_numpy(on_x), torch.from_numpy(on_y), None, None, None


@loop_part(fastmath={"reassoc", "contract"})
def _square(x, y):  # type: ignore[no-untyped-def]
    total = 0.0
    for j in range(len(x)):
        total += (x[j] - y[j]) ** 2
    return total


@loop_part
def _gaps(points):  # type: ignore[no-untyped-def]
    """Return 1 - |x|^2 of each point."""
    gaps = np.empty(len(points))
    for i in range(len(points)):
        total = 0.0
        for value in points[i]:
            total += value * value
        gaps[i] = max(1.0 - total, _SMALLEST_GAP)
    return gaps


@loop
def _distances(x, y, rows, columns, geometry, found):  # type: ignore[no-untyped-def]
    gap_x, gap_y = _gaps(x), _gaps(y)
    for pair in range(len(rows)):
        r, c = rows[pair], columns[pair]
        square = _square(x[r], y[c])
        if geometry == 0:
            t = square / (gap_x[r] * gap_y[c])
            # arsinh(sqrt t) with all its digits for small t
            found[pair] = 2.0 * np.log1p(t / (1.0 + np.sqrt(1.0 + t)) + np.sqrt(t))
        elif geometry == 1:
            found[pair] = np.sqrt(square)
        else:
            found[pair] = 2.0 * np.arcsin(min(0.5 * np.sqrt(square), 1.0))


@loop
def _gradients(x, y, rows, columns, geometry, outer, on_x, on_y):  # type: ignore[no-untyped-def]
    gap_x, gap_y = _gaps(x), _gaps(y)
    for pair in range(len(rows)):
        r, c = rows[pair], columns[pair]
        square = _square(x[r], y[c])
        gaps = gap_x[r] * gap_y[c] if geometry == 0 else 1.0
        t = square / gaps
        if t < _COINCIDENT or outer[pair] == 0.0:
            continue
        # `apart` multiplies x - y; in the ball, `along` multiplies x and y themselves.
        along_x, along_y = 0.0, 0.0
        if geometry == 0:
            slope = 2.0 * outer[pair] / np.sqrt(t * (1.0 + t))
            apart = slope / gaps
            along_x, along_y = slope * t / gap_x[r], slope * t / gap_y[c]
        elif geometry == 1:
            apart = outer[pair] / np.sqrt(square)
        else:
            apart = outer[pair] / np.sqrt(square * max(1.0 - 0.25 * square, 1e-9))
        one, other, on_one, on_other = x[r], y[c], on_x[r], on_y[c]
        # Two loops: in one, the compiler takes the two sums for the same memory.
        for j in range(len(one)):
            on_one[j] += (apart + along_x) * one[j] - apart * other[j]
        for j in range(len(one)):
            on_other[j] += (apart + along_y) * other[j] - apart * one[j]
