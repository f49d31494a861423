"""The Poincare ball as pure functions of torch tensors, whose last dimension is that of the points.

The ball has curvature -1 and the metric g_x = factor(x)^2 g_E. The clamps that keep points off the
rim and denominators above zero are in the small functions at the top. Tensors should be float64:
near the rim, float32 has too few digits of 1 - |x|^2 for sums and differences of points.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

# Least distance of points from the rim: there, float32 coordinates give 1 - |x|^2 to a percent.
RIM = 1e-5


def project(x: Tensor) -> Tensor:
    """Return the points, with those outside the ball or within RIM of its rim scaled down.

    Examples
    --------
    >>> import torch
    >>> x = torch.tensor([[3.0, 4.0], [0.3, 0.4]], dtype=torch.float64)
    >>> project(x).norm(dim=1)
    tensor([1.0000, 0.5000], dtype=torch.float64)
    """
    length = _length(x)
    return x * torch.clamp((1.0 - RIM) / length, max=1.0)


def _gap(x: Tensor) -> Tensor:
    """Return 1 - |x|^2 with the dimension kept, above zero even for points on the rim."""
    return (1.0 - x.square().sum(-1, keepdim=True)).clamp_min(torch.finfo(x.dtype).eps)


def _length(x: Tensor) -> Tensor:
    """Return |x| with the dimension kept, above zero; where it is clamped its gradient is zero."""
    return x.square().sum(-1, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny).sqrt()


def _arsinh_root(t: Tensor) -> Tensor:
    """Return arsinh(sqrt t), accurate for small t; torch's own asinh takes five times as long."""
    return torch.log1p(t / (1.0 + (1.0 + t).sqrt()) + t.sqrt())


def factor(x: Tensor) -> Tensor:
    """Return the conformal factor 2 / (1 - |x|^2): the ratio of hyperbolic to Euclidean length.

    Examples
    --------
    >>> import torch
    >>> factor(torch.tensor([[0.0, 0.0], [0.6, 0.0]]))
    tensor([[2.0000],
            [3.1250]])
    """
    return 2.0 / _gap(x)


def distance(x: Tensor, y: Tensor) -> Tensor:
    """Return the distances between the points x and y, row by row.

    d(x, y) = arcosh(1 + 2t) = 2 arsinh(sqrt t), t = |x - y|^2 / ((1 - |x|^2)(1 - |y|^2)).

    The second form is accurate for points that are near each other. At x = y the gradient is 0.

    Parameters
    ----------
    x, y : Tensor of shape (..., dim)

    Returns
    -------
    Tensor of shape (...)

    Examples
    --------
    >>> import torch
    >>> distance(torch.zeros(1, 2), torch.tensor([[0.5, 0.0]]))  # 2 artanh(0.5)
    tensor([1.0986])
    """
    t = _length(x - y).square() / (_gap(x) * _gap(y))
    return 2.0 * _arsinh_root(t).squeeze(-1)


def pairwise_distance(x: Tensor, y: Tensor) -> Tensor:
    """Return the distances between all rows of x and all rows of y, by one matrix product.

    Points nearer than about sqrt(eps) to each other have a distance of about 0.

    Parameters
    ----------
    x : Tensor of shape (n, dim)
    y : Tensor of shape (m, dim)

    Returns
    -------
    Tensor of shape (n, m)

    Examples
    --------
    >>> import torch
    >>> pairwise_distance(torch.zeros(1, 2), torch.tensor([[0.5, 0.0], [0.0, 0.6]]))
    tensor([[1.0986, 1.3863]])
    """
    return cast(Tensor, _Pairwise.apply(x, y))  # type: ignore[no-untyped-call]  # torch's `apply` has no types


class _Pairwise(torch.autograd.Function):
    """Distances with a gradient written out, since autograd would keep six (n, m) matrices."""

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
        # d' = 1 / sqrt(t (1 + t)); below eps, where points coincide, it is set to zero.
        least = torch.finfo(x.dtype).eps
        slope = (t * (1.0 + t)).clamp_(min=least).rsqrt_().mul_(outer)
        slope.masked_fill_(t < least, 0.0)
        through_t = slope * t
        slope.div_(gap_x).div_(gap_y.T)
        on_x = slope.sum(1, keepdim=True) + through_t.sum(1, keepdim=True) / gap_x
        on_y = slope.sum(0)[:, None] + through_t.sum(0)[:, None] / gap_y
        return 2.0 * (on_x * x - slope @ y), 2.0 * (on_y * y - slope.T @ x)


