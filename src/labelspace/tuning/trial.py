"""One trial: a method with given parameters, fitted and evaluated on each validation cut.

A trial is a task of an engine: it reads and returns plain values, and knows the scores of earlier
trials from its task, so that it needs no access to the study.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any, Literal

from labelspace.errors import TrainingError
from labelspace.methods.registry import method_class
from labelspace.metrics.ranking import evaluate
from labelspace.model.memory import refuse_if_too_large
from labelspace.runs.callbacks import Callback, Run
from labelspace.tuning.cuts import Cut
from labelspace.tuning.optuna_import import load_optuna

QUARTERS = 4  # of the epochs, after which a trial is compared with earlier ones
FIGURES = ("P@1", "P@3", "P@5", "nDCG@3", "nDCG@5", "PSP@1", "PSP@3", "PSP@5")  # of the report
State = Literal["complete", "pruned", "failed"]


@dataclass(frozen=True)
class TrialTask:
    """What a trial computes.

    Attributes
    ----------
    method : str
    params : dict
        Parameters of the method; others have their defaults.
    metric : str
        What is measured on the cuts.
    n_cuts : int
    earlier : list of dict of int to float
        Scores of earlier trials after each step, for pruning; empty: nothing is pruned.
    """

    method: str
    params: dict[str, Any]
    metric: str
    n_cuts: int
    earlier: list[dict[int, float]] = field(default_factory=list)


@dataclass
class TrialResult:
    """What a trial found.

    Attributes
    ----------
    state : {"complete", "pruned", "failed"}
    score : float or None
        Mean over the cuts; None unless it is complete.
    seconds : float
    reason : str
        Why it was pruned or failed.
    figures : dict of str to float
        `FIGURES` and the metric of the task in percent, mean over the cuts; empty unless it is
        complete.
    steps : dict of int to float
        Scores after each step: quarters of the epochs of the first cut, then each cut.
    """

    state: State = "complete"
    score: float | None = None
    seconds: float = 0.0
    reason: str = ""
    figures: dict[str, float] = field(default_factory=dict)
    steps: dict[int, float] = field(default_factory=dict)


class Pruned(Exception):  # it is no error
    """A trial is not worth going on with; the message has the reason."""


def run_trial(task: TrialTask, **shared: Any) -> TrialResult:
    """Return the result of a trial; an error is part of it and is not raised.

    Parameters
    ----------
    task : TrialTask
    **shared
        The cuts, as `Cut.shared` returns them.
    """
    result, start = TrialResult(), time.monotonic()
    try:
        _run(task, shared, result)
    except Pruned as pruned:
        result.state, result.reason = "pruned", str(pruned)
    except Exception as error:  # a trial that fails must not stop the study
        reason = str(error).strip() or "no message"
        result.state, result.reason = "failed", f"{type(error).__name__}: {reason}"
    result.seconds = round(time.monotonic() - start, 3)
    return result


def _run(task: TrialTask, shared: dict[str, Any], result: TrialResult) -> None:
    # The scores of a fusion's members are not those of the fusion.
    compares_epochs = "members" not in method_class(task.method).parameters
    epochs = Steps(task.earlier, result.steps, range(1, QUARTERS + 1), prune_from=2)
    after = QUARTERS + 1
    cuts = Steps(task.earlier, result.steps, range(after, after + task.n_cuts), prune_from=after)
    found: list[dict[str, float]] = []
    for number in range(task.n_cuts):
        callbacks: list[Callback] = [PruneEpochs(epochs)] if compares_epochs and not found else []
        found.append(_figures(task, Cut.of_shared(number, shared), callbacks))
        means = {name: sum(one[name] for one in found) / len(found) for name in found[0]}
        if not math.isfinite(means[task.metric]):
            raise TrainingError(f"{task.metric} became {means[task.metric]}")
        if len(found) < task.n_cuts:
            cuts.report(QUARTERS + len(found), means[task.metric])
    result.score, result.figures = means[task.metric], means


def _figures(task: TrialTask, cut: Cut, callbacks: list[Callback]) -> dict[str, float]:
    """Return the metrics on a cut, in percent."""
    model = method_class(task.method).create(**task.params)
    model.check_parameters()
    refuse_if_too_large(model, cut.shape)
    model.fit(cut.X, cut.Y, taxonomy=cut.taxonomy, callbacks=callbacks, **cut.arguments)
    names = list(dict.fromkeys((*FIGURES, task.metric)))
    ks = sorted({int(name.partition("@")[2]) for name in names})
    known = cut.Y.copy()
    known.resize(cut.Y.shape[0], cut.held_Y.shape[1])  # labels that only label texts have
    all_figures = evaluate(model.predict(cut.held_X, ks[-1]), cut.held_Y, known, ks=ks, bands=False)
    return {name: float(all_figures[name]) for name in names}


class Steps:
    """Scores of a running trial, which is pruned once its best one is below the median.

    Optuna's MedianPruner compares it with the earlier trials after the same step; the first five
    trials are never pruned. Scores of epochs and of cuts are different figures: each have their
    own steps.

    Parameters
    ----------
    earlier : list of dict of int to float
        Scores of earlier trials by step; empty: nothing is pruned.
    found : dict of int to float
        Filled with the scores of this trial.
    steps : range
        The numbers of these steps.
    prune_from : int
        The first step after which a trial may be pruned.
    """

    def __init__(
        self,
        earlier: list[dict[int, float]],
        found: dict[int, float],
        steps: range,
        prune_from: int,
    ) -> None:
        optuna = load_optuna()
        pruner = optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=prune_from)
        self.study = optuna.create_study(direction="maximize", pruner=pruner)
        for scores in earlier:
            own = {step: score for step, score in scores.items() if step in steps}
            last = own[max(own)] if own else 0.0
            self.study.add_trial(optuna.trial.create_trial(value=last, intermediate_values=own))
        self.trial, self.found, self.prunes = self.study.ask(), found, bool(earlier)

    def report(self, step: int, score: float) -> None:
        """Add a score; raise Pruned if the trial is not worth going on with."""
        self.found[step] = score
        self.trial.report(score, step)
        if self.prunes and self.trial.should_prune():
            where = f"{step} of {QUARTERS} quarters of the epochs"
            if step > QUARTERS:
                where = f"validation cut {step - QUARTERS}"
            raise Pruned(f"below the median of earlier trials after {where}")


class PruneEpochs(Callback):
    """Reports the validation score of each quarter of the epochs.

    Quarters, and not epochs, so that trials of different numbers of epochs are compared at the same
    place of their learning rates. Only the first training run counts: those of other members of an
    ensemble, or of a stage after it, have scores of their own.
    """

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.run: Run | None = None
        self.quarter = 0

    def on_start(self, run: Run) -> None:
        if self.run is None:
            self.run = run

    def on_epoch(self, run: Run) -> None:
        score = run.progress.history[-1].get("score")
        quarter = QUARTERS * run.progress.epoch // run.epochs
        if run is not self.run or score is None or quarter <= self.quarter:
            return
        self.quarter = quarter
        self.steps.report(quarter, score)
