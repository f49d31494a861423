"""Update rules against geoopt's and torch's optimisers, the paper's formulas, and extremes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix, random

from labelspace.nn import poincare
from labelspace.nn.optimisers import RowOptimiser
from labelspace.nn.row_rules import (
    MOMENTUM,
    WEIGHT_DECAY,
    BallAdam,
    BallGradient,
    GradientLinear,
    GradientTable,
    MomentumLinear,
    RiemannianAdam,
)
from labelspace.nn.row_tables import RowTable, SparseLinear
from support.quiet_geoopt import geoopt

BALLS = [BallGradient, BallAdam, RiemannianAdam]


@pytest.fixture
def weight():
    return (np.random.default_rng(0).standard_normal((12, 3)) * 0.3).astype(np.float32)


def target_loss(rows, target):
    return poincare.distance(rows.double(), target).square().sum()


def target(rows):
    return torch.from_numpy(np.random.default_rng(1).uniform(-0.5, 0.5, (rows, 3)))


def test_gradient_descent_is_the_papers_formula(weight):
    table = BallGradient(weight)
    rows = table.rows(np.array([2, 5]))
    target_loss(rows, target(2)).backward()
    x, g = weight[[2, 5]].astype(np.float64), rows.grad.double().numpy()
    table.step(0.1)
    expected = x - 0.1 * ((1 - (x**2).sum(1, keepdims=True)) / 2) ** 2 * g
    np.testing.assert_allclose(table.weight[[2, 5]], expected, atol=1e-6)
    untouched = np.setdiff1d(np.arange(12), [2, 5])
    assert np.array_equal(table.weight[untouched], BallGradient(weight).weight[untouched])


def test_scaled_adam_is_adams_step_times_the_inverse_metric(weight):
    table, flat = BallAdam(weight), RowTable(weight.copy())
    ids = np.arange(4)
    for _ in range(4):  # the flat table is put back, so that both see the same gradients
        before = table.weight.copy()
        flat.weight[:] = before
        for each in (table, flat):
            target_loss(each.rows(ids), target(4)).backward()
            each.step(0.05)
        inverse = ((1 - (before[ids] ** 2).sum(1, keepdims=True)) / 2) ** 2
        moved = inverse * (flat.weight[ids] - before[ids])
        np.testing.assert_allclose(table.weight[ids] - before[ids], moved, atol=2e-6)


def test_riemannian_adam_is_geoopts(weight):
    table = RiemannianAdam(weight)
    theirs = [
        geoopt.ManifoldParameter(
            torch.from_numpy(row).double(), manifold=geoopt.PoincareBallExact()
        )
        for row in weight
    ]
    optimisers = [geoopt.optim.RiemannianAdam([row], lr=0.05) for row in theirs]
    goal = target(12)
    for step in range(6):
        ids = np.random.default_rng(step).choice(12, 6, replace=False)
        target_loss(table.rows(ids), goal[ids]).backward()
        table.step(0.05)
        for row in ids:
            optimisers[row].zero_grad()
            target_loss(theirs[row], goal[row]).backward()
            optimisers[row].step()
    expected = torch.stack([row.detach() for row in theirs]).numpy()
    np.testing.assert_allclose(table.weight, expected, atol=1e-5)


@pytest.mark.parametrize("kind", BALLS)
def test_each_rule_reaches_a_target(weight, kind):
    table, goal = kind(weight), target(12)
    for _ in range(600):
        target_loss(table.rows(np.arange(12)), goal).backward()
        table.step(0.05 if kind is not BallAdam else 0.2)
    far = poincare.distance(torch.from_numpy(table.weight).double(), goal)
    assert far.max() < 0.1


@pytest.mark.parametrize("kind", BALLS)
@pytest.mark.parametrize("rate", [1e-30, 1.0, 1e6, 1e30])
def test_no_rate_leaves_the_ball(weight, kind, rate):
    table = kind(np.concatenate([weight, [[0, 0, 0], [5.0, 0, 0]]]))
    ids = np.arange(14)
    for _ in range(20):
        target_loss(table.rows(ids), target(14)).backward()
        table.step(rate)
        lengths = np.linalg.norm(table.weight.astype(np.float64), axis=1)
        assert (lengths < 1 - 0.9 * poincare.RIM).all()


@pytest.mark.parametrize("kind", [*BALLS, GradientTable])
def test_state_goes_out_and_comes_back(weight, kind):
    def step(table):
        target_loss(table.rows(np.array([1, 2])), target(2)).backward()
        RowOptimiser({"t": (table, 0.1)}).step(1.0)

    one = kind(weight.copy())
    step(one)
    kept = {k: v.clone() for k, v in RowOptimiser({"t": (one, 0.1)}).state().items()}
    other = kind(weight.copy())
    other.weight[:] = one.weight
    RowOptimiser({"t": (other, 0.1)}).load_state(kept)
    step(one)
    step(other)
    assert np.array_equal(one.weight, other.weight)


def test_plain_descent_of_the_sparse_layer_is_dense_descent():
    rng = np.random.default_rng(3)
    W = rng.standard_normal((20, 4)).astype(np.float32)
    row_lr_scale = rng.random(20).astype(np.float32)
    X = random(15, 20, 0.2, format="csr", dtype=np.float32, random_state=0)
    layer = GradientLinear(W.copy(), row_lr_scale)
    assert isinstance(layer, SparseLinear)
    layer(X).pow(2).sum().backward()
    layer.step(0.1)
    dense = X.toarray()
    expected = W - 0.1 * row_lr_scale[:, None] * (dense.T @ (2 * dense @ W))
    np.testing.assert_allclose(layer.weight, expected, atol=1e-5)


def test_plain_descent_of_a_table_is_scaled_by_row(weight):
    scale = np.linspace(0.0, 1.0, 12, dtype=np.float32)
    table, ids = GradientTable(weight.copy(), scale), np.array([0, 3, 11])
    table.rows(ids).square().sum().backward()
    table.step(0.1)
    expected = weight.copy()
    expected[ids] -= 0.1 * scale[ids, None] * 2 * weight[ids]
    np.testing.assert_allclose(table.weight, expected, atol=1e-6)


def test_tables_without_a_gradient_stay(weight):
    for kind in BALLS:
        table = kind(weight)
        before = table.weight.copy()
        table.rows(np.array([0]))
        table.step(0.1)
        assert np.array_equal(table.weight, before)


@pytest.mark.parametrize(("lazy", "share"), [(True, 1.0), (False, 0.3)])
def test_momentum_is_torchs_sgd_lazily_where_batches_use_all_features(lazy, share):
    rng = np.random.default_rng(0)
    start = rng.standard_normal((6, 4)).astype(np.float32)
    layer = MomentumLinear(start.copy(), lazy=lazy)
    weight = torch.from_numpy(start.copy()).requires_grad_()
    sgd = torch.optim.SGD([weight], 0.1, MOMENTUM, weight_decay=WEIGHT_DECAY)
    for _ in range(5):
        X = rng.uniform(0.1, 1.0, (8, 6)).astype(np.float32) * (rng.random(6) <= share)
        aim = torch.from_numpy(rng.standard_normal((8, 4)).astype(np.float32))
        sgd.zero_grad()
        ((torch.from_numpy(X) @ weight - aim) ** 2).mean().backward()
        sgd.step()
        ((layer(csr_matrix(X)) - aim) ** 2).mean().backward()
        layer.step(0.1)
    np.testing.assert_allclose(layer.weight, weight.detach().numpy(), atol=1e-5)


def test_momentum_leaves_rows_of_features_that_a_batch_lacks():
    layer = MomentumLinear(np.ones((3, 2), np.float32))
    layer(csr_matrix(np.array([[1.0, 0.0, 2.0]], np.float32))).sum().backward()
    layer.step(0.5)
    np.testing.assert_array_equal(layer.weight[1], 1.0)
    assert (layer.weight[[0, 2]] < 1.0).all()
