"""Activations against torch's own modules."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from labelspace.nn.activations import LINEAR, RELU, SIGMOID, TANH, leaky_relu


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (LINEAR, nn.Identity()),
        (RELU, nn.ReLU()),
        (leaky_relu(0.2), nn.LeakyReLU(0.2)),
        (TANH, nn.Tanh()),
        (SIGMOID, nn.Sigmoid()),
    ],
)
def test_activations_are_those_of_torch_with_and_without_gradient(ours, theirs):
    h = torch.linspace(-3.0, 3.0, 25)
    torch.testing.assert_close(ours(h), theirs(h))
    np.testing.assert_allclose(ours.apply(h.numpy()), theirs(h).numpy(), rtol=1e-5, atol=1e-6)
    assert ours.apply(h.numpy()).dtype == np.float32
