"""Tuning: trials on validation cuts, and the model with the best parameters."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from labelspace._version import __version__
from labelspace.comparison.finished_runs import data_digest
from labelspace.data import Columns
from labelspace.data.options import LabelSource
from labelspace.engine import Engine, LocalEngine
from labelspace.errors import CheckpointError, LabelspaceError, ParameterError
from labelspace.methods import DEFAULT_METHOD
from labelspace.methods.parameters import checked_count
from labelspace.methods.registry import method_class
from labelspace.model.reading import Source
from labelspace.model.store import HEADER
from labelspace.model.tagger import Tagger, load
from labelspace.model.training import as_dataset, created_method, train
from labelspace.runs.callbacks import Callback
from labelspace.tuning.cuts import make_cuts, number_of_cuts
from labelspace.tuning.optuna_import import load_optuna
from labelspace.tuning.results import MODEL, kept_trial, settings_of, write_report, write_trials
from labelspace.tuning.space import SearchSpace
from labelspace.tuning.study import Asked, Study, Trial, best_of, study_folder
from labelspace.tuning.trial import TrialResult, TrialTask, run_trial

DEFAULT_METRIC = "nDCG@5"
_METRIC = re.compile(r"(P|nDCG|PSP|PSnDCG)@[1-9][0-9]{0,3}")


@dataclass(frozen=True)
class Tuned:
    """The result of `tune`.

    Attributes
    ----------
    tagger : Tagger
        The model with the best parameters, trained on all training data.
    method : str
    metric : str
        What was maximised, on the validation cuts.
    cuts : int
        Number of validation cuts.
    parameters : dict
        The best parameters: those given to `tune`, and those that were found.
    default_values : dict
        The values that the parameters which were found have by default on these data.
    best : Trial
        The trial with the highest score.
    defaults : Trial
        The first trial, with the method's defaults.
    trials : list of Trial
        All of them.
    """

    tagger: Tagger
    method: str
    metric: str
    cuts: int
    parameters: dict[str, Any]
    default_values: dict[str, Any]
    best: Trial
    defaults: Trial
    trials: list[Trial]

    def report(self) -> dict[str, Any]:
        """Return the best parameters and their figures beside the defaults', as JSON values."""
        states = [trial.state for trial in self.trials]
        return {
            "method": self.method,
            "metric": self.metric,
            "cuts": self.cuts,
            "trials": {state: states.count(state) for state in dict.fromkeys(states)},
            "defaults": {
                "trial": self.defaults.number,
                "figures": self.defaults.figures,
                "parameters": settings_of(self.default_values),
            },
            "best": {
                "trial": self.best.number,
                "figures": self.best.figures,
                "parameters": settings_of(self.best.parameters),
            },
            "settings": settings_of(self.parameters),
        }


