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
    rows = [(trial.data.name, *trial.row.items()) for trial in trials]
    assert len(rows) == len(set(rows))
    for number, trial in enumerate(trials):
        task = Task(name, quick, number, {}, 0, tuning=False)
        for setting in trial.grid or [{}]:
            _method(replace(task, setting=dict(setting)), trial).check_parameters()


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_figures_of_the_paper_stand_beside_rows_or_name_another_data_set(name):
    experiment = EXPERIMENTS[name]
    rows = [{"data": trial.data.name, **trial.row} for trial in experiment.trials(False)]
    for each in experiment.expected:
        fits = any(all(each.get(key) == value for key, value in row.items()) for row in rows)
        assert fits or each["data"] not in {row["data"] for row in rows}, each
