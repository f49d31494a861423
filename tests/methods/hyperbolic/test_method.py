"""Hyperbolic: the loss is that of the paper, every option trains, no weight becomes NaN."""

from __future__ import annotations

import signal

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix, hstack

from labelspace.errors import TrainingError
from labelspace.methods.baselines import MostCommon
from labelspace.methods.hyperbolic.method import Hyperbolic
from labelspace.methods.hyperbolic.objective import BatchObjective
from labelspace.metrics.ranking import evaluate
from labelspace.nn import poincare
from labelspace.nn.trainer import Batch
from labelspace.runs.callbacks import Callback, Checkpoint
from support.fitted import resolved
from support.planted import planted

SMALL = {"dim": 8, "epochs": 8, "batch_size": 64, "n_negatives": 6, "lr": 0.05, "neighbours": 15}


@pytest.fixture(scope="module")
def data():
    X, Y = planted(500, seed=3)
    return (X[:400], Y[:400]), (X[400:], Y[400:])


def precision(model, data):
    (X, Y), (X_test, Y_test) = data
    return evaluate(model.fit(X, Y).predict(X_test, 5), Y_test, bands=False)["P@1"]


def test_the_loss_is_that_of_section_2_4(data):
    """With all labels sampled, the sum over negatives is that of the paper."""
    (X, Y), _ = data
    model = Hyperbolic(**{**SMALL, "n_negatives": Y.shape[1], "examples_weight": 0.0})
    resolved(model, X, Y)
    space = model._fresh_space(X, Y, seed=0)
    space.labels.weight[:] = np.random.default_rng(0).uniform(-0.3, 0.3, space.labels.weight.shape)
    space.encoder.input_layer.weight[:] = np.random.default_rng(1).normal(0, 0.2, (X.shape[1], 8))
    rows = np.arange(20)
    loss = BatchObjective(model, space, X, Y)(Batch(rows, np.random.default_rng(0))).item()
    r, labels = (torch.from_numpy(p).double() for p in (space.embed(X[rows]), space.label_points()))
    total = 0.0
    for row in rows:
        e = torch.exp(-model.alpha * poincare.distance(r[row], labels)).numpy()
        own = Y[row].indices
        others = np.delete(e, own).sum()
        total += np.mean([-np.log(e[i] / (others + e[i])) for i in own])
    assert loss == pytest.approx(total / len(rows), rel=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"geometry": "euclidean"},
        {"geometry": "spherical"},
        {"examples_weight": 0.0, "epochs": 12},
        {"ball_map": "clip", "examples_weight": 0.0, "lr": 0.02, "epochs": 12},
        {"optimiser": "riemannian-adam"},
        {"optimiser": "sgd", "lr": 4.0, "label_spread": 0.1, "map_spread": 0.1, "epochs": 20},
        {"geometry": "euclidean", "optimiser": "sgd", "lr": 4.0, "map_spread": 0.1, "epochs": 20},
        {"negatives": "frequency"},
        {"negatives": "hard"},
        {"hidden": (24,), "lr": 0.2, "epochs": 12},
        {"predict_by": "labels", "epochs": 12},
        {"predict_by": "both"},
        {"ensemble": 3},
        {"search": "cells"},
        {"keep": 0.8, "feature_damping": 20.0},
        {"validation": 0.0},
    ],
    ids=str,
)
def test_every_option_trains(data, options):
    baseline = precision(MostCommon(), data)
    assert precision(Hyperbolic(**{**SMALL, **options}), data) > baseline + 25


def test_points_are_inside_the_ball_or_on_the_sphere(data):
    (X, Y), (X_test, _) = data
    for geometry, inside in (("hyperbolic", lambda n: n < 1), ("spherical", lambda n: n > 0.999)):
        model = Hyperbolic(**{**SMALL, "geometry": geometry, "epochs": 3}).fit(X, Y)
        for points in (model.embed(X_test), model.label_vectors_):
            assert points.shape[1] == 8
            assert inside(np.linalg.norm(points, axis=1)).all()


def test_votes_are_weighted_by_distance(data):
    (X, Y), (X_test, _) = data
    model = Hyperbolic(**SMALL).fit(X, Y)
    x, points = (torch.from_numpy(p).double() for p in (model.embed(X_test[:20]), model.points_[0]))
    assert len(points) == X.shape[0]  # the hold-out votes too
    d = poincare.distance(x[:, None], points[None]).numpy()
    best = model.predict(X_test[:20], 1)
    for row in range(20):
        near = np.argsort(d[row])[: model.neighbours]
        weights = np.exp(-model.sharpness * model.alpha * d[row, near])
        shares = weights @ model.Y_[near].toarray() / weights.sum()
        label = best.labels[row, 0]
        assert shares[label] == pytest.approx(shares.max(), rel=1e-4)
        share = np.clip(shares[label], 1e-4, 1 - 1e-4)
        slope, offset = model.calibration_.state()
        expected = 1 / (1 + np.exp(-(slope * np.log(share / (1 - share)) + offset)))
        assert best.scores[row, 0] == pytest.approx(expected, rel=1e-3)