def metric_scaled(points: Tensor) -> Tensor:
    """Return the points unchanged; the gradient through them is divided by factor(points)^2.

    The Euclidean gradient at a point so becomes the Riemannian one before it is propagated to the
    weights that the point is computed from (Gerald & Baskiotis 2019, section 2.5).

    Examples
    --------
    >>> import torch
    >>> x = torch.zeros(1, 2, requires_grad=True)
    >>> metric_scaled(x).sum().backward()
    >>> x.grad
    tensor([[0.2500, 0.2500]])
    """
    return cast(Tensor, _MetricScaled.apply(points))  # type: ignore[no-untyped-call]  # torch's `apply` has no types


class _MetricScaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, points: Tensor) -> Tensor:
        ctx.save_for_backward(points)
        return points.clone()

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> Tensor:
        (points,) = ctx.saved_tensors
        return outer / factor(points).square()


def mobius_add(x: Tensor, y: Tensor) -> Tensor:
    """Return the Mobius sum x + y: the translation of the ball that maps 0 to x, applied to y.

    Examples
    --------
    >>> import torch
    >>> mobius_add(torch.tensor([[0.5, 0.0]]), torch.tensor([[0.5, 0.0]]))
    tensor([[0.8000, 0.0000]])
    """
    xy = (x * y).sum(-1, keepdim=True)
    xx, yy = x.square().sum(-1, keepdim=True), y.square().sum(-1, keepdim=True)
    below = (1.0 + 2.0 * xy + xx * yy).clamp_min(torch.finfo(x.dtype).tiny)
    return ((1.0 + 2.0 * xy + yy) * x + (1.0 - xx) * y) / below


def exponential(x: Tensor, v: Tensor) -> Tensor:
    """Return the exponential map: where the geodesic from x with velocity v is at time 1.

    Parameters
    ----------
    x : Tensor of shape (..., dim)
        Points of the ball.
    v : Tensor of shape (..., dim)
        Tangent vectors at x.

    Returns
    -------
    Tensor of shape (..., dim)
        Points of the ball, at least `RIM` off its rim.

    Examples
    --------
    >>> import torch
    >>> exponential(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))  # tanh(1)
    tensor([[0.7616, 0.0000]])
    """
    length = _length(v)
    return project(mobius_add(x, torch.tanh(0.5 * factor(x) * length) * v / length))


def gyrate(x: Tensor, y: Tensor, v: Tensor) -> Tensor:
    """Return the gyration gyr[x, y] v, for which x + (y + v) = (x + y) + gyr[x, y] v."""
    xx, yy = x.square().sum(-1, keepdim=True), y.square().sum(-1, keepdim=True)
    xy, xv = (x * y).sum(-1, keepdim=True), (x * v).sum(-1, keepdim=True)
    yv = (y * v).sum(-1, keepdim=True)
    along_x = -xv * yy + yv + 2.0 * xy * yv
    along_y = -yv * xx - xv
    below = (1.0 + 2.0 * xy + xx * yy).clamp_min(torch.finfo(x.dtype).tiny)
    return v + 2.0 * (along_x * x + along_y * y) / below


def transport(x: Tensor, y: Tensor, v: Tensor) -> Tensor:
    """Return the tangent vector v at x after parallel transport along the geodesic to y.

    Its hyperbolic norm is preserved.

    Examples
    --------
    >>> import torch
    >>> x, y, v = torch.zeros(1, 2), torch.tensor([[0.5, 0.0]]), torch.tensor([[0.0, 1.0]])
    >>> moved = transport(x, y, v)
    >>> (factor(x) * v).norm(), (factor(y) * moved).norm()
    (tensor(2.), tensor(2.))
    """
    return factor(x) / factor(y) * gyrate(y, -x, v)
