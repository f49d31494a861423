"""Experiments of DXML: splits, grids, and figures of search and time."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from labelspace.methods.dxml.method import DXML
from labelspace.reproductions.dxml import EXPERIMENTS, QUICK, _timed, searched, times
from labelspace.reproductions.results import Results, Row
from support.planted import planted

SMALL = {"preset": "paper", **QUICK, "dim": 8, "hidden": (16,), "epochs": 2}
BY_NAME = {each.name: each for each in EXPERIMENTS}


@pytest.fixture(scope="module")
def split():
    X, Y = planted(260, seed=1)
    parts = {"X": X[:200], "Y": Y[:200], "X_test": X[200:], "Y_test": Y[200:]}
    return SimpleNamespace(**parts, known=lambda _: {})


def test_table_2_is_a_mean_over_ten_splits():
    trials = BY_NAME["dxml-table2"].trials(False)
    for data, which in (("bibtex", "redrawn"), ("delicious", "split")):
        for system in {trial.row["system"] for trial in trials}:
            own = [t for t in trials if t.data.name == data and t.row["system"] == system]
            assert [getattr(trial.data, which) for trial in own] == list(range(10))
            assert {trial.seeds for trial in own} == {1}


def test_both_sides_of_figure_2_have_the_same_grid():
    trials = BY_NAME["dxml-figure2"].trials(False)
    relu, linear = (
        [trial for trial in trials if trial.row["layers"] == layers]
        for layers in ("ReLU", "linear")
    )
    assert [trial.grid for trial in relu] == [trial.grid for trial in linear]
    assert {trial.params["activation"] for trial in relu} == {"relu"}
    assert {trial.params["activation"] for trial in linear} == {None}


def test_search_figures_count_what_is_scored(split):
    exact = searched(DXML(**SMALL, search="exact").fit(split.X, split.Y), split)
    assert (exact["recall"], exact["scored %"]) == (1.0, 100.0)
    model = DXML(**SMALL, clusters=4, probes=2).fit(split.X, split.Y)
    found = searched(model, split)
    index, z = model.vote_.indexes[0], model.embed(split.X_test)
    sizes = np.diff(index.indptr)
    expected = [sizes[np.argsort(-(index.centres @ row))[:2]].sum() for row in z]
    assert found["scored %"] == pytest.approx(100 * np.mean(expected) / sizes.sum())
    assert found["time / exact"] > 0


def test_times_are_those_of_training_and_testing(split):
    found = times(_timed(DXML(**SMALL), split), split)
    assert found["train / test"] == pytest.approx(found["train s"] / found["test s"])


def test_figure_2_is_drawn_with_a_bar_for_each_precision():
    experiment = BY_NAME["dxml-figure2"]
    rows = [
        Row({"data": data, "layers": layers}, "dxml", {}, runs=[{"P@1": 3.0, "P@3": 2.0, "P@5": 1}])
        for data in ("bibtex", "delicious")
        for layers in ("ReLU", "linear")
    ]
    figure = experiment.plot(Results(experiment, rows))
    assert [len(axes.patches) for axes in figure.axes] == [6, 6]
    assert sorted({bar.get_height() for bar in figure.axes[0].patches}) == [1, 2, 3]
