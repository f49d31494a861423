"""Trials on a Ray cluster are those of one machine, also when their workers are killed."""

from __future__ import annotations

import importlib
from functools import partial

import pytest

import labelspace as ls
from labelspace.data.dataset import Dataset
from support.planted import planted
from support.tuning_workers import trial_of_a_dying_worker

pytest.importorskip("optuna", reason="optuna is not installed")
pytest.importorskip("ray", reason="ray is not installed")
pytestmark = pytest.mark.xdist_group("ray")

from labelspace.engine.ray import RayEngine  # noqa: E402


@pytest.mark.usefixtures("ray_cluster")
def test_a_killed_worker_costs_no_trial(tmp_path, monkeypatch):
    X, Y = planted(150, seed=3)
    data = Dataset(labels=Y, features=X)
    wanted = ls.tune(data, method="knn", trials=4, metric="P@1")
    runs = tmp_path / "runs"
    runs.mkdir()
    module = importlib.import_module("labelspace.tuning.tune")  # the function has its name
    monkeypatch.setattr(module, "run_trial", partial(trial_of_a_dying_worker, folder=runs))
    tuned = ls.tune(
        *(data,), method="knn", trials=4, metric="P@1", engine=RayEngine(), out=tmp_path / "t"
    )  # fmt: skip
    found, expected = (
        [(trial.number, trial.state, trial.parameters, trial.score) for trial in each.trials]
        for each in (tuned, wanted)
    )
    assert found == expected
    assert sorted(path.read_text() for path in runs.iterdir()) == ["killed, run"] * 4
    lines = (tmp_path / "t" / "trials.csv").read_text().splitlines()
    assert [line.partition(",")[0] for line in lines] == ["trial", "1", "2", "3", "4"]
