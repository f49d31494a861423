"""Encoders: brought to fewer dimensions, and back from their arrays."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import random as random_sparse

from labelspace._core.schema import check_arrays
from labelspace.errors import ModelFormatError
from labelspace.nn.activations import LINEAR, RELU, leaky_relu
from labelspace.nn.encoder import Encoder, principal_directions

X = random_sparse(200, 30, 0.3, "csr", np.float32, rng=np.random.default_rng(0))


def encoder(hidden, **options):
    return Encoder.fresh(30, (*hidden, 12), np.random.default_rng(1), **options)


def with_bias(hidden):
    made = encoder(hidden, hidden_norm=False, input_bias=True)
    with torch.no_grad():
        made.bias += torch.linspace(-1, 1, len(made.bias))
    return made


@pytest.mark.parametrize("make", [encoder, with_bias])
@pytest.mark.parametrize("hidden", [(), (20,), (20, 16)])
def test_a_projected_encoder_gives_projected_points(hidden, make):
    whole = make(hidden)
    points = whole.encode(X)
    directions = principal_directions(points, 5)
    np.testing.assert_allclose(directions.T @ directions, np.eye(5), atol=1e-5)
    found = whole.projected(directions)
    np.testing.assert_allclose(found.encode(X), points @ directions, atol=1e-4)
    back = Encoder.restore(found.arrays())
    np.testing.assert_array_equal(back.encode(X), found.encode(X))
    # All directions keep all distances.
    turned = whole.projected(principal_directions(points, 12)).encode(X)
    np.testing.assert_allclose(turned @ turned.T, points @ points.T, atol=1e-3)


def test_the_first_directions_hold_the_most():
    points = encoder(()).encode(X)
    singular = np.linalg.svd(points, compute_uv=False)
    kept = np.linalg.norm(points @ principal_directions(points, 3))
    np.testing.assert_allclose(kept, np.linalg.norm(singular[:3]), rtol=1e-4)


def test_points_are_those_of_plain_layers_alone_and_in_a_batch():
    whole = encoder((20, 16))
    h = X.toarray() @ whole.input_layer.weight
    for layer in whole.hidden:
        direction = layer["direction"].detach().numpy()
        weight = layer["length"].item() * direction / np.linalg.norm(direction, axis=0)
        h = np.maximum(h, 0) @ weight + layer["bias"].detach().numpy()
    found = whole.encode(X)
    np.testing.assert_allclose(found, h, atol=1e-4)
    for row in (0, 77, 199):
        np.testing.assert_array_equal(whole.encode(X[row])[0], found[row])


@pytest.mark.parametrize("activation", [RELU, LINEAR, leaky_relu(0.2)])
def test_plain_layers_with_biases_are_fully_connected_ones(activation):
    whole = encoder((20,), hidden_norm=False, input_bias=True, activation=activation)
    with torch.no_grad():
        whole.bias += 0.1
        whole.hidden[0]["bias"] += 0.2
    arrays = whole.arrays()
    assert set(arrays) == {"encoder.first", "encoder.bias", "encoder.0.weight", "encoder.0.bias"}
    h = X.toarray() @ arrays["encoder.first"] + np.float32(0.1)
    expected = activation.apply(h) @ arrays["encoder.0.weight"] + np.float32(0.2)
    for found in (whole, Encoder.restore(arrays, activation=activation), whole.trainable()):
        np.testing.assert_allclose(found.encode(X), expected, atol=1e-4)
        np.testing.assert_allclose(found(X).detach(), expected, atol=1e-4)
    assert len(whole.trainable().dense_parameters()) == 3
    assert all(tensor.requires_grad for tensor in whole.trainable().dense_parameters())


def test_plain_layers_begin_as_normalised_ones_and_spreads_are_standard_deviations():
    np.testing.assert_allclose(
        encoder((20,), hidden_norm=False).encode(X), encoder((20,)).encode(X), atol=1e-5
    )
    wide = Encoder.fresh(400, (300, 200), np.random.default_rng(0), hidden_norm=False,
                         spread=0.01, hidden_spread=2.0)  # fmt: skip
    assert wide.input_layer.weight.std() == pytest.approx(0.01, rel=0.02)
    assert wide.hidden[0]["weight"].std().item() == pytest.approx(2.0, rel=0.02)


def test_a_bias_of_another_width_is_refused():
    arrays = with_bias((20,)).arrays() | {"encoder.bias": np.zeros(7, np.float32)}
    with pytest.raises(ModelFormatError, match=r"encoder.bias has shape"):
        check_arrays(Encoder.schema(arrays), arrays)


def test_a_restored_encoder_normalises_its_layers_once_and_its_trainable_copy_does_not():
    whole = encoder((20, 16))
    back = Encoder.restore(whole.arrays())
    for _ in range(2):
        np.testing.assert_array_equal(back.encode(X), whole.encode(X))
    assert back._dense_layers() is back._dense_layers()
    copy = back.trainable()
    before = copy.encode(X)
    with torch.no_grad():
        copy.hidden[0]["length"] *= 2.0
    assert not np.allclose(copy.encode(X), before)
    np.testing.assert_array_equal(back.encode(X), before)
