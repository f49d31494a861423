"""The experiments of GLaS: what each row changes, and what the pictures show."""

from __future__ import annotations

import numpy as np
import pytest

from labelspace.methods.glas.method import GLaS
from labelspace.reproductions.glas import ALGORITHM_1, AXIS, EXPERIMENTS, TABLE_1, TABLE_2
from labelspace.reproductions.results import Results, Row

BY_NAME = {experiment.name: experiment for experiment in EXPERIMENTS}
PARAMETERS = {  # what a row of Table 1 changes
    "base": set(),
    "regulariser": {"regulariser"},
    "regulariser, lambda chosen": {"regulariser"},
    "lambda": {"lam"},
    "rho": {"keep"},
    "batch size": {"batch_size"},
    "d": {"dim"},
    "encoder": {"hidden"},
    "U": {"target"},
}


def changed(params, base):
    one, other = (GLaS(**each).get_params() for each in (params, base))
    return {name for name in one if one[name] != other[name]}


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("name", BY_NAME)
def test_every_setting_of_every_trial_is_allowed(name, quick):
    for trial in BY_NAME[name].trials(quick):
        for setting in trial.grid or [{}]:
            GLaS(**{**trial.params, **setting}).check_parameters()


@pytest.mark.parametrize("quick", [True, False])
def test_a_row_of_table_1_changes_what_it_names(quick):
    trials = BY_NAME["glas-table1"].trials(quick)
    sets = {trial.data for trial in trials}
    assert len(trials) % len(sets) == 0
    base = trials[0].params
    values = {"loss": "margin", "lam": 10.0, "keep": 0.8, "optimiser": "sgd"}
    assert GLaS(**base).get_params().items() >= values.items()
    for trial in trials:
        wanted = PARAMETERS[trial.row["parameter"]]
        if trial.row["value"] == "none, no dropout":
            wanted = {"regulariser", "keep"}
        elif (trial.row["parameter"], trial.row["value"]) == ("regulariser, lambda chosen", "glas"):
            wanted = set()
        assert changed(trial.params, base) == wanted, trial.row


def test_table_1_has_the_rows_of_the_paper():
    rows = {tuple(trial.row.values()) for trial in BY_NAME["glas-table1"].trials(False)}
    quoted = {(each["parameter"], each["value"]) for each in TABLE_1}
    # Batches have 256 examples, where the base of the paper has 4,096.
    assert quoted - rows == {("batch size", "2048")}
    weights = [f"{lam:g}" for lam in (1.0, 100.0, 1e3, 1e4, 1e5)]
    assert [value for name, value in sorted(rows) if name == "lambda"] == sorted(weights)


def test_both_sides_of_table_2_choose_from_equally_many_settings():
    trials = BY_NAME["glas-table2"].trials(False)
    assert {len(trial.grid) for trial in trials} == {6}
    none = [trial for trial in trials if trial.row["regularisation"] == "none"]
    assert len(none) == 2
    assert all(trial.params.items() >= ALGORITHM_1.items() for trial in none)
    for each in TABLE_2:
        assert each["gap"] == pytest.approx(each["train P@1"] - each["P@1"], abs=0.011)


def test_figure_1_trains_on_all_examples_to_the_end():
    for trial in BY_NAME["glas-figure1"].trials(False):
        assert trial.params["patience"] == trial.params["epochs"]
        assert trial.params["validation"] == 0.0


def test_the_picture_of_table_1_has_a_dot_per_row_and_figures_at_the_edge():
    pytest.importorskip("matplotlib")
    rows = [
        Row(
            {"data": "d", "parameter": name, "value": ""}, "glas", {}, runs=[{"P@1": p}, {"P@1": p}]
        )
        for name, p in (("base", 70.0), ("rho", 71.0), ("lambda", 70.0 - AXIS - 1))
    ]
    (axes,) = BY_NAME["glas-table1"].plot(Results(BY_NAME["glas-table1"], rows)).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["base", "rho", "lambda"]
    assert [text.get_text().strip() for text in axes.texts] == [f"< {70 - AXIS - 1:.1f}"]


def test_figure_1_draws_the_mean_over_seeds():
    pytest.importorskip("matplotlib")

    def run(*test):
        return {"curves": [{"test P@1": p, "train P@1": 90.0} for p in test]}

    row = Row({"data": "d", "algorithm": "1"}, "glas", {}, runs=[run(40, 60), run(50, 80)])
    (axes,) = BY_NAME["glas-figure1"].plot(Results(BY_NAME["glas-figure1"], [row])).axes
    lines = {line.get_label(): line.get_xydata() for line in axes.lines}
    np.testing.assert_allclose(lines["Algorithm 1, test"], [[1, 45], [2, 70]])
    np.testing.assert_allclose(lines["Algorithm 1, train"], [[1, 90], [2, 90]])
