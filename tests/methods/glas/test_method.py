"""GLaS: both algorithms of the paper, every option, calibration and the hold-out."""

from __future__ import annotations

import numpy as np
import pytest

from labelspace.components.holdout import split_rows
from labelspace.errors import TrainingError
from labelspace.methods.baselines import MostCommon
from labelspace.methods.glas.method import GLaS
from labelspace.metrics.ranking import evaluate
from support.planted import planted

SMALL = {
    "dim": 16,
    "epochs": 12,
    "batch_size": 32,
    "n_negatives": 4,
    "lr": 0.02,
    "feature_damping": 0.0,
}


@pytest.fixture(scope="module")
def data():
    X, Y = planted(500, seed=3)
    return (X[:400], Y[:400]), (X[400:], Y[400:])


def precision(model, data):
    (X, Y), (X_test, Y_test) = data
    return evaluate(model.fit(X, Y).predict(X_test, 5), Y_test, bands=False)["P@1"]


def test_without_regulariser_and_dropout_algorithm_2_is_algorithm_1(data):
    (X, Y), _ = data
    basic = GLaS(**SMALL, keep=1.0, regulariser=None).fit(X, Y)
    for regulariser in ("glas", "spread-out", "gravity", "laplacian"):
        other = GLaS(**SMALL, keep=1.0, regulariser=regulariser, lam=0.0).fit(X, Y)
        assert other.state().keys() == basic.state().keys()
        assert all(np.array_equal(other.state()[k], basic.state()[k]) for k in basic.state())


def test_the_regulariser_and_dropout_change_the_model(data):
    (X, Y), _ = data
    basic = GLaS(**SMALL, keep=1.0, regulariser=None).fit(X, Y).label_vectors_
    for change in ({"regulariser": "glas", "lam": 10.0}, {"keep": 0.6}):
        other = GLaS(**{**SMALL, "keep": 1.0, "regulariser": None, **change}).fit(X, Y)
        assert not np.allclose(other.label_vectors_, basic, atol=1e-4)


def test_the_regulariser_brings_inner_products_close_to_the_label_graph(data):
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
        {"negatives": "hard"},
        {"neighbours": 0},
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
        {"feature_damping": 30.0},
        {"validation": 0.0},
    ],
    ids=str,
)
def test_every_option_learns(data, options):
    baseline = precision(MostCommon(), data)
    assert precision(GLaS(**{**SMALL, **options}), data) > baseline + 25


def test_vectors_have_length_1_and_scores_are_calibrated_inner_products(data):
    (X, Y), (X_test, _) = data
    model = GLaS(**SMALL, neighbours=0).fit(X, Y)
    z, V = model.embed(X_test), model.label_vectors_
    np.testing.assert_allclose(np.linalg.norm(z, axis=1), 1.0, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(V, axis=1), 1.0, atol=1e-5)
    logits = model.space_.scale.item() * z @ V.T + model.space_.bias.detach().numpy()
    slope, offset, share, outer_slope, outer_offset = model.blend_.parameters
    assert share == 0
    # The log odds of the inner sigmoid are its line: both lines compose to one.
    line = outer_slope * (slope * np.sort(logits, axis=1)[:, ::-1][:, :3] + offset) + outer_offset
    expected = 1 / (1 + np.exp(-line))
    np.testing.assert_allclose(model.predict(X_test, 3).scores, expected, atol=1e-4)


def test_scores_are_calibrated():
    X, Y = planted(3000, seed=8)
    model = GLaS(**{**SMALL, "epochs": 5, "validation": 0.3}).fit(X[:2000], Y[:2000])
    ranking = model.predict(X[2000:], 5)
    hits = np.asarray(Y[2000:][np.arange(1000)[:, None], ranking.labels].todense())
    assert abs(hits.mean() - ranking.scores.mean()) < 0.03


def test_every_training_example_votes_by_its_own_row_number(data):
    (X, Y), _ = data
    model = GLaS(**{**SMALL, "validation": 0.2}).fit(X, Y)
    voters = model.blend_.voters
    assert len(voters) == len(voters.renumbered(np.arange(len(voters)))) == X.shape[0]
    assert (voters.Y != Y).nnz == 0
    z = model.embed(X)
    rows, cosines = voters.nearest(z, 1)
    itself = np.einsum("ij,ij->i", z, z[rows[:, 0]])
    assert (itself > 0.999).mean() > 0.98  # the others have a duplicate
    assert (cosines > 0.95).all()
    assert model.counts_.examples[0] == X.shape[0]
    assert np.array_equal(model.counts_.labels, np.bincount(Y.indices, minlength=Y.shape[1]))


def test_a_large_hold_out_is_bounded_and_the_rest_is_trained_on(data, monkeypatch):
    (X, Y), _ = data
    monkeypatch.setattr("labelspace.components.holdout.MAX_HELD_OUT", 20)
    trained = []
    monkeypatch.setattr(
        GLaS, "_train", lambda _self, objective, *_: trained.append(objective.X.shape[0]) or []
    )
    model = GLaS(**{**SMALL, "validation": 0.2}).fit(X, Y)
    assert trained == [380]
    assert len(model.blend_.voters) == 400


def test_a_hold_out_without_labels_is_trained_on(data):
    (X, Y), _ = data
    _, cut = split_rows(X.shape[0], 0.02, seed=0)
    bare = Y.tolil()
    bare[cut] = 0
    model = GLaS(**{**SMALL, "epochs": 1, "validation": 0.02}).fit(X, bare.tocsr())
    assert len(model.blend_.voters) == X.shape[0]
    assert "score" not in model.history_[0]


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
@pytest.mark.parametrize("unit", [False, True])
def test_a_huge_learning_rate_raises_training_error_or_gives_a_finite_model(data, optimiser, unit):
    (X, Y), (X_test, _) = data
    lengths = {"unit_inputs": unit, "unit_labels": unit}
    try:
        model = GLaS(**{**SMALL, **lengths, "optimiser": optimiser, "lr": 1e30}).fit(X, Y)
    except TrainingError:
        return
    assert np.isfinite(model.predict(X_test, 3).scores).all()
