"""The presets hold what Gerald & Baskiotis 2019 state."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_limits

from labelspace.components.training_data import Shape
from labelspace.methods.hyperbolic.method import Hyperbolic
from labelspace.metrics.ranking import evaluate
from support.fitted import restored
from support.planted import planted

# Wiki10-31K, Table 1
WIKI10 = Shape(points=14_146, features=101_938, labels=30_938, feature_nnz=10**7, label_nnz=263_000)

STATED = {
    "dim": 50,  # 3.1: "generally fixed to 50"
    "geometry": "hyperbolic",  # 2.2
    "ball_map": "clip",  # 2.3: x / (|x| + eps) outside of the ball
    "hidden": (),  # 2.3: "a linear projection is sufficient"
    "loss": "labels",  # 2.4: an example against labels
    "negatives": "per-example",  # 2.4: "for an example x_j, we use negative sampling"
    "batch_negatives": False,  # 2.4: "randomly sampling labels"
    "weighting": "pairs",  # 2.4: L(x_j, l_i)
    "examples_weight": 0.0,  # 4: a term between examples is future work
    "optimiser": "adam",  # 3.1
    "label_lr_ratio": 1.0,  # 2.5: one eta in both updates
    "schedule": "constant",  # 2.5: eta does not depend on t
    "label_spread": 1e-3,  # 3.1: N(0, 1e-3)
    "map_spread": 1e-4,  # 3.1: N(0, 1e-4)
    "unit_inputs": False,  # 2.3: r = theta' x
    "patience": 25,  # 3.1: "does not increase during 25 epochs"
    "validation": 0.05,  # 3.1: "sampling 5% of the training set"
    "predict_by": "examples",  # 2.6
    "sharpness": 0.0,  # 2.6: "number of occurrences of each label"
    "ensemble": 15,  # 3.2: "averaging the vote of 15 different models"
    "search": "cells",  # 2.6: N/3000 random clusters
}


def test_the_preset_is_what_the_paper_states():
    found = Hyperbolic.resolve(Hyperbolic(preset="paper").get_params(), WIKI10)
    assert {name: found[name] for name in STATED} == STATED
    assert found["epochs"] > 10 * found["patience"]  # patience ends training, not epochs


def test_the_flat_rival_has_annexmls_loss_and_the_rest_of_the_preset():
    params = Hyperbolic(preset="paper-annexml").get_params()
    params.pop("preset")
    own = Hyperbolic(preset="paper").get_params()
    changed = {name: value for name, value in params.items() if own[name] != value}
    assert changed == {"geometry": "spherical", "loss": "annexml"}


@pytest.mark.parametrize("preset", ["paper", "paper-annexml"])
def test_a_model_of_a_preset_learns_and_is_restored(preset):
    X, Y = planted(500, seed=3)
    model = Hyperbolic(preset=preset, dim=8, ensemble=2, lr=0.01, neighbours=10, epochs=12)
    model.fit(X[:400], Y[:400])
    ranking = model.predict(X[400:], 5)
    assert evaluate(ranking, Y[400:], bands=False)["P@1"] > 50  # the most common label: 21
    again = restored(model).predict(X[400:], 5)
    assert np.array_equal(again.labels, ranking.labels)
    assert np.array_equal(again.scores, ranking.scores)


def test_patience_ends_training_long_before_the_last_epoch():
    X, Y = planted(120)
    model = Hyperbolic(preset="paper", dim=2, ensemble=1, lr=0.0, n_negatives=1).fit(X, Y)
    assert len(model.history_) == 1 + 25  # nothing moves: the first epoch stays the best


@pytest.mark.parametrize("preset", ["paper", "paper-annexml"])
def test_bits_do_not_depend_on_the_number_of_threads(preset):
    X, Y = planted(700, n_features=203, n_labels=501, seed=2)
    states, before = [], torch.get_num_threads()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        try:
            with threadpool_limits(threads, "blas"):
                model = Hyperbolic(preset=preset, ensemble=1, epochs=1, batch_size=255)
                states.append(model.fit(X, Y).state())
        finally:
            torch.set_num_threads(before)
    assert [key for key in states[0] if not np.array_equal(states[0][key], states[1][key])] == []
