"""Activations and plain layers against torch's own modules."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import random
from torch import nn

from labelspace.errors import ModelFormatError
from labelspace.nn.activations import LINEAR, RELU, SIGMOID, TANH, leaky_relu
from labelspace.nn.perceptron import Perceptron

X = random(5, 12, 0.4, format="csr", dtype=np.float32, random_state=0)


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


@pytest.mark.parametrize("widths", [(7,), (7, 5), (7, 5, 3)])
def test_a_perceptron_is_torchs_linear_layers_with_activations_between(widths):
    one = Perceptron.fresh(12, widths, np.random.default_rng(0), activation=leaky_relu(0.1))
    with torch.no_grad():
        one.bias += 0.5
    h = torch.from_numpy(X.toarray() @ one.input_layer.weight) + 0.5
    for layer in one.rest.layers:
        h = nn.functional.leaky_relu(h, 0.1) @ layer["weight"] + layer["bias"]
    torch.testing.assert_close(one(X), h)
    np.testing.assert_allclose(one.encode(X), h.detach().numpy(), rtol=1e-4, atol=1e-5)
    assert one.dim == widths[-1]
    copy = Perceptron.restore(one.arrays(), 12, leaky_relu(0.1))
    assert np.array_equal(copy.encode(X), one.encode(X))


def test_damped_columns_begin_with_smaller_weights():
    scale = np.full(12, 0.5, np.float32)
    plain = Perceptron.fresh(12, (7,), np.random.default_rng(0))
    damped = Perceptron.fresh(12, (7,), np.random.default_rng(0), row_lr_scale=scale)
    np.testing.assert_allclose(damped.input_layer.weight, 0.5 * plain.input_layer.weight)


@pytest.mark.parametrize("name", ["encoder.first_bias", "encoder.rest.0.weight"])
def test_arrays_that_do_not_fit_each_other_are_refused(name):
    arrays = Perceptron.fresh(12, (7, 5), np.random.default_rng(0)).arrays()
    arrays[name] = arrays[name][1:]
    with pytest.raises(ModelFormatError):
        Perceptron.restore(arrays, 12)
