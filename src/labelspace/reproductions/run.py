"""Runs an experiment: settings are chosen on held-out training examples, then tested by seed.

Finished runs are kept in `runs.jsonl` of the output folder, each recognised by its data and by all
parameters of its method: a command that is repeated continues where it was stopped.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from labelspace._core.sparse import digest
from labelspace._version import __version__
from labelspace.comparison.finished_runs import FinishedRuns, Words, finished_runs
from labelspace.components.holdout import split_rows
from labelspace.engine import Engine, LocalEngine
from labelspace.errors import ParameterError, TrainingError
from labelspace.methods.base import Method
from labelspace.methods.parameters import plain
from labelspace.methods.registry import method_class
from labelspace.reproductions.experiment import Experiment, Split, Trial
from labelspace.reproductions.registry import find
from labelspace.reproductions.results import Results, Row, is_number, paper_figures
from labelspace.reproductions.samples import check_at_hand, is_at_hand, read_sample

RUNS = "runs.jsonl"
WORDS = Words("reproduction", "--out", "delete the file to begin anew")
FAILED = "failed"  # in place of figures: why the training failed
HELD_OUT = 0.1  # share of the training examples on which settings are compared
_CUT_SEED = 1  # other rows than those that a method holds out itself


@dataclass(frozen=True)
class Task:
    """One training: of a setting of the grid, or of the chosen one with a seed.

    Attributes
    ----------
    experiment : str
    quick : bool
    trial : int
        Number of the trial.
    setting : dict
        The setting of the grid.
    seed : int
    tuning : bool
        Whether to measure on held-out training examples instead of test examples.
    """

    experiment: str
    quick: bool
    trial: int
    setting: dict[str, Any]
    seed: int
    tuning: bool


def reproduce(
    name: str,
    data: str | Path = "data",
    out: str | Path | None = None,
    *,
    quick: bool = False,
    seeds: int | None = None,
    only: Sequence[str] = (),
    engine: Engine | None = None,
    on_run: Callable[[str], None] = lambda _: None,
) -> Results:
    """Run an experiment and return its results.

    Parameters
    ----------
    name : str
        One of `labelspace.reproductions.registry.experiments()`.
    data : path
        Folder that holds the data sets, each in a folder of its name.
    out : path, optional
        Folder in which finished runs are kept, and from which they are taken.
    quick : bool, default False
        Run the quick form: one seed, on samples. Data sets that are not at hand are replaced by
        generated ones.
    seeds : int, optional
        Number of seeds; by default as many as the experiment has.
    only : sequence of str, optional
        Names of the data sets to run on; by default all of the experiment.
    engine : Engine, optional
        Where trainings run; by default in this process, one after another.
    on_run : callable, optional
        Called with a line on each finished run.

    Returns
    -------
    Results

    Raises
    ------
    ParameterError
        If there is no such experiment.
    DataError
        If a data set is missing and `quick` is false.
    """
    experiment, folder = find(name), Path(data)
    trials = {
        number: trial
        for number, trial in enumerate(experiment.trials(quick))
        if not only or trial.data.name in only
    }
    if not trials:
        raise ParameterError(f"{name} has no trial on {', '.join(only)}")
    names = [trial.data.name for trial in trials.values()]
    if not quick:
        check_at_hand(names, folder)
    path = None if out is None else Path(out) / RUNS
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
    count = seeds or (1 if quick else experiment.seeds)
    with finished_runs(path, {"experiment": name}, (), resume=True, words=WORDS) as kept:
        runner = _Runner(experiment, quick, folder, kept, engine or LocalEngine(1), on_run)
        rows = runner.rows(trials, count)
    replaced = sorted({each for each in names if not is_at_hand(each, folder)})
    return Results(experiment, rows, quick, replaced)


class _Runner:
    """Runs the tasks that are not finished, first those that compare settings."""

    def __init__(
        self,
        experiment: Experiment,
        quick: bool,
        folder: Path,
        kept: FinishedRuns,
        engine: Engine,
        on_run: Callable[[str], None],
    ) -> None:
        self.experiment, self.quick, self.folder = experiment, quick, folder
        self.kept, self.engine, self.on_run = kept, engine, on_run
        self.digests: dict[str, str] = {}

    def rows(self, trials: Mapping[int, Trial], seeds: int) -> list[Row]:
        tuning = [
            self._task(number, setting, 0, tuning=True)
            for number, trial in trials.items()
            for setting in trial.grid
        ]
        scores = self._run(tuning, trials)
        rows: list[Row] = []
        tests: list[Task] = []
        of_trial: dict[int, Row] = {}
        for number, trial in trials.items():
            own = [
                (task.setting, float(figures.get(self.experiment.metric, -math.inf)))
                for task, figures in zip(tuning, scores, strict=True)
                if task.trial == number
            ]
            chosen = max(own, key=lambda each: each[1])[0] if own else {}
            key = {"data": trial.data.name, **trial.row}
            params = {**trial.params, **chosen, **trial.final}
            row = Row(key, trial.method, params, chosen, own)
            row.paper = paper_figures(self.experiment.expected, key)
            same = next((each for each in rows if each == row), None)  # on another split
            of_trial[number] = same or row
            rows += [] if same else [row]
            tests += [self._task(number, chosen, seed) for seed in range(trial.seeds or seeds)]
        for task, figures in zip(tests, self._run(tests, trials), strict=True):
            of_trial[task.trial].runs.append(figures)
        return rows

    def _task(
        self, number: int, setting: Mapping[str, Any], seed: int, *, tuning: bool = False
    ) -> Task:
        return Task(self.experiment.name, self.quick, number, dict(setting), seed, tuning)

    def _run(self, tasks: Sequence[Task], trials: Mapping[int, Trial]) -> list[dict[str, Any]]:
        """Return the figures of each task, of finished ones without running them again."""
        keys = [self._key(task, trials[task.trial]) for task in tasks]
        left = [place for place, key in enumerate(keys) if self.kept.find(key) is None]

        def keep(place: int, figures: dict[str, Any]) -> None:
            task = tasks[left[place]]
            self.kept.add(keys[left[place]], figures)
            self.on_run(_line(task, trials[task.trial], figures, self.experiment))

        self.engine.map(
            run_task,
            [tasks[place] for place in left],
            shared={"folder": str(self.folder)},
            on_result=keep,
        )
        found = [self.kept.find(key) for key in keys]
        return [figures for figures in found if figures is not None]

    def _key(self, task: Task, trial: Trial) -> dict[str, Any]:
        """Return what a finished run is recognised by: data, method and all its parameters."""
        method = _method(task, trial)
        name = repr((trial.data, trial.method))
        if name not in self.digests:
            split = read_sample(trial.data, self.folder, method)
            self.digests[name] = digest(split.X, split.Y, split.X_test, split.Y_test)
        params = {name: plain(value) for name, value in method.get_params().items()}
        return {
            "data": trial.data.name,
            "digest": self.digests[name],
            "row": dict(trial.row),
            "method": trial.method,
            "params": params,
            "tuning": task.tuning,
        }


def run_task(task: Task, folder: str) -> dict[str, Any]:
    """Train and measure, in this process."""
    experiment = find(task.experiment)
    trial = experiment.trials(task.quick)[task.trial]
    method = _method(task, trial)
    split = read_sample(trial.data, Path(folder), method)
    if task.tuning:
        split = held_out(split)
    start = time.perf_counter()
    measured: Mapping[str, Any]
    try:
        model = experiment.fit(method, split)
        seconds = time.perf_counter() - start
        measured = experiment.figures(model, split)
    except TrainingError as error:  # a setting that diverges is a result, too
        seconds = time.perf_counter() - start
        measured = {FAILED: str(error)}
    figures = {name: plain(value) for name, value in measured.items()}
    return {**figures, "train_s": seconds, "version": __version__}


def held_out(split: Split) -> Split:
    """Return the training examples of a split, with a tenth of them in place of the test ones."""
    rows, cut = split_rows(split.X.shape[0], HELD_OUT, _CUT_SEED)
    return replace(
        split,
        X=split.X[rows],
        Y=split.Y[rows],
        X_test=split.X[cut],
        Y_test=split.Y[cut],
        train=split.train.take(rows),
        test=split.train.take(cut),
    )


def _method(task: Task, trial: Trial) -> Method:
    params = {**trial.params, **task.setting, **({} if task.tuning else trial.final)}
    module, _, name = trial.method.rpartition(":")
    cls: type[Method] = getattr(import_module(module), name) if module else method_class(name)
    return cls.create(**params, seed=task.seed)


def _line(task: Task, trial: Trial, figures: Mapping[str, Any], experiment: Experiment) -> str:
    shown = ", ".join(f"{name} {value}" for name, value in {**trial.row, **task.setting}.items())
    what = "held-out" if task.tuning else f"seed {task.seed}"
    names = [experiment.metric] if task.tuning else experiment.columns
    found = figures.get(FAILED) or ", ".join(
        f"{name} {figures[name]:.2f}" for name in names if is_number(figures.get(name))
    )
    return f"{trial.data.name}, {shown}, {what}: {found} ({figures['train_s']:.0f} s)"
