"""Encoders: brought to fewer dimensions, and back from their arrays."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import random as random_sparse

from labelspace.nn.encoder import Encoder, principal_directions

X = random_sparse(200, 30, 0.3, "csr", np.float32, rng=np.random.default_rng(0))


def encoder(hidden):
    return Encoder.fresh(30, (*hidden, 12), np.random.default_rng(1))


@pytest.mark.parametrize("hidden", [(), (20,), (20, 16)])
def test_a_projected_encoder_gives_projected_points(hidden):
    whole = encoder(hidden)
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
