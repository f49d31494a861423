"""The sparse layer's SGD against torch's on a dense layer."""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_matrix

from labelspace.nn.momentum import MOMENTUM, WEIGHT_DECAY, MomentumLinear


def test_on_batches_that_use_all_features_it_is_torchs_sgd():
    rng = np.random.default_rng(0)
    start = rng.standard_normal((6, 4)).astype(np.float32)
    layer = MomentumLinear(start.copy())
    weight = torch.from_numpy(start.copy()).requires_grad_()
    sgd = torch.optim.SGD([weight], 0.1, MOMENTUM, weight_decay=WEIGHT_DECAY)
    for _ in range(5):
        X = rng.uniform(0.1, 1.0, (8, 6)).astype(np.float32)
        aim = torch.from_numpy(rng.standard_normal((8, 4)).astype(np.float32))
        sgd.zero_grad()
        ((torch.from_numpy(X) @ weight - aim) ** 2).mean().backward()
        sgd.step()
        ((layer(csr_matrix(X)) - aim) ** 2).mean().backward()
        layer.step(0.1)
    np.testing.assert_allclose(layer.weight, weight.detach().numpy(), atol=1e-5)


def test_rows_of_features_that_a_batch_lacks_stay():
    layer = MomentumLinear(np.ones((3, 2), np.float32))
    layer(csr_matrix(np.array([[1.0, 0.0, 2.0]], np.float32))).sum().backward()
    layer.step(0.5)
    np.testing.assert_array_equal(layer.weight[1], 1.0)
    assert (layer.weight[[0, 2]] < 1.0).all()
    np.testing.assert_array_equal(layer.steps, [1, 0, 1])
