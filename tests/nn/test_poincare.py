"""The ball against geoopt in float64, and against 60 digits of mpmath near centre and rim."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import torch

from labelspace.nn import poincare
from support.quiet_geoopt import geoopt

BALL = geoopt.PoincareBall()
RADII = (1e-12, 1e-6, 0.01, 0.5, 0.99, 1 - 1e-5)


def points(n, seed, dim=4, radius=0.95):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, dim))
    x *= radius * rng.random((n, 1)) / np.linalg.norm(x, axis=1, keepdims=True)
    return torch.from_numpy(x)


def close(one, other, rtol=1e-9):
    torch.testing.assert_close(one, other, rtol=rtol, atol=1e-12)


def test_all_functions_agree_with_geoopt():
    x, y, v = points(300, 0), points(300, 1), points(300, 2)
    close(poincare.distance(x, y), BALL.dist(x, y))
    close(poincare.mobius_add(x, y), BALL.mobius_add(x, y))
    close(poincare.factor(x), BALL.lambda_x(x, keepdim=True))
    close(poincare.exponential(x, 0.2 * v), BALL.expmap(x, 0.2 * v))
    close(poincare.gyrate(x, y, v), BALL.gyration(x, y, v))
    close(poincare.transport(x, y, v), BALL.transp(x, y, v))


def exact_distance(x, y):
    mpmath.mp.dps = 60
    x, y = ([mpmath.mpf(float(c)) for c in p] for p in (x, y))
    apart = sum((a - b) ** 2 for a, b in zip(x, y, strict=True))
    gap = (1 - sum(a * a for a in x)) * (1 - sum(b * b for b in y))
    return float(mpmath.acosh(1 + 2 * apart / gap))


@pytest.mark.parametrize("radius", RADII)
@pytest.mark.parametrize("apart", [1e-9, 1e-3, 0.5])
def test_distance_keeps_its_digits_near_centre_and_rim(radius, apart):
    for seed in range(5):
        direction, other = np.random.default_rng(seed).standard_normal((2, 3))
        x = radius * direction / np.linalg.norm(direction)
        y = x + apart * (1 - radius) * other / np.linalg.norm(other)
        if np.linalg.norm(y) >= 1 - 1e-6:
            y = x - (y - x)
        expected = exact_distance(x, y)
        got = poincare.distance(torch.from_numpy(x), torch.from_numpy(y)).item()
        # 1 - |x|^2 itself has a relative error of about eps / (1 - |x|).
        assert got == pytest.approx(expected, rel=1e-14 + 4e-16 / (1 - radius))


@pytest.mark.parametrize("radius", RADII)
def test_exponential_against_high_precision(radius):
    """From the centre it is known in closed form: |exp_0(v)| = tanh |v|."""
    direction = torch.tensor([0.6, 0.8], dtype=torch.float64)
    zero = torch.zeros(2, dtype=torch.float64)
    mpmath.mp.dps = 60
    length = float(mpmath.atanh(mpmath.mpf(radius)))
    back = poincare.exponential(zero, length * direction)
    assert back.norm().item() == pytest.approx(radius, rel=1e-12)


def test_exponential_undoes_the_logarithm_which_has_the_distance_as_length():
    x, y = points(200, 3), points(200, 4)
    v = BALL.logmap(x, y)
    close(poincare.exponential(x, v), y)
    close((poincare.factor(x) * v).norm(dim=1), poincare.distance(x, y))


def test_transport_keeps_lengths_and_angles():
    x, y, u, v = (points(100, seed) for seed in range(4))
    before = poincare.factor(x)[:, 0] ** 2 * (u * v).sum(1)
    moved = poincare.transport(x, y, u) * poincare.transport(x, y, v)
    close(poincare.factor(y)[:, 0] ** 2 * moved.sum(1), before, rtol=1e-7)


def test_projection_leaves_the_inside_alone_and_draws_the_rest_to_the_rim():
    inside, outside = points(50, 5), 3.0 + points(50, 6)
    assert torch.equal(poincare.project(inside), inside)
    drawn = poincare.project(outside)
    close(drawn.norm(dim=1), torch.full((50,), 1 - poincare.RIM, dtype=torch.float64))
    close(drawn / drawn.norm(dim=1, keepdim=True), outside / outside.norm(dim=1, keepdim=True))
    rim = torch.tensor([[1 - poincare.RIM, 0.0]], dtype=torch.float64)
    assert poincare.distance(torch.zeros_like(rim), rim).item() == pytest.approx(
        2 * np.arctanh(1 - poincare.RIM)
    )


def test_pairs_are_the_single_distances_with_their_gradients():
    x, y = points(40, 7).requires_grad_(), points(30, 8).requires_grad_()
    weights = torch.from_numpy(np.random.default_rng(0).standard_normal((40, 30)))
    one = poincare.pairwise_distance(x, y)
    other = poincare.distance(x[:, None], y[None])
    close(one, other)
    ours = torch.autograd.grad((weights * one).sum(), (x, y))
    theirs = torch.autograd.grad((weights * other).sum(), (x, y))
    for mine, autograd in zip(ours, theirs, strict=True):
        close(mine, autograd)
    assert torch.autograd.gradcheck(poincare.distance, (x[:5], y[:5]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nothing_is_ever_nan(dtype):
    """Equal points, the centre, the rim and beyond: values and gradients stay finite."""
    x = torch.tensor([[0, 0], [0, 0], [1, 0], [0.6, 0.8], [1e-30, 0], [5, 0]], dtype=dtype)
    for place in (lambda z: z, poincare.project):
        for function in (
            lambda z: poincare.distance(z, z.detach()),
            lambda z: poincare.pairwise_distance(z, z.detach()),
            lambda z: poincare.exponential(z, 1e3 * z),
            poincare.factor,
            lambda z: poincare.project(1e15 * z),
        ):
            z = place(x).clone().requires_grad_()
            value = function(z)
            assert torch.isfinite(value).all()
            (gradient,) = torch.autograd.grad(value.sum(), z)
            assert torch.isfinite(gradient).all()