def test_learners_of_an_ensemble_differ_and_the_first_is_the_model_alone(data):
    (X, Y), _ = data
    alone = Hyperbolic(**{**SMALL, "epochs": 3}).fit(X, Y)
    three = Hyperbolic(**{**SMALL, "epochs": 3, "ensemble": 3}).fit(X, Y)
    assert np.array_equal(three.points_[0], alone.points_[0])
    assert not np.allclose(three.points_[1], three.points_[2], atol=1e-3)


class StopAfter(Callback):
    def __init__(self, batches):
        self.left = batches
        self.events = []

    def on_start(self, run):  # noqa: ARG002
        self.events.append("start")

    def on_end(self, run):  # noqa: ARG002
        self.events.append("end")

    def on_batch(self, run):  # noqa: ARG002
        self.left -= 1
        if self.left == 0:
            signal.raise_signal(signal.SIGINT)


def test_a_run_stopped_in_its_second_learner_resumes_to_the_same_bits(data, tmp_path):
    (X, Y), _ = data
    model = Hyperbolic(**{**SMALL, "epochs": 2, "ensemble": 3})
    alone = model.fit(X, Y).state()
    for batches in (8, 20, 30):  # 12 batches per learner
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, Y, callbacks=[Checkpoint(tmp_path), StopAfter(batches)])
        watch = StopAfter(-1)
        resumed = model.fit(X, Y, callbacks=[Checkpoint(tmp_path, resume=True), watch]).state()
        assert all(np.array_equal(alone[name], resumed[name]) for name in alone)
        assert watch.events[0] == "start"
        assert watch.events.count("end") == 1


def test_a_row_that_is_its_own_partner_has_similarity_0():
    Y = csr_matrix(np.array([[1, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 1]], np.float32))
    objective = BatchObjective(resolved(Hyperbolic(**SMALL), Y, Y), None, Y, Y)
    shared = objective._similarities(np.arange(3), np.array([1, 0, 2])).numpy()
    assert shared[0, 0] == pytest.approx(2 / np.sqrt(6))
    assert shared[2, 2] == 0.0


def test_scores_are_calibrated():
    X, Y = planted(3000, seed=8)
    model = Hyperbolic(**{**SMALL, "epochs": 4, "validation": 0.3}).fit(X[:2000], Y[:2000])
    ranking = model.predict(X[2000:], 5)
    hits = np.asarray(Y[2000:][np.arange(1000)[:, None], ranking.labels].todense())
    assert abs(hits[ranking.labels >= 0].mean() - ranking.scores[ranking.labels >= 0].mean()) < 0.03


@pytest.mark.parametrize("geometry", ["hyperbolic", "euclidean", "spherical"])
@pytest.mark.parametrize("optimiser", ["sgd", "adam", "riemannian-adam"])
@pytest.mark.parametrize("lr", [0.0, 1e-30, 1e3, 1e10, 1e30])
def test_no_learning_rate_gives_nan(data, geometry, optimiser, lr):
    (X, Y), (X_test, _) = data
    for ball_map in ("exp", "clip") if geometry == "hyperbolic" else ("exp",):
        options = {"geometry": geometry, "optimiser": optimiser, "ball_map": ball_map, "lr": lr}
        try:
            model = Hyperbolic(**{**SMALL, **options, "epochs": 3, "batch_size": 128}).fit(X, Y)
        except TrainingError:
            continue
        assert all(np.isfinite(array).all() for array in model.state().values())
        assert np.isfinite(model.predict(X_test, 3).scores).all()


def test_the_hold_out_is_a_random_sample_and_the_rest_is_trained_on(data, monkeypatch):
    (X, Y), _ = data
    parts = []

    def record(_, run, X_train, Y_train, held):
        del run, Y_train
        parts.append((X_train, held[0]))
        raise RuntimeError("recorded")

    monkeypatch.setattr("labelspace.methods.hyperbolic.method.MAX_HELD_OUT", 10)
    monkeypatch.setattr(Hyperbolic, "_train", record)
    late = csr_matrix(np.arange(X.shape[0])[:, None] >= X.shape[0] / 2, dtype=np.float32)
    with pytest.raises(RuntimeError, match="recorded"):
        Hyperbolic(validation=0.5).fit(hstack([X, late], format="csr"), Y)
    trained, held = parts[0]
    assert (trained.shape[0], held.shape[0]) == (X.shape[0] - 10, 10)
    assert 0 < held[:, -1].nnz < 10  # rows of both halves
