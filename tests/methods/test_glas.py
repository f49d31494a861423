"""GLaS: the algorithms as the paper states them, each option learns, and the space is in order."""

from __future__ import annotations

import numpy as np
import pytest

from labelspace.errors import TrainingError
from labelspace.evaluation.metrics import evaluate
from labelspace.methods.baselines import MostCommon
from labelspace.methods.glas import GLaS
from support.planted import planted

SMALL = {"dim": 16, "epochs": 12, "batch_size": 32, "n_negatives": 4, "lr": 0.02, "rare": 0.0}


@pytest.fixture(scope="module")
def data():
    X, Y = planted(500, seed=3)
    return (X[:400], Y[:400]), (X[400:], Y[400:])


def precision(model, data):
    (X, Y), (X_test, Y_test) = data
    return evaluate(model.fit(X, Y).predict(X_test, 5), Y_test, bands=False)["P@1"]


def test_without_weight_and_dropout_algorithm_2_is_algorithm_1(data):
    (X, Y), _ = data
    basic = GLaS(**SMALL, keep=1.0, regulariser="none").fit(X, Y)
    for regulariser in ("glas", "spread-out", "gravity", "laplacian"):
        other = GLaS(**SMALL, keep=1.0, regulariser=regulariser, lam=0.0).fit(X, Y)
        assert other.state().keys() == basic.state().keys()
        assert all(np.array_equal(other.state()[k], basic.state()[k]) for k in basic.state())


def test_the_regulariser_and_dropout_change_the_model(data):
    (X, Y), _ = data
    basic = GLaS(**SMALL, keep=1.0, regulariser="none").fit(X, Y).label_vectors_
    for change in ({"regulariser": "glas", "lam": 10.0}, {"keep": 0.6}):
        other = GLaS(**{**SMALL, "keep": 1.0, "regulariser": "none", **change}).fit(X, Y)
        assert not np.allclose(other.label_vectors_, basic, atol=1e-4)


def test_the_regulariser_pulls_inner_products_to_the_label_graph(data):
    from labelspace.labels.cooccurrence import CooccurrenceTarget

    (X, Y), _ = data
    U = CooccurrenceTarget(Y).U.toarray()
    used = np.flatnonzero(np.bincount(Y.indices, minlength=Y.shape[1]))

    def distance(lam):
        V = GLaS(**SMALL, regulariser="glas", lam=lam).fit(X, Y).label_vectors_[used]
        return np.square(V @ V.T - U[np.ix_(used, used)]).mean()

    assert distance(1000.0) < 0.5 * distance(0.0)


@pytest.mark.parametrize(
    "options",
    [
        {"loss": "binary"},
        {"loss": "softmax"},
        {"loss": "margin", "scale": 5.0},
        {"loss": "mined-margin", "hardest": 3, "scale": 5.0},
        {"negatives": "in-batch"},
        {"negatives": "frequency"},
        {"negatives": "all"},
        {"hidden": (24,), "lr": 0.05},
        {"unit_inputs": False, "unit_labels": False, "scale": 4.0},
        {"prior": False},
        {"init": "random", "epochs": 25},
        {"regulariser": "spread-out"},
        {"regulariser": "laplacian"},
        {"regulariser": "gravity"},
        {"target": "geometric"},
        {"target": "jaccard"},
        {"target": "pmi"},
        {"rare": 30.0},
        {"validation": 0.0},
    ],
    ids=str,
)
def test_every_option_learns(data, options):
    floor = precision(MostCommon(), data)
    assert precision(GLaS(**{**SMALL, **options}), data) > floor + 25


def test_the_space_has_unit_vectors_and_scores_are_its_inner_products(data):
    (X, Y), (X_test, _) = data
    model = GLaS(**SMALL).fit(X, Y)
    z, V = model.embed(X_test), model.label_vectors_
    np.testing.assert_allclose(np.linalg.norm(z, axis=1), 1.0, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(V, axis=1), 1.0, atol=1e-5)
    logits = model.scale_.item() * z @ V.T + model.bias_.detach().numpy()
    slope, offset = model.calibration_
    expected = 1 / (1 + np.exp(-(slope * np.sort(logits, axis=1)[:, ::-1][:, :3] + offset)))
    np.testing.assert_allclose(model.predict(X_test, 3).scores, expected, atol=1e-4)


def test_scores_are_calibrated():
    X, Y = planted(3000, seed=8)
    model = GLaS(**{**SMALL, "epochs": 5, "validation": 0.3}).fit(X[:2000], Y[:2000])
    ranking = model.predict(X[2000:], 5)
    hits = np.asarray(Y[2000:][np.arange(1000)[:, None], ranking.labels].todense())
    assert abs(hits.mean() - ranking.scores.mean()) < 0.03


def test_a_learning_rate_beyond_reason_ends_in_our_error_or_a_finite_model(data):
    (X, Y), (X_test, _) = data
    try:
        model = GLaS(**{**SMALL, "lr": 1e30, "unit_inputs": False, "unit_labels": False}).fit(X, Y)
    except TrainingError:
        return
    assert np.isfinite(model.predict(X_test, 3).scores).all()
