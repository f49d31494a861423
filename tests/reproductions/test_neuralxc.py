"""Errors of NeuralXC's parts against the loss it is trained on."""

from __future__ import annotations

import numpy as np
import pytest

from labelspace.methods.neuralxc.method import NeuralXC
from labelspace.methods.neuralxc.objective import BatchObjective
from labelspace.nn.trainer import Batch, Trainer
from labelspace.reproductions.experiment import Split
from labelspace.reproductions.neuralxc import errors, fitted_whole
from support.planted import planted

SMALL = {"preset": "paper", "input_layers": (9, 5), "output_layers": (6, 3), "lr": 0.01,
         "epochs": 3}  # fmt: skip


@pytest.fixture(scope="module")
def split():
    X, Y = planted(160, seed=3)
    return Split(X[:120], Y[:120], X[120:], Y[120:], None, None)


@pytest.mark.parametrize(
    ("name", "weights", "baseline"),
    [
        ("features", {"alpha": 1.0, "beta": 0.0}, "features"),
        ("labels", {"alpha": 0.0, "beta": 1.0}, "labels"),
        ("classification", {"alpha": 0.0, "beta": 0.0}, "entropy"),
    ],
)
def test_errors_are_the_terms_of_the_loss_on_test_examples(split, name, weights, baseline):
    model = fitted_whole(NeuralXC(**SMALL), split)
    found = errors(model, split)[f"error of {name}"]
    params = NeuralXC(**SMALL, **weights, pretrain=int(any(weights.values()))).fit(
        split.X[:8], split.Y[:8]
    ).params_  # fmt: skip
    objective = BatchObjective(model.networks, params, split.X_test, split.Y_test)
    objective.on_start(Trainer())
    term = objective(Batch(np.arange(40), np.random.default_rng(0))).item() * 40
    x, y = split.X.toarray(), split.Y.toarray()
    x_test, y_test = split.X_test.toarray(), split.Y_test.toarray()
    p = np.clip(y.mean(axis=0), 1e-6, 1 - 1e-6)
    base = {
        "features": np.square(x_test - x.mean(axis=0)).sum(),
        "labels": np.square(y_test - y.mean(axis=0)).sum(),
        "entropy": -(y_test * np.log(p) + (1 - y_test) * np.log(1 - p)).sum(),
    }[baseline]
    assert found == pytest.approx(term / base, rel=1e-3)
