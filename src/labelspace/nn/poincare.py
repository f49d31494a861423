"""The Poincare ball as pure functions of torch tensors; a point is the last dimension.

The ball of curvature -1 has the metric g_x = factor(x)^2 g_E. Every guard against the rim and
against division by zero stands in the small functions at the top. Work in float64: near the
rim float32 keeps too few digits of 1 - |x|^2 for sums and differences of points.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

# Points are kept this far from the rim: float32 coordinates still tell 1 - |x|^2 to a percent.
RIM = 1e-5


def project(x: Tensor) -> Tensor:
    """p(x): points outside the ball, or too near its rim, are drawn back along their ray."""
    length = _length(x)
    return x * torch.clamp((1.0 - RIM) / length, max=1.0)


def _gap(x: Tensor) -> Tensor:
    """1 - |x|^2 with the dimension kept, above zero even for points on the rim."""
    return (1.0 - x.square().sum(-1, keepdim=True)).clamp_min(torch.finfo(x.dtype).eps)


def _length(x: Tensor) -> Tensor:
    """|x| with the dimension kept, above zero; where it is clamped its gradient is zero."""
    return x.square().sum(-1, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny).sqrt()


def _artanh(r: Tensor) -> Tensor:
    """Of numbers from 0 to 1, finite at 1."""
    return torch.atanh(r.clamp_max(1.0 - torch.finfo(r.dtype).eps / 2))


def _arsinh_root(t: Tensor) -> Tensor:
    """arsinh(sqrt t) with all digits for small t; torch's own asinh takes five times as long."""
    return torch.log1p(t / (1.0 + (1.0 + t).sqrt()) + t.sqrt())


def factor(x: Tensor) -> Tensor:
    """How much longer a small step at x is than its Euclidean length: 2 / (1 - |x|^2)."""
    return 2.0 / _gap(x)


def distance(x: Tensor, y: Tensor) -> Tensor:
    """d(x, y) = arcosh(1 + 2t) = 2 arsinh(sqrt t), t = |x - y|^2 / ((1 - |x|^2)(1 - |y|^2)).

    The second form keeps its digits where points are near each other. At x = y the gradient is 0.
    """
    t = _length(x - y).square() / (_gap(x) * _gap(y))
    return 2.0 * _arsinh_root(t).squeeze(-1)


def pairwise_distance(x: Tensor, y: Tensor) -> Tensor:
    """(n, m) distances between the rows of x (n, dim) and y (m, dim), through one matrix product.

    Points nearer than about sqrt(eps) of each other come out at distance 0 or thereabouts.
    """
    return cast(Tensor, _Pairwise.apply(x, y))  # type: ignore[no-untyped-call]  # torch's `apply` has no types


class _Pairwise(torch.autograd.Function):
    """By hand: autograd would keep half a dozen (n, m) matrices."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        gap_x, gap_y = _gap(x), _gap(y)
        t = torch.addmm(x.square().sum(1, keepdim=True) + y.square().sum(1), x, y.T, alpha=-2.0)
        t.clamp_(min=torch.finfo(x.dtype).tiny).div_(gap_x).div_(gap_y.T)
        ctx.save_for_backward(x, y, gap_x, gap_y, t)
        return _arsinh_root(t).mul_(2.0)

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, Tensor]:
        x, y, gap_x, gap_y, t = ctx.saved_tensors
        # d' = 1 / sqrt(t (1 + t)); below the floor, where points coincide, it is taken as zero.
        floor = torch.finfo(x.dtype).eps
        slope = (t * (1.0 + t)).clamp_(min=floor).rsqrt_().mul_(outer)
        slope.masked_fill_(t < floor, 0.0)
        through_t = slope * t
        slope.div_(gap_x).div_(gap_y.T)
        on_x = slope.sum(1, keepdim=True) + through_t.sum(1, keepdim=True) / gap_x
        on_y = slope.sum(0)[:, None] + through_t.sum(0)[:, None] / gap_y
        return 2.0 * (on_x * x - slope @ y), 2.0 * (on_y * y - slope.T @ x)


def mobius_add(x: Tensor, y: Tensor) -> Tensor:
    """x + y in the ball: the translation that takes 0 to x, applied to y."""
    xy = (x * y).sum(-1, keepdim=True)
    xx, yy = x.square().sum(-1, keepdim=True), y.square().sum(-1, keepdim=True)
    below = (1.0 + 2.0 * xy + xx * yy).clamp_min(torch.finfo(x.dtype).tiny)
    return ((1.0 + 2.0 * xy + yy) * x + (1.0 - xx) * y) / below


def exponential(x: Tensor, v: Tensor) -> Tensor:
    """Where the geodesic from x with velocity v is after time 1; inside the ball."""
    length = _length(v)
    return project(mobius_add(x, torch.tanh(0.5 * factor(x) * length) * v / length))


def logarithm(x: Tensor, y: Tensor) -> Tensor:
    """The velocity at x whose geodesic reaches y after time 1."""
    toward = mobius_add(-x, y)
    length = _length(toward)
    return 2.0 / factor(x) * _artanh(length) * toward / length


def gyrate(x: Tensor, y: Tensor, v: Tensor) -> Tensor:
    """gyr[x, y] v: the rotation by which (x + y) + . and x + (y + .) differ."""
    xx, yy = x.square().sum(-1, keepdim=True), y.square().sum(-1, keepdim=True)
    xy, xv = (x * y).sum(-1, keepdim=True), (x * v).sum(-1, keepdim=True)
    yv = (y * v).sum(-1, keepdim=True)
    along_x = -xv * yy + yv + 2.0 * xy * yv
    along_y = -yv * xx - xv
    below = (1.0 + 2.0 * xy + xx * yy).clamp_min(torch.finfo(x.dtype).tiny)
    return v + 2.0 * (along_x * x + along_y * y) / below


def transport(x: Tensor, y: Tensor, v: Tensor) -> Tensor:
    """The velocity v at x carried along the geodesic to y: its hyperbolic length stays."""
    return factor(x) / factor(y) * gyrate(y, -x, v)
