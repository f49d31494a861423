"""Autoencoders: the sampled loss is the exact one on average, and a code holds its row."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix, random

from labelspace._core.sparse import unit_rows
from labelspace.nn.autoencoder import (
    Autoencoder,
    DenseLayers,
    Zeros,
    cell_products,
    reconstruction_loss,
    restore_decoder,
)
from labelspace.nn.encoder import Encoder
from labelspace.nn.optimisers import OptimiserGroup, RowOptimiser, TorchOptimiser
from labelspace.nn.trainer import Trainer, TrainingTask


def rows_of(n, width, density=0.3, seed=0):
    return csr_matrix(random(n, width, density, "csr", np.float32, random_state=seed))


def with_slopes(autoencoder, X, zeros):
    """The loss, and its gradient for the codes and for every row of the decoder."""
    codes = torch.from_numpy(autoencoder.encode(X)).requires_grad_()
    loss = reconstruction_loss(autoencoder.decoder, codes, X, zeros)
    loss.backward()
    table = autoencoder.decoder.table
    slopes = np.zeros_like(table.weight)
    slopes[table._ids] = table._leaf.grad.numpy()
    return loss.item(), codes.grad.numpy(), slopes


@pytest.mark.parametrize("widths", [(4,), (6, 4)], ids=str)
def test_the_exact_loss_is_the_squared_distance(widths):
    X = rows_of(5, 7)
    autoencoder = Autoencoder.fresh(7, widths, np.random.default_rng(1))
    loss, _, _ = with_slopes(autoencoder, X, Zeros.draw(7, None, np.random.default_rng(0)))
    queries = autoencoder.decoder.queries(autoencoder.encode(X))
    decoded = queries @ autoencoder.decoder.table.weight.T
    expected = np.square(decoded - X.toarray()).sum(axis=1).mean()
    assert loss == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("count", [1, 3, 6])
def test_over_all_draws_the_sampled_loss_and_its_gradient_are_the_exact_ones(count):
    X = rows_of(5, 7)
    autoencoder = Autoencoder.fresh(7, (6, 4), np.random.default_rng(2))
    autoencoder.decoder.table.weight[:, -1] = 0.3
    exact = with_slopes(autoencoder, X, Zeros(np.arange(7), 1.0))
    every = [
        with_slopes(autoencoder, X, Zeros(np.array(drawn), 7 / count))
        for drawn in combinations(range(7), count)
    ]
    for place in range(3):
        mean = np.mean([found[place] for found in every], axis=0)
        np.testing.assert_allclose(mean, exact[place], rtol=1e-4, atol=1e-5)


def test_draws_are_distinct_sorted_even_and_weighted_by_what_they_stand_for():
    rng, times = np.random.default_rng(0), np.zeros(20)
    for _ in range(2000):
        zeros = Zeros.draw(20, 5, rng)
        assert (np.diff(zeros.columns) > 0).all()
        assert zeros.weight == 4.0
        times[zeros.columns] += 1
    np.testing.assert_allclose(times / 2000, 0.25, atol=0.04)
    for count in (None, 20, 99):
        everything = Zeros.draw(20, count, rng)
        assert np.array_equal(everything.columns, np.arange(20))
        assert everything.weight == 1.0


def test_cell_products_are_those_of_the_whole_product():
    X = rows_of(6, 9)
    rng = np.random.default_rng(3)
    h = torch.from_numpy(rng.standard_normal((6, 4), np.float32)).requires_grad_()
    rows = torch.from_numpy(rng.standard_normal((9, 4), np.float32)).requires_grad_()
    slopes = torch.from_numpy(rng.standard_normal(X.nnz, np.float32))
    places = X.nonzero()
    found, whole = cell_products(h, rows, X.indptr, X.indices), (h @ rows.T)[places]
    np.testing.assert_allclose(found.detach(), whole.detach(), rtol=1e-5)
    ours = torch.autograd.grad((found * slopes).sum(), (h, rows))
    theirs = torch.autograd.grad((whole * slopes).sum(), (h, rows))
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("widths", [(5,), (5, 5), (5, 3), (5, 7, 4)], ids=str)
def test_dense_layers_give_the_same_with_gradient_without_and_restored(widths):
    layers = DenseLayers.fresh(widths, np.random.default_rng(0))
    h = np.random.default_rng(1).standard_normal((8, 5), np.float32)
    trained = layers(torch.from_numpy(h)).detach().numpy()
    assert trained.shape == (8, widths[-1])
    np.testing.assert_allclose(layers.apply(h), trained, rtol=1e-4, atol=1e-5)
    assert np.array_equal(DenseLayers.restore(layers.arrays()).apply(h), layers.apply(h))
    if widths == (5, 5):
        assert np.array_equal(trained, h)
    for row in range(8):
        assert np.array_equal(layers.apply(h[row : row + 1]), layers.apply(h)[row : row + 1])


def trained(X, widths, n_zeros):
    """An autoencoder fitted by the Trainer, and the loss of its first and last epoch."""
    autoencoder = Autoencoder.fresh(X.shape[1], widths, np.random.default_rng(0))

    def loss(batch):
        return autoencoder.loss(X[batch.rows], Zeros.draw(X.shape[1], n_zeros, batch.rng))

    tables = {name: (table, 0.02) for name, table in autoencoder.tables().items()}
    parts = {"rows": RowOptimiser(tables)}
    if autoencoder.dense_parameters():
        dense = torch.optim.Adam(autoencoder.dense_parameters(), lr=0.005)
        parts["dense"] = TorchOptimiser(dense)
    learner = TrainingTask(autoencoder.tensors(), loss, OptimiserGroup(parts))
    history = Trainer(epochs=60, batch_size=20, schedule="linear").run(learner, X.shape[0])
    return autoencoder, history[0]["loss"], history[-1]["loss"]


@pytest.mark.parametrize("n_zeros", [None, 10])
def test_rows_of_low_rank_are_learned(n_zeros):
    rng = np.random.default_rng(5)
    kinds = (rng.random((4, 40)) < 0.2) * rng.random((4, 40))
    X = unit_rows(csr_matrix(kinds[rng.integers(0, 4, 200)].astype(np.float32)))
    autoencoder, first, last = trained(X, (8,), n_zeros)
    assert first > 0.5
    assert last < 0.1
    decoded = (
        autoencoder.decoder.queries(autoencoder.encode(X)) @ autoencoder.decoder.table.weight.T
    )
    assert np.square(decoded - X.toarray()).sum(axis=1).mean() < 0.1


def test_restored_parts_encode_and_decode_alike():
    X = rows_of(6, 9)
    autoencoder = Autoencoder.fresh(9, (7, 5, 3), np.random.default_rng(4))
    arrays = autoencoder.encoder.arrays() | autoencoder.decoder.arrays()
    encoder, decoder = Encoder.restore(arrays), restore_decoder(arrays)
    assert isinstance(encoder, Encoder)
    codes = autoencoder.encode(X)
    assert np.array_equal(encoder.encode(X), codes)
    assert np.array_equal(decoder.queries(codes), autoencoder.decoder.queries(codes))
    assert np.array_equal(decoder.table.weight, autoencoder.decoder.table.weight)


@pytest.mark.parametrize("widths", [(3,), (7,), (8, 3), (6, 9, 7)], ids=str)
def test_along_directions_it_begins_as_their_projection(widths):
    X = rows_of(6, 9)
    directions = np.linalg.qr(np.random.default_rng(1).standard_normal((9, 3)))[0]
    autoencoder = Autoencoder.along(directions.astype(np.float32), widths, np.random.default_rng(4))
    codes = autoencoder.encode(X)
    np.testing.assert_allclose(codes[:, :3], X @ directions, atol=1e-5)
    decoded = autoencoder.decoder.queries(codes) @ autoencoder.decoder.table.weight.T
    np.testing.assert_allclose(decoded, X @ directions @ directions.T, atol=1e-5)
