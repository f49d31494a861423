"""Training as in the paper against Algorithm 2, written out in plain torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from labelspace.components.training_counts import TrainingCounts
from labelspace.methods.glas.method import GLaS
from labelspace.methods.glas.objective import BatchObjective, one_positive
from labelspace.methods.glas.space import LabelSpace
from labelspace.nn.sampling import CandidateSampler
from labelspace.nn.trainer import Batch
from support.planted import planted

# Dropout is off, so that nothing but the positives is drawn.
PAPER = {
    "preset": "paper",
    "dim": 6,
    "hidden": (9,),
    "weight_norm": False,  # tested apart, below
    "keep": 1.0,
    "batch_size": 40,
    "epochs": 2,
    "validation": 0.0,
    "lr": 0.7,
    "label_lr": 0.2,
}


@pytest.fixture(scope="module")
def data():
    return planted(40, n_features=20, n_labels=12, seed=2)


def initial(model, X, Y):
    """Return the weights before training: W, the directions and length of layer 2, and V."""
    space = LabelSpace.fresh(X, Y, TrainingCounts.of(X, Y), model.params_)
    (layer,) = space.encoder.hidden
    arrays = space.encoder.input_layer.weight, layer["direction"], layer["length"]
    return [torch.as_tensor(a).detach().double().clone() for a in (*arrays, space.table.weight)]


def drawn(Y, epoch):
    """Return the rows of the only batch of an epoch, and the positive drawn for each."""
    rows = np.random.default_rng([0, epoch]).permutation(Y.shape[0])
    rng = np.random.default_rng([0, epoch, 0])
    candidates = CandidateSampler(Y, "in-batch", 0).draw(Y[rows], rng)
    return rows, candidates.labels[one_positive(Y[rows], candidates, rng)]


def points(X, W, direction, length):
    return normalize(torch.relu(X @ W) @ (length * normalize(direction, dim=0)))


def objective(X, Y, positives, U, weights, lam, c=0.4):
    """Lines 14 to 18 of Algorithm 2 on a batch, example by example."""
    *encoder, V = weights
    V = normalize(V)
    h = points(X, *encoder) @ V.T
    in_batch = Y.sum(0) > 0
    loss = torch.zeros((), dtype=torch.float64)
    for i, y in enumerate(positives):
        negatives = in_batch & (Y[i] == 0)
        loss = loss + torch.relu(h[i, negatives] - h[i, y] + c).sum()
    drawn = V[positives]  # B rows, some of them alike
    penalty = (drawn @ drawn.T - U[positives][:, positives]).square().sum()
    size = len(positives)
    return loss / size + lam * penalty / size**2


def target(Y):
    A = Y.T @ Y
    Z = torch.diag(A.diagonal().clamp(min=1))
    return (A @ Z.inverse() + Z.inverse() @ A) / 2


@pytest.mark.parametrize("schedule", ["constant", "linear"])
@pytest.mark.parametrize("lam", [0.0, 10.0])
def test_two_steps_of_training_are_two_steps_of_algorithm_2(data, schedule, lam):
    X, Y = data
    model = GLaS(**PAPER, schedule=schedule, lam=lam).fit(X, Y)
    dense_X, dense_Y = torch.tensor(X.toarray()).double(), torch.tensor(Y.toarray()).double()
    weights = initial(model, X, Y)
    for epoch, share in enumerate([1.0, 1.0 if schedule == "constant" else 0.5]):
        rows, positives = drawn(Y, epoch)
        weights = [w.detach().requires_grad_() for w in weights]
        batch = dense_X[rows], dense_Y[rows], positives
        loss = objective(*batch, target(dense_Y), weights, lam)
        gradients = torch.autograd.grad(loss, weights)
        rates = [0.7, 0.7, 0.7, 0.2]  # eta_w for all of w, eta_V for V
        steps = zip(weights, gradients, rates, strict=True)
        weights = [w - share * rate * g for w, g, rate in steps]
    *encoder, V = [w.detach() for w in weights]
    np.testing.assert_allclose(model.label_vectors_, normalize(V), atol=2e-5)
    np.testing.assert_allclose(model.embed(X), points(dense_X, *encoder), atol=2e-5)
    np.testing.assert_allclose(model.space_.encoder.input_layer.weight, encoder[0], atol=2e-5)


@pytest.mark.parametrize("regulariser", ["glas", "spread-out", "laplacian", "gravity"])
def test_the_regulariser_counts_a_label_once_per_example_it_is_drawn_for(data, regulariser):
    X, Y = data
    model = GLaS(**{**PAPER, "epochs": 1}, regulariser=regulariser).fit(X, Y)
    space = LabelSpace.fresh(X, Y, TrainingCounts.of(X, Y), model.params_)
    rows = np.arange(40)

    def value(lam):
        model.params_.lam = lam
        batch = Batch(rows, np.random.default_rng(5))
        return BatchObjective(space, model.params_, X, Y)(batch).item()

    rng = np.random.default_rng(5)
    candidates = CandidateSampler(Y, "in-batch", 0).draw(Y, rng)
    positives = candidates.labels[one_positive(Y, candidates, rng)]
    assert len(set(positives)) < len(positives)
    V = torch.tensor(space.label_vectors).double()[positives]
    U = target(torch.tensor(Y.toarray()).double())[positives][:, positives]
    z = torch.tensor(space.embed(X)).double()
    expected = {
        "glas": (V @ V.T - U).square(),
        "spread-out": (V @ V.T).square(),
        "laplacian": torch.cdist(V, V).square() * U,
        "gravity": (z @ V.T).square(),
    }[regulariser].mean()
    assert value(1.0) - value(0.0) == pytest.approx(expected.item(), abs=1e-5)


def test_positives_are_drawn_uniformly_from_the_labels_of_an_example():
    _, Y = planted(30, n_labels=12, seed=2)
    Y = Y.tolil()
    Y[3] = 0
    Y[4, :5] = 1
    Y = Y.tocsr()
    candidates = CandidateSampler(Y, "all", 0).draw(Y, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    found = np.array([one_positive(Y, candidates, rng) for _ in range(4000)])
    assert (found[:, 3] == -1).all()
    for row in (0, 4, 29):
        own = np.flatnonzero(Y[row].toarray())
        times = np.bincount(found[:, row], minlength=12)
        assert times[own].sum() == 4000
        expected = 4000 / len(own)
        # Five standard deviations of a binomial count.
        assert (abs(times[own] - expected) < 5 * np.sqrt(expected)).all()


def test_each_part_has_its_learning_rate_with_adam(data):
    """The first step of Adam is as long as the learning rate in every coordinate."""
    X, Y = data
    rates = {"lr": 0.05, "label_lr": 0.002, "hidden_lr_divisor": 10.0}
    made = {**PAPER, "epochs": 1, "optimiser": "adam", "hidden_bias": True, "prior": True, **rates}
    model = GLaS(**made).fit(X, Y)
    W, direction, _, V = initial(model, X, Y)
    (layer,) = model.space_.encoder.hidden
    bias = model.space_.bias.detach().numpy() - TrainingCounts.of(X, Y).log_odds()
    for now, before, rate in (
        (model.space_.encoder.input_layer.weight, W, 0.05),
        (layer["direction"].detach(), direction, 0.005),
        (layer["bias"].detach(), np.zeros(6), 0.005),
        (model.space_.trained_vectors(), V, 0.002),
        (bias, np.zeros(12), 0.002),
    ):
        step = np.abs(np.asarray(now) - np.asarray(before)).max()
        assert step == pytest.approx(rate, rel=1e-3)


def test_labels_have_the_learning_rate_of_the_encoder_unless_theirs_is_given(data):
    X, Y = data
    made = {**PAPER, "optimiser": "adam", "lr": 0.02, "label_lr": None}
    one, other = GLaS(**made).fit(X, Y), GLaS(**{**made, "label_lr": 0.02}).fit(X, Y)
    assert np.array_equal(one.label_vectors_, other.label_vectors_)


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_the_scale_is_held_or_trained(data, optimiser):
    X, Y = data
    made = {**PAPER, "optimiser": optimiser, "scale": 3.0}
    assert GLaS(**made, train_scale=False).fit(X, Y).space_.scale.item() == 3.0
    assert GLaS(**made, train_scale=True).fit(X, Y).space_.scale.item() != 3.0


def test_biases_of_hidden_layers_are_trained_or_stay_zero(data):
    X, Y = data
    for trained in (True, False):
        (layer,) = GLaS(**PAPER, hidden_bias=trained).fit(X, Y).space_.encoder.hidden
        assert bool((layer["bias"] != 0).any()) == trained


def test_dividing_by_rho_changes_nothing_unless_layers_have_biases(data):
    """phi(a x) = phi(x) for every a > 0 where there are no biases; 1/2 is exact in binary."""
    X, Y = data
    made = {**PAPER, "keep": 0.5}
    for bias in (False, True):
        one, other = (
            GLaS(**made, rescale_kept=rescale, hidden_bias=bias).fit(X, Y).embed(X)
            for rescale in (True, False)
        )
        assert np.allclose(one, other, atol=1e-6) != bias


def test_weight_normalisation_leaves_the_outputs_of_the_sparse_layer_one_length(data):
    X, Y = data
    for normalised in (True, False):
        model = GLaS(**{**PAPER, "weight_norm": normalised}).fit(X, Y)
        lengths = np.linalg.norm(model.space_.encoder.input_layer.weight, axis=0)
        assert (np.ptp(lengths) < 1e-5) == normalised


def test_steps_of_the_normalised_layer_are_those_of_torch_but_along_the_weights(data):
    """The column's own length is a constant of a step: an error along the column alone."""
    X, Y = data
    made = {**PAPER, "weight_norm": True, "hidden": None, "unit_inputs": False, "lr": 0.07}
    model = GLaS(**made).fit(X, Y)
    space = LabelSpace.fresh(X, Y, TrainingCounts.of(X, Y), model.params_)
    before = torch.tensor(space.encoder.input_layer.weight).double().requires_grad_()
    shared = space.encoder.length.detach().double().requires_grad_()
    loss = BatchObjective(space, model.params_, X, Y)(
        Batch(np.arange(40), np.random.default_rng(0))
    )
    loss.backward()
    space.optimiser(model.params_).step(1.0)

    rng = np.random.default_rng(0)
    candidates = CandidateSampler(Y, "in-batch", 0).draw(Y, rng)
    positives = candidates.labels[one_positive(Y, candidates, rng)]
    dense_X, dense_Y = torch.tensor(X.toarray()).double(), torch.tensor(Y.toarray()).double()
    W = shared * normalize(before, dim=0)
    V = normalize(torch.tensor(initial_labels(model, X, Y)).double())
    h = dense_X @ W @ V.T
    hinges = torch.relu(h - h[torch.arange(40), positives][:, None] + 0.4) * (dense_Y == 0)
    expected = hinges[:, dense_Y.sum(0) > 0].sum() / 40
    of_directions, of_length = torch.autograd.grad(expected, [before, shared])
    assert space.encoder.length.item() == pytest.approx(
        (shared - 0.07 * of_length).item(), abs=1e-5
    )
    exact = (before - 0.07 * of_directions).detach()
    off = torch.tensor(space.encoder.input_layer.weight).double() - exact
    unit = normalize(before.detach(), dim=0)
    np.testing.assert_allclose(off, unit * (off * unit).sum(0), atol=1e-5)
    assert (exact - before.detach()).abs().max() > 0.01


def initial_labels(model, X, Y):
    return LabelSpace.fresh(X, Y, TrainingCounts.of(X, Y), model.params_).table.weight
