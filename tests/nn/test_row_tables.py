"""Row tables against dense float64 autograd and torch's own Adam."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix, random

from labelspace.nn.optimisers import OptimiserGroup, RowOptimiser, TorchOptimiser
from labelspace.nn.products import sparse_times_dense
from labelspace.nn.row_tables import RowTable, SparseLinear


@pytest.fixture
def weight():
    return np.random.default_rng(0).standard_normal((30, 8)).astype(np.float32)


def batch(seed, rows=20):
    return random(rows, 30, 0.1, format="csr", dtype=np.float32, random_state=seed)


def test_forward_is_the_matrix_product(weight):
    X = batch(1, rows=300)
    expected = X.toarray().astype(np.float64) @ weight.astype(np.float64)
    np.testing.assert_allclose(sparse_times_dense(X, weight), expected, atol=1e-5)
    alone = np.vstack([sparse_times_dense(X[i], weight) for i in range(300)])
    assert np.array_equal(alone, sparse_times_dense(X, weight))


def dense_adam(weight, losses, rate):
    """Run torch's Adam in float64, one row at a time, so that each row has its own step count."""
    rows = [torch.tensor(row, dtype=torch.float64, requires_grad=True) for row in weight]
    optimisers = [torch.optim.Adam([row], lr=rate) for row in rows]
    for used, loss in losses:
        for row in rows:
            row.grad = None
        loss(torch.stack(rows)).backward()
        for row in used:
            optimisers[row].step()
    return torch.stack(rows).detach().numpy()


def test_backward_and_adam_of_the_sparse_layer(weight):
    layer, losses = SparseLinear(weight.copy()), []
    for seed in range(5):
        X = batch(seed)
        layer(X).pow(3).sum().backward()
        layer.step(0.01)
        dense = torch.tensor(X.toarray(), dtype=torch.float64)
        losses.append((np.unique(X.indices), lambda W, dense=dense: (dense @ W).pow(3).sum()))
    expected = dense_adam(weight.astype(np.float64), losses, 0.01)
    np.testing.assert_allclose(layer.weight, expected, atol=2e-4)


@pytest.mark.parametrize("decay", [None, 0.1])
def test_steps_that_are_not_lazy_are_those_of_torchs_adam_on_the_whole_table(weight, decay):
    layer, table = SparseLinear(weight.copy()), RowTable(weight.copy())
    for one in (layer, table):
        one.lazy, one.weight_decay = False, decay
    expected = [torch.tensor(weight, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    adam = torch.optim.Adam(expected, lr=0.01, weight_decay=decay or 0.0)
    for seed in range(5):
        X, ids = batch(seed, rows=4), np.array([seed, 7, 20 + seed])
        adam.zero_grad()
        (layer(X).pow(3).sum() + table.rows(ids).pow(3).sum()).backward()
        whole = torch.tensor(X.toarray(), dtype=torch.float64) @ expected[0]
        (whole.pow(3).sum() + expected[1][ids].pow(3).sum()).backward()
        for one in (layer, table):
            one.step(0.01)
        adam.step()
    for one, tensor in zip((layer, table), expected, strict=True):
        np.testing.assert_allclose(one.weight, tensor.detach(), atol=2e-4)


def test_weight_decay_of_lazy_steps_acts_on_the_rows_that_are_used(weight):
    table = RowTable(weight.copy())
    table.weight_decay = 0.1
    table.rows(np.array([3])).sum().mul(0.0).backward()
    table.step(0.01)
    moved = weight - table.weight
    np.testing.assert_allclose(moved[3], 0.01 * np.sign(weight[3]), rtol=1e-3)
    assert not np.delete(moved, 3, axis=0).any()


def test_adam_of_looked_up_rows(weight):
    table, losses = RowTable(weight.copy()), []
    for seed in range(5):
        ids = np.sort(np.random.default_rng(seed).choice(30, 7, replace=False))
        table.rows(ids).pow(3).sum().backward()
        table.step(0.01)
        losses.append((ids, lambda W, ids=ids: W[ids].pow(3).sum()))
    expected = dense_adam(weight.astype(np.float64), losses, 0.01)
    np.testing.assert_allclose(table.weight, expected, atol=2e-4)


def test_untouched_rows_stay_and_pace_slows_rows_down(weight):
    row_lr_scale = np.ones(30, np.float32)
    row_lr_scale[3] = 0.25
    table, plain = RowTable(weight.copy(), row_lr_scale), RowTable(weight.copy())
    for each in (table, plain):
        each.rows(np.array([3, 4])).sum().backward()
        each.step(0.1)
    moved, full = table.weight - weight, plain.weight - weight
    np.testing.assert_allclose(moved[3], 0.25 * full[3], rtol=1e-4)
    np.testing.assert_allclose(moved[4], full[4], rtol=1e-6)
    assert not np.delete(moved, [3, 4], axis=0).any()


def test_state_goes_out_and_comes_back(weight):
    def make():
        table = RowTable(weight.copy())
        w = torch.ones(2, requires_grad=True)
        adam = TorchOptimiser(torch.optim.Adam([w], lr=0.1))
        return table, w, OptimiserGroup({"rows": RowOptimiser({"t": (table, 0.1)}), "dense": adam})

    def step(table, w, optimiser):
        optimiser.zero_grad()
        (table.rows(np.array([1, 2])).pow(2).sum() + w.pow(2).sum()).backward()
        optimiser.step(1.0)

    one = make()
    step(*one)
    kept = {k: v.clone() for k, v in one[2].state().items()}
    other = make()
    other[0].weight[:] = one[0].weight
    with torch.no_grad():
        other[1].copy_(one[1])
    other[2].load_state(kept)
    step(*one)
    step(*other)
    assert np.array_equal(one[0].weight, other[0].weight)
    assert torch.equal(one[1], other[1])


def test_an_empty_batch_is_no_harm(weight):
    layer = SparseLinear(weight.copy())
    layer(csr_matrix((3, 30), dtype=np.float32)).sum().backward()
    layer.step(0.1)
    assert np.array_equal(layer.weight, weight)
