"""Every trial of every experiment is one that can be run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from labelspace.reproductions.registry import experiments
from labelspace.reproductions.run import Task, _method

EXPERIMENTS = experiments()


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("quick", [True, False])
def test_methods_and_settings_exist(name, quick):
    experiment = EXPERIMENTS[name]
    trials = experiment.trials(quick)
    rows = [(trial.data, *trial.row.items()) for trial in trials]
    assert len(rows) == len(set(rows))
    # Splits of a set share a row, and nothing else does.
    samples = {(replace(trial.data, split=None, redrawn=None), *row[1:]) for trial, row
               in zip(trials, rows, strict=True)}  # fmt: skip
    assert len(samples) == len({(data.name, *row) for data, *row in samples})
    for number, trial in enumerate(trials):
        task = Task(name, quick, number, {}, 0, tuning=False)
        for setting in trial.grid or [{}]:
            _method(replace(task, setting=dict(setting)), trial).check_parameters()
