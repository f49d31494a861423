"""Curves of training: kept for every method trained in epochs, and without touching its bits."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.sparse import csr_matrix, identity
from sklearn.base import clone

from labelspace.engine import LocalEngine, use
from labelspace.methods.dxml.voting import NeighbourVote, VoteParameters
from labelspace.methods.hyperbolic.method import Hyperbolic
from labelspace.methods.registry import method_class
from labelspace.metrics.ranking import evaluate
from labelspace.nn.encoder import unit_array
from labelspace.ranking import Ranking
from labelspace.runs.callbacks import Callback, Checkpoint
from labelspace.runs.history import KS, History, curves_of, watch
from support.planted import planted

EPOCHS = {"epochs": 3, "batch_size": 32, "patience": 9}
METHODS = {
    "dxml": {"dim": 8, "hidden": (), "ensemble": 2, **EPOCHS},
    "glas": {"dim": 8, "n_negatives": 4, **EPOCHS},
    "hyperbolic": {"dim": 4, "neighbours": 5, "ensemble": 2, **EPOCHS},
    "neuralxc": {"input_layers": (8,), "output_layers": (8,), "ensemble": 2, **EPOCHS},
    "seq2seq": {"width": 16, "layers": 1, "heads": 2, "beams": 2, **EPOCHS},
    "treespace": {"dim": 8, "top_dim": 4, "width": 8, **EPOCHS},
}
FIGURES = {f"{part} {m}@{k}" for part in ("train", "valid") for m in ("P", "nDCG") for k in KS}


def small(name):
    """Return the method with few epochs; skip if its extra is missing."""
    if name == "seq2seq":
        pytest.importorskip("transformers")
    return method_class(name)(**METHODS[name])


def same_state(one, other):
    one, other = one.state(), other.state()
    return one.keys() == other.keys() and all(np.array_equal(one[k], other[k]) for k in one)


@pytest.mark.parametrize(
    ("name", "changes"),
    [*((name, {}) for name in METHODS), ("hyperbolic", {"unit_inputs": False})],
)
def test_further_examples_are_measured_as_held_out_ones_are(name, changes):
    (X, Y), valid = planted(120), planted(40, seed=1)
    valid = (valid[0] * 3.0, valid[1])
    history = History(further={"test": valid})
    model = small(name).set_params(epochs=1, **changes)
    model.fit(X, Y, valid=valid, callbacks=[history])
    for entry in model.history_:
        figures = {key: value for key, value in entry.items() if key.startswith("test ")}
        assert figures == {f"test {key[6:]}": entry[key] for key in FIGURES if key[0] == "v"}


@pytest.mark.parametrize("name", METHODS)
def test_each_epoch_is_measured_and_the_model_has_the_same_bits(name):
    (X, Y), valid = planted(150), planted(40, seed=1)
    alone = small(name).fit(X, Y, valid=valid)
    watched = small(name).fit(X, Y, valid=valid, callbacks=[History()])
    assert same_state(watched, alone)
    curves = curves_of(watched)
    assert (curves["method"], curves["metric"]) == (name, "nDCG@5")
    epochs = [entry for entry in curves["epochs"] if entry.get("learner", 1) == 1]
    assert [entry["epoch"] for entry in epochs] == [1, 2, 3]
    for entry in curves["epochs"]:
        assert entry.keys() >= FIGURES
        assert all(0 <= entry[figure] <= 100 for figure in FIGURES)
        # Early stopping goes by the same examples.
        assert entry["score"] == pytest.approx(entry["valid nDCG@5"])
    json.dumps(curves, allow_nan=False)


def test_without_held_out_data_the_training_data_are_measured_alone():
    X, Y = planted()
    model = method_class("glas")(**METHODS["glas"], validation=0.0).fit(X, Y, callbacks=[History()])
    for entry in model.history_:
        assert {name for name in entry if "@" in name} == {
            name for name in FIGURES if name.startswith("train")
        }


def test_learners_in_a_row_have_one_history_that_a_checkpoint_keeps(tmp_path):
    class Stop(Callback):
        def on_epoch(self, run):
            if len(run.progress.history) == 4:
                raise KeyboardInterrupt

    X, Y = planted()
    alone = small("hyperbolic").fit(X, Y, callbacks=[History()])
    places = [(entry["learner"], entry["epoch"]) for entry in alone.history_]
    assert places == [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3)]
    with pytest.raises(KeyboardInterrupt):
        small("hyperbolic").fit(
            X, Y, callbacks=[History(), Checkpoint(tmp_path, minutes=0), Stop()]
        )
    resumed = small("hyperbolic")
    resumed.fit(X, Y, callbacks=[History(), Checkpoint(tmp_path, resume=True)])
    assert resumed.history_ == alone.history_


@pytest.mark.parametrize("ensemble", [1, 2])
def test_members_of_fusion_keep_their_own(ensemble, tmp_path, monkeypatch):
    from labelspace.methods.fusion.method import Fusion
    from labelspace.methods.fusion.plan import plan_members

    few = [
        member._replace(parameters={**member.parameters, **METHODS.get(member.method, {})})
        for member in plan_members("glas,knn,hyperbolic", None)
    ]
    monkeypatch.setattr("labelspace.methods.fusion.method.candidate_plans", lambda *_: [few])
    X, Y = planted(150)
    model = Fusion(members="glas,knn,hyperbolic", ensemble=ensemble)
    with use(LocalEngine(1)):  # copies are fitted in this process, which saves the start of workers
        watched = clone(model).fit(X, Y, callbacks=[History(), Checkpoint(tmp_path)])
    curves = curves_of(watched)
    assert curves["method"] == "fusion"
    assert [m["method"] for m in curves["members"]] == ["glas", "hyperbolic"] * ensemble
    for member in curves["members"]:
        assert all(entry.keys() >= FIGURES for entry in member["epochs"])
    json.dumps(curves, allow_nan=False)
    if ensemble == 1:
        alone = clone(model).fit(X, Y)
        assert same_state(watched, alone)
        # A member that an earlier run has finished brings its curve along.
        again = clone(model).fit(X, Y, callbacks=[History(), Checkpoint(tmp_path, resume=True)])
        assert same_state(again, alone)
        assert curves_of(again) == curves


def test_methods_without_epochs_have_no_curve():
    for name in ("knn", "linear", "most-common"):
        assert curves_of(method_class(name)().fit(*planted(), callbacks=[History()])) is None


class Run:
    """The part of a Trainer that a History uses."""

    def __init__(self):
        self.progress = type("Progress", (), {"history": [{"epoch": 1.0}]})


def test_figures_are_those_of_evaluate_on_evenly_spaced_rows():
    Y = planted(50)[1]
    rng = np.random.default_rng(0)
    scores = rng.random(Y.shape)

    def rank(rows, k):
        numbers = np.asarray(rows.argmax(axis=1)).ravel()
        best = np.argsort(-scores[numbers], axis=1)[:, :k]
        return Ranking(best, np.take_along_axis(scores[numbers], best, 1).astype(np.float32))

    history, run = History(), Run()
    numbered = identity(50, np.float32, "csr")
    watch([Callback(), history], rank, (numbered, Y), (numbered[:0], Y[:0]), most=5)
    history.on_epoch(run)
    rows = np.array([0, 12, 24, 36, 49])
    expected = evaluate(rank(numbered[rows], 5), Y[rows], ks=KS, bands=False)
    assert run.progress.history == [
        {"epoch": 1.0} | {f"train {m}@{k}": expected[f"{m}@{k}"] for m in ("P", "nDCG") for k in KS}
    ]


def test_parts_without_labels_or_other_voters_are_left_out():
    history, run = History(), Run()
    no_labels = csr_matrix((3, 2), dtype=np.float32)
    X = csr_matrix(np.eye(3, dtype=np.float32))
    watch([history], None, (X, no_labels), None)
    history.on_epoch(run)
    watch(
        [history],
        None,
        (X[:1], csr_matrix(np.ones((1, 2), np.float32))),
        None,
        rank_own=lambda *_: 1 / 0,
    )
    history.on_epoch(run)
    assert run.progress.history == [{"epoch": 1.0}]


def test_an_example_does_not_vote_for_itself():
    Y = planted(60)[1]
    points = [unit_array(np.random.default_rng(n).random((60, 5), np.float32)) for n in range(2)]
    points = [np.vstack([p, p[:1].repeat(3, axis=0)]) for p in points]  # many equally near
    Y = csr_matrix(np.vstack([Y.toarray(), Y[:3].toarray()]))
    params = VoteParameters(neighbours=4)
    rows = np.array([0, 7, 31, 59, 62])
    found = NeighbourVote.exact(points, Y, params).rank_own(rows, 3)
    for place, row in enumerate(rows[1:4], 1):
        others = np.delete(np.arange(len(Y.toarray())), row)
        without = NeighbourVote.exact([p[others] for p in points], Y[others], params)
        near, similarity = without.search([p[[row]] for p in points], None, 4)
        labels, shares = without.votes(near, similarity, params, 3)
        np.testing.assert_array_equal(found.labels[place], labels[0])
        np.testing.assert_allclose(found.scores[place], shares[0], rtol=1e-6)
    # Labels that do not depend on the features are not found again by their own example.
    rng = np.random.default_rng(0)
    X = csr_matrix(rng.random((80, 10), np.float32))
    Y = csr_matrix((np.ones(80, np.float32), (np.arange(80), rng.integers(0, 20, 80))), (80, 20))
    for model in (Hyperbolic(**METHODS["hyperbolic"]), method_class("dxml")(**METHODS["dxml"])):
        model.fit(X, Y, callbacks=[History()])
        assert max(entry["train P@1"] for entry in model.history_) < 60
