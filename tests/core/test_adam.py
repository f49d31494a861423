"""The compiled loop of Adam against torch's own."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from labelspace._core.adam import adam_update


@pytest.mark.parametrize("decay", [None, np.float32(0.1)])
def test_it_is_the_adam_of_torch(decay):
    rng = np.random.default_rng(0)
    weight, moment1, moment2 = np.ones(7, np.float32), *np.zeros((2, 7), np.float32)
    expected = torch.ones(7, dtype=torch.float64, requires_grad=True)
    adam = torch.optim.Adam([expected], lr=0.1, weight_decay=float(decay or 0.0))
    for step in range(1, 6):
        gradient = rng.standard_normal(7).astype(np.float32)
        expected.grad = torch.from_numpy(gradient.astype(np.float64))
        adam.step()
        adam_update(weight, gradient, moment1, moment2, decay, 0.1, step)
    np.testing.assert_allclose(weight, expected.detach().numpy(), atol=1e-5)