def tune(
    source: Source,
    *,
    method: str = DEFAULT_METHOD,
    trials: int = 50,
    timeout: float | None = None,
    metric: str = DEFAULT_METRIC,
    search: Sequence[str] = (),
    out: str | Path | None = None,
    features: str | None = None,
    labels: LabelSource = "auto",
    columns: Columns | None = None,
    cuts: int | None = None,
    pruning: bool = True,
    seed: int = 0,
    engine: Engine | None = None,
    jobs: int = 1,
    restart: bool = False,
    callbacks: Sequence[Callback] = (),
    on_stage: Callable[[str], None] = lambda _: None,
    on_trial: Callable[[Trial, int], None] = lambda *_: None,
    **params: Any,
) -> Tuned:
    """Search for the parameters of a method that are best on held-out training examples.

    Trials are drawn by Optuna's tree-structured Parzen estimator from the values that the
    parameters of the method declare. Each is fitted and evaluated on the same cuts of the training
    data; one that falls behind is pruned. The first trial has the method's defaults, so that the
    best one is not below them on these cuts. The method is then fitted to all training data with
    the best parameters.

    Parameters
    ----------
    source : path, DataFrame, list of dict or Dataset
        Training examples with labels. A test set is not needed and must not be among them.
    method : str, default "fusion"
        Name of a method. Of a fusion, the members and their usual parameters are searched.
    trials : int, default 50
        Number of trials, with those of an earlier run in `out`.
    timeout : float, optional
        Seconds after which no further trial begins.
    metric : str, default "nDCG@5"
        What to maximise, such as "P@1" or "PSP@5".
    search : sequence of str, optional
        Names of the parameters to search, such as "lr", or "linear.C" of a member of a fusion.
        Default: all that declare values to search.
    out : path, optional
        Directory of the study, its table and the model. A study that is there is continued.
    features, labels, columns
        As for `train`.
    cuts : int, optional
        Number of validation cuts of a fifth of the examples, at most 4,000, that a score is
        averaged over. Default: 1, up to 3 if the data are small.
    pruning : bool, default True
        Whether to stop trials below the median of earlier ones, after half of their epochs, or
        after a cut.
    seed : int, default 0
        Seed of the cuts, of the trials and of the method.
    engine : Engine, optional
        Where trials run. Default: processes of this machine.
    jobs : int, default 1
        Number of trials at a time. The next ones begin when all of them have ended.
    restart : bool, default False
        Delete the study in `out`.
    callbacks : sequence of Callback, optional
        Notified of the last training, on all data.
    on_stage : callable, optional
        Called with a few words when a stage begins.
    on_trial : callable, optional
        Called with each trial and the number of finished ones.
    **params
        Parameters of the method that are set and not searched.

    Returns
    -------
    Tuned

    Raises
    ------
    ParameterError
        If a parameter is unknown, or declares no values to search.
    CheckpointError
        If `out` has a study of other data or settings.
    LabelspaceError
        If all trials failed; the message has the reason of the first.

    Examples
    --------
    >>> import labelspace as ls
    >>> rows = [
    ...     {"text": "ripe apple", "labels": ["fruit"]},
    ...     {"text": "steel hammer", "labels": ["tool"]},
    ... ]
    >>> tuned = ls.tune(rows * 20, method="knn", trials=3, metric="P@1")
    >>> len(tuned.trials), tuned.best.score >= tuned.defaults.score
    (3, True)
    """
    if not isinstance(metric, str) or not _METRIC.fullmatch(metric):
        raise ParameterError(f"metric={metric!r}: expected a name such as P@1, nDCG@5 or PSP@5")
    load_optuna()  # it is missed before data are read
    trials, jobs = checked_count("trials", trials), checked_count("jobs", jobs)
    given = {"seed": seed, **params}
    model = created_method(method, given)
    began, folder = time.monotonic(), None if out is None else Path(out)
    with study_folder(folder, restart=restart):
        on_stage("reading")
        dataset = as_dataset(source, columns, labels=labels)
        n_cuts = number_of_cuts(len(dataset)) if cuts is None else checked_count("cuts", cuts)
        on_stage("computing features of the validation cuts")
        parts = make_cuts(dataset, model, features, n_cuts, seed)
        space = SearchSpace(method_class(method), given, parts[0].shape, tuple(search))
        space.check()
        identity = {
            "data": data_digest(dataset),
            "method": method,
            "parameters": given,
            "search": list(search),
            "metric": metric,
            "features": features,
            "cuts": n_cuts,
            "seed": seed,
            "version of labelspace": __version__,
        }
        run = _Trials(
            Study(folder, identity, space, seed),
            TrialTask(method, {}, metric, n_cuts),
            {name: value for i, cut in enumerate(parts) for name, value in cut.shared(i).items()},
            engine or LocalEngine(workers=jobs),
            jobs,
            pruning,
            on_trial,
        )
        on_stage(f"tuning {method}")
        done = run.until(trials, None if timeout is None else began + timeout)
        best = best_of(done)
        if best is None:
            raise LabelspaceError(f"no trial was completed; the first one: {done[0].reason}")
        found = space.parameters(best.parameters)
        tagger = None if folder is None else _kept_model(folder, best)
        if tagger is None:
            on_stage("training on all data with the best parameters")
            tagger = train(
                dataset,
                method=method,
                features=features,
                columns=columns,
                callbacks=callbacks,
                progress=False,
                **found,
            )
            if folder is not None:
                tagger.save(folder / MODEL)
        default_values = {name: space.default_of(name) for name in best.parameters}
        tuned = Tuned(tagger, method, metric, n_cuts, found, default_values, best, done[0], done)
        if folder is not None:
            write_trials(folder, done, metric)
            write_report(folder, tuned.report())
    return tuned


def _kept_model(folder: Path, best: Trial) -> Tagger | None:
    """Return the model of an earlier run, if it has the parameters of this trial."""
    is_there = (folder / MODEL / HEADER).exists()
    return load(folder / MODEL) if is_there and kept_trial(folder) == best.number else None


@dataclass(frozen=True)
class _Trials:
    """Runs trials by an engine, so many at a time, and adds them to a study."""

    study: Study
    task: TrialTask
    shared: Mapping[str, Any]
    engine: Engine
    jobs: int
    pruning: bool
    on_trial: Callable[[Trial, int], None]

    def until(self, count: int, deadline: float | None) -> list[Trial]:
        """Run trials until there are so many; the first one is run whatever the time."""
        done = self.study.finished()
        while len(done) < count:
            if done and deadline is not None and time.monotonic() >= deadline:
                break
            # The defaults run alone: what follows is compared with them.
            some = min(self.jobs, count - len(done)) if done else 1
            self._run(self.study.ask(some))
            done = self.study.finished()
        return done

    def _run(self, asked: list[Asked]) -> None:
        earlier = self.study.steps_of_complete() if self.pruning else []
        space = self.study.space
        tasks = [
            replace(self.task, params=space.parameters(one.drawn), earlier=earlier) for one in asked
        ]
        told: set[int] = set()

        def tell(number: int, result: TrialResult) -> None:
            trial = self.study.tell(asked[number], result)
            told.add(number)
            done = self.study.finished()
            if self.study.folder is not None:
                write_trials(self.study.folder, done, self.task.metric)
            self.on_trial(trial, len(done))

        try:
            self.engine.map(run_trial, tasks, shared=self.shared, on_result=tell)
        except CheckpointError:  # the study cannot be written: what ran is drawn anew
            raise
        except LabelspaceError as error:  # a worker was killed, as happens where memory runs out
            for number in range(len(asked)):
                if number not in told:
                    tell(number, TrialResult("failed", reason=f"{type(error).__name__}: {error}"))
        except BaseException:
            for number, one in enumerate(asked):
                if number not in told:
                    self.study.lose(one)
            raise
