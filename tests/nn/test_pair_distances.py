"""Distances of listed pairs against the definition of each geometry, with torch's own gradient."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from labelspace.nn import poincare
from labelspace.nn.encoder import unit
from labelspace.nn.pair_distances import pair_distances

ROWS = np.array([0, 0, 2, 1, 2, 2, 0])  # with a pair that comes twice
COLUMNS = np.array([3, 1, 0, 3, 4, 4, 3])


def arcosh_distance(x, y):
    """The distance as section 2.2 of the paper prints it."""
    apart = (x - y).square().sum(1)
    gaps = (1 - x.square().sum(1)) * (1 - y.square().sum(1))
    return torch.arccosh(1 + 2 * apart / gaps)


DEFINITIONS = {
    "hyperbolic": arcosh_distance,
    "euclidean": lambda x, y: (x - y).norm(dim=1),
    "spherical": lambda x, y: torch.arccos((x * y).sum(1)),
}


def points(n, seed, geometry):
    drawn = torch.from_numpy(np.random.default_rng(seed).uniform(-0.5, 0.5, (n, 3)))
    return (unit(drawn) if geometry == "spherical" else drawn).requires_grad_()


@pytest.mark.parametrize("geometry", DEFINITIONS)
def test_distances_and_gradients_are_those_of_the_definition(geometry):
    x, y = points(3, 0, geometry), points(5, 1, geometry)
    found = pair_distances(x, y, ROWS, COLUMNS, geometry)
    expected = DEFINITIONS[geometry](x[ROWS], y[COLUMNS])
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0.0)
    weights = torch.linspace(-1.0, 2.0, len(ROWS), dtype=torch.float64)
    mine = torch.autograd.grad((weights * found).sum(), (x, y))
    theirs = torch.autograd.grad((weights * expected).sum(), (x, y))
    if geometry == "spherical":  # points move on the sphere alone: what is left is along it
        mine = [g - (g * p).sum(1, keepdim=True) * p for g, p in zip(mine, (x, y), strict=True)]
        theirs = [g - (g * p).sum(1, keepdim=True) * p for g, p in zip(theirs, (x, y), strict=True)]
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def test_the_ball_agrees_with_all_pairs_at_once_near_the_rim():
    x, y = (1.99 * points(n, n, "euclidean").detach() / 3**0.5 for n in (3, 5))
    every = np.indices((3, 5)).reshape(2, -1)
    found = pair_distances(x, y, *every, "hyperbolic").reshape(3, 5)
    torch.testing.assert_close(found, poincare.pairwise_distance(x, y), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("geometry", DEFINITIONS)
@pytest.mark.parametrize("other", [[0.6, 0.8, 0.0], [-0.6, -0.8, 0.0]])
def test_gradients_are_finite_where_points_coincide_on_the_rim_or_are_opposite(geometry, other):
    x = torch.tensor([[0.6, 0.8, 0.0]], dtype=torch.float64, requires_grad=True)
    y = torch.tensor([other], dtype=torch.float64, requires_grad=True)
    pair_distances(x, y, np.array([0]), np.array([0]), geometry).sum().backward()
    assert torch.isfinite(x.grad).all()
    assert torch.isfinite(y.grad).all()
    if other[0] > 0:
        assert (x.grad == 0).all()
