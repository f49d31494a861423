"""Figures of the experiments on hyperbolic space: what they measure, and fair tuning."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from labelspace.data.dataset import Dataset
from labelspace.methods.hyperbolic.method import Hyperbolic
from labelspace.methods.registry import method_class
from labelspace.nn import poincare
from labelspace.reproductions import registry
from labelspace.reproductions.experiment import Split, on_test
from labelspace.reproductions.hyperbolic import (
    EXPERIMENTS,
    by_learners,
    label_shape,
    mean_distances,
    searched,
)
from labelspace.reproductions.report import write_report
from labelspace.reproductions.run import reproduce
from support.planted import planted

SMALL = {"dim": 2, "epochs": 2, "batch_size": 32, "neighbours": 5, "validation": 0.0}


@pytest.fixture(scope="module")
def split():
    X, Y = planted(200, seed=5)
    train, test = Dataset(Y[:150], X[:150]), Dataset(Y[150:], X[150:])
    return Split(X[:150], Y[:150], X[150:], Y[150:], train, test)


def fitted(split, **options):
    return Hyperbolic(**{**SMALL, **options}).fit(split.X, split.Y)


def test_norms_and_distances_are_correlated_with_frequency(split):
    model = fitted(split)
    counts = np.asarray(split.Y.sum(axis=0)).ravel()
    ranks = np.argsort(np.argsort(-counts, kind="stable"), kind="stable")
    # The more frequent, the nearer to the centre, where all examples are.
    model.spaces_[0].labels.weight[:] = np.column_stack([0.01 + 0.05 * ranks, 0 * ranks])
    model.points_[0][:] = 0.0
    found = label_shape(model, split)
    assert found["norm 1+"] < -0.99  # equal counts have different ranks
    assert found["distance 20+"] < -0.99
    assert found["norm, frequent"] == pytest.approx(0.01 + 0.05 * 2.5, rel=1e-4)
    best = found["frequent"][0]
    assert best["label"] == counts.argmax()
    assert best["distance"] == pytest.approx(2 * np.arctanh(0.01), rel=1e-4)
    assert best["frequency"] == pytest.approx(100 * counts.max() / 150)
    assert len(found["points"]) == (counts > 0).sum()
    assert found["points"][0][2] == counts.max()


def test_an_isometry_changes_norms_and_no_mean_distance(split):
    model = fitted(split, lr=0.05)
    before, norms = mean_distances(model), np.linalg.norm(model.label_vectors_, axis=1)
    shift = torch.tensor([0.5, -0.2], dtype=torch.float64)
    for points in (model.spaces_[0].labels.weight, model.points_[0]):
        points[:] = poincare.mobius_add(shift, torch.from_numpy(points).double()).numpy()
    np.testing.assert_allclose(mean_distances(model), before, rtol=1e-4)
    assert np.abs(np.linalg.norm(model.label_vectors_, axis=1) - norms).max() > 0.1


def test_figures_of_one_learner_are_those_of_a_model_alone(split):
    found = by_learners(fitted(split, ensemble=6), split)
    alone = on_test(fitted(split), split)
    assert {name: found[name] for name in alone} == alone
    assert found["6: P@1"] == on_test(fitted(split, ensemble=6), split)["P@1"]


def test_the_share_that_is_searched_is_that_of_the_probed_cells(split, monkeypatch):
    monkeypatch.setattr("labelspace.search.geometry.build.POINTS_PER_CELL", 30)
    whole = searched(fitted(split, search="exact"), split)
    assert (whole["searched"], whole["recall"]) == (100.0, 100.0)
    model = fitted(split, search="cells", recall=0.5)
    index = model.indexes_[0]
    index.set_probes(1)
    nearest, _ = index.around.search(model.embed(split.X_test), 1)
    sizes = np.bincount(index.cell_of)
    expected = 100 * sizes[nearest[:, 0]].mean() / 150
    assert searched(model, split)["searched"] == pytest.approx(expected)


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda each: each.name)
@pytest.mark.parametrize("quick", [True, False])
def test_all_rows_of_a_data_set_are_tuned_over_as_many_valid_settings(experiment, quick):
    trials = experiment.trials(quick)
    assert len({len(trial.grid) for trial in trials}) == 1
    for trial in trials:
        for setting in trial.grid or [{}]:
            params = {**trial.params, **setting, **trial.final}
            method_class(trial.method).create(**params).check_parameters()
    keys = [tuple({"data": t.data.name, **t.row}.items()) for t in trials]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("name", ["hyperbolic-figure2", "hyperbolic-table6", "hyperbolic-table4"])
def test_a_picture_comes_out_where_no_data_set_is_at_hand(name, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    (experiment,) = (each for each in EXPERIMENTS if each.name == name)
    trials = [
        replace(trial, data=replace(trial.data, rows=60, tested=20), grid=trial.grid[:1],
                params={**trial.params, "epochs": 1, "dim": 2})
        for trial in experiment.trials(True)[:5]
    ]  # fmt: skip
    short = replace(experiment, trials=lambda _: trials)
    monkeypatch.setattr(registry, "experiments", lambda: {name: short})
    results = reproduce(name, tmp_path / "none", quick=True)
    *_, picture = write_report(results, tmp_path / "out")
    assert picture.stat().st_size > 10_000
    assert "failed" not in (tmp_path / "out" / "report.md").read_text()
