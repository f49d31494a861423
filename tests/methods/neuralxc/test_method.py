"""NeuralXC: the loss of the paper, every option, ensembles, search and calibration."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch

from labelspace._core.sparse import unit_rows
from labelspace.errors import ParameterError
from labelspace.methods.baselines import MostCommon
from labelspace.methods.neuralxc.method import NeuralXC
from labelspace.methods.neuralxc.network import Network, Path
from labelspace.methods.neuralxc.objective import BatchObjective, label_reconstruction
from labelspace.metrics.ranking import evaluate
from labelspace.nn.activations import LINEAR
from labelspace.nn.trainer import Batch, Trainer
from labelspace.runs.callbacks import Callback
from labelspace.runs.history import History
from labelspace.search.build import build_index
from support.fitted import resolved
from support.planted import planted

SMALL = {"input_layers": (16,), "output_layers": (16,), "epochs": 8, "batch_size": 32,
         "lr": 0.02, "feature_damping": 0.0, "neighbours": 0, "ensemble": 1}  # fmt: skip


@pytest.fixture(scope="module")
def data():
    X, Y = planted(400, seed=3)
    return (X[:300], Y[:300]), (X[300:], Y[300:])


def precision(model, data):
    (X, Y), (X_test, Y_test) = data
    return evaluate(model.fit(X, Y).predict(X_test, 5), Y_test, bands=False)["P@1"]


def network_of(layers, X, Y, bias=0.0):
    names = ("input_layers", "output_layers", "regressor_layers")
    params = resolved(NeuralXC(**dict(zip(names, layers, strict=True))), X, Y).params_
    odds = np.full(Y.shape[1], bias, np.float32)
    return Network.fresh(params, X.shape[1], odds, None, np.random.default_rng(0))


def loss_of(model, network, X, Y, epoch=0):
    objective = BatchObjective([network], resolved(model, X, Y).params_, X, Y)
    run = Trainer()
    run.progress.epoch = epoch
    objective.on_start(run)
    return objective(Batch(np.arange(X.shape[0]), np.random.default_rng(0))).item()


def test_the_loss_is_that_of_the_paper(data):
    X, Y = unit_rows(data[0][0][:9]), data[0][1][:9]
    network = network_of(((7, 5), (6, 4), (3,)), X, Y)
    x, y = X.toarray(), Y.toarray()

    def decoded(autoencoder, codes):
        return autoencoder.decoder.queries(codes) @ autoencoder.decoder.table.weight.T

    def sigmoid(logits):
        return 1 / (1 + np.exp(-logits))

    features = np.square(decoded(network.inputs, network.inputs.encode(X)) - x).sum(axis=1).mean()
    codes = network.outputs.encode(unit_rows(Y))
    labels = np.square(sigmoid(decoded(network.outputs, codes)) - y).sum(axis=1).mean()
    p = sigmoid(network.path.queries(X) @ network.path.vectors.T)
    entropy = -(y * np.log(p) + (1 - y) * np.log(1 - p)).sum(axis=1).mean()
    for alpha, beta in ((0.3, 0.7), (0.0, 2.0), (2.0, 0.0), (0.0, 0.0)):
        model = NeuralXC(alpha=alpha, beta=beta, keep=1.0)
        expected = alpha * features + beta * labels + entropy
        assert loss_of(model, network, X, Y) == pytest.approx(expected, rel=1e-4)
    model = NeuralXC(alpha=0.3, beta=0.7, keep=1.0, pretrain=2)
    assert loss_of(model, network, X, Y, 1) == pytest.approx(
        0.3 * features + 0.7 * labels, rel=1e-4
    )
    assert loss_of(model, network, X, Y, 2) > entropy


def test_the_sampled_loss_is_the_exact_one_on_average(data):
    X, Y = unit_rows(data[0][0]), data[0][1]
    network = network_of(((5,), (4,), ()), X, Y, bias=-1.0)
    rng = np.random.default_rng(1)
    exact = NeuralXC(alpha=1.0, beta=1.0, keep=1.0)
    sampled = NeuralXC(alpha=1.0, beta=1.0, keep=1.0, exact=0, samples=6)
    objectives = [
        BatchObjective([network], resolved(model, X, Y).params_, X, Y) for model in (exact, sampled)
    ]
    for objective in objectives:
        objective.on_start(Trainer())
    found = []
    for _ in range(400):
        batch = Batch(rng.choice(300, 4, replace=False), rng)
        found.append([objective(batch).item() for objective in objectives])
    truth, estimate = np.mean(found, axis=0)
    assert estimate == pytest.approx(truth, rel=0.04)


@pytest.mark.parametrize("count", [1, 3])
def test_over_all_draws_the_labels_reconstruction_has_the_exact_loss_and_gradient(count):
    found = torch.from_numpy(np.random.default_rng(0).random((1, 6), np.float32)).requires_grad_()
    own = np.array([1, 4])

    def with_slope(drawn, weight):
        labels = np.union1d(own, drawn)
        columns = torch.from_numpy(np.searchsorted(labels, own))
        weights = torch.full((len(labels),), weight)
        part = found[:, torch.from_numpy(labels)]
        loss = label_reconstruction(part, torch.zeros(2, dtype=torch.int64), columns, weights)
        return loss.item(), torch.autograd.grad(loss, found)[0].numpy()

    exact = with_slope(np.arange(6), 1.0)
    every = [with_slope(np.array(drawn), 6 / count) for drawn in combinations(range(6), count)]
    for place in range(2):
        mean = np.mean([pair[place] for pair in every], axis=0)
        np.testing.assert_allclose(mean, exact[place], rtol=1e-4)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"alpha": 0.0, "beta": 0.0},
        {"alpha": 1.0, "beta": 1.0},
        {"alpha": 0.0},
        {"beta": 0.0},
        {"pretrain": 5, "patience": 2},
        {"exact": 0, "samples": 6},
        {"input_layers": (24, 16), "output_layers": (20, 12), "regressor_layers": (16,)},
        {"regressor_layers": (24,)},
        {"ensemble": 3},
        {"neighbours": 10},
        {"keep": 1.0},
        {"feature_damping": 30.0},
        {"validation": 0.0},
        {"weight_norm": False, "activations": "mixed", "dense_lr_scale": 1.0},
        {"feature_output": "relu", "init": "xavier", "initial_factor": 1.0, "prior": False},
        {"unit_features": False, "unit_labels": False, "reduction": "mean"},
        {"schedule": "constant", "weight_decay": 1e-5, "lazy": False},
        {"pretrain": 5, "after_pretraining": "regressor", "dense_lr_scale": 0.5},
    ],
    ids=str,
)
def test_every_option_learns(data, options):
    baseline = precision(MostCommon(), data)
    assert precision(NeuralXC(**{**SMALL, **options}), data) > baseline + 25


def test_an_ensemble_is_the_mean_of_its_networks_logits(data):
    (X, Y), (X_test, _) = data
    model = NeuralXC(**{**SMALL, "epochs": 2, "ensemble": 2}).fit(X, Y)
    X_test = unit_rows(X_test)
    each = [path.queries(X_test) @ path.vectors.T for path in model.paths_]
    assert not np.allclose(each[0], each[1], atol=1e-2)
    together = model._encode(X_test)[1] @ model._vectors().T
    np.testing.assert_allclose(together, np.mean(each, axis=0), rtol=1e-4, atol=1e-4)


def test_candidates_that_hold_the_best_labels_give_the_exact_ranking():
    X, Y = planted(600, n_features=80, n_labels=60, seed=5)
    model = NeuralXC(**{**SMALL, "epochs": 3}).fit(X, Y)
    exact = model.predict(X, 5)
    vectors, queries = model._vectors(), model._encode(unit_rows(X))[1]
    projected = build_index(vectors, kind="projected", recall=0.9, queries=queries)
    projected.rerank_size = 30  # of 60 labels
    model.blend_.index = projected
    found = model.predict(X, 5)
    covered = (np.sort(found.labels, axis=1) == np.sort(exact.labels, axis=1)).all(axis=1)
    assert 0.3 < covered.mean() < 1.0
    assert np.array_equal(found.labels[covered], exact.labels[covered])
    assert np.array_equal(found.scores[covered], exact.scores[covered])


def test_scores_are_calibrated():
    X, Y = planted(3000, seed=8)
    model = NeuralXC(**{**SMALL, "epochs": 4, "validation": 0.3}).fit(X[:2000], Y[:2000])
    ranking = model.predict(X[2000:], 5)
    hits = np.asarray(Y[2000:][np.arange(1000)[:, None], ranking.labels].todense())
    assert abs(hits.mean() - ranking.scores.mean()) < 0.03


def test_the_lengths_of_rows_do_not_matter(data):
    (X, Y), (X_test, _) = data
    model = NeuralXC(**SMALL).fit(X, Y)
    assert np.array_equal(model.predict(X_test, 3).labels, model.predict(4 * X_test, 3).labels)


def test_pretraining_keeps_the_regressor_and_does_not_count_for_patience(data):
    (X, Y), _ = data
    seen = []

    class Watch(Callback):
        def on_epoch(self, run):
            weight = run.task.parameters["0.regressor.0.weight"]
            seen.append(np.array_equal(weight.detach(), np.eye(16)))

    model = NeuralXC(**{**SMALL, "pretrain": 4, "patience": 2, "epochs": 2})
    model.fit(X, Y, callbacks=[Watch()])
    assert seen == [True, True, True, True, False, False]
    with pytest.raises(ParameterError, match="pretrain=3"):
        NeuralXC(pretrain=3, alpha=0.0, beta=0.0).fit(X, Y)
    with pytest.raises(ParameterError, match="after_pretraining=codes"):
        NeuralXC(after_pretraining="codes").fit(X, Y)


def test_an_encoder_without_layers_raises_parameter_error(data):
    for name in ("input_layers", "output_layers"):
        with pytest.raises(ParameterError, match=name):
            NeuralXC(**{name: ()}).fit(*data[0])


def test_held_out_examples_vote_after_fitting(data):
    (X, Y), _ = data
    model = NeuralXC(**{**SMALL, "neighbours": 5, "validation": 0.2}).fit(X, Y)
    assert len(model.blend_.voters) == 300


def test_history_is_measured_on_the_same_examples_each_epoch(data):
    (X, Y), held = data
    model = NeuralXC(**{**SMALL, "epochs": 3, "patience": 9})
    model.fit(X, Y, valid=held, callbacks=[History()])
    last = model.history_[-1]
    best = max(model.history_, key=lambda entry: entry["score"])
    assert best["valid nDCG@5"] == pytest.approx(best["score"])
    assert last["train P@1"] > 50
    ranking = model._rank_exactly(unit_rows(held[0]), 5)  # the best epoch's weights are back
    assert evaluate(ranking, held[1], bands=False)["P@3"] == pytest.approx(best["valid P@3"])


def test_a_path_is_restored_from_its_arrays(data):
    (X, Y), _ = data
    network = network_of(((9, 7), (8, 6), (5,)), X, Y)
    restored = Path.restore(network.path.arrays(), LINEAR)
    assert np.array_equal(restored.queries(X), network.path.queries(X))
    assert np.array_equal(restored.vectors, network.path.vectors)
