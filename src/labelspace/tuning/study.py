"""A study: the trials so far, kept by Optuna in a SQLite file, and the sampler of the next ones.

What a trial draws depends on the seed, on the number of finished trials and on their results alone.
A study that was stopped and is continued, one trial at a time, therefore has the same trials as one
that was never stopped.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import count as counted
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from labelspace.errors import CheckpointError
from labelspace.tuning.optuna_import import load_optuna
from labelspace.tuning.space import SearchSpace
from labelspace.tuning.trial import State, TrialResult

try:
    import fcntl
except ImportError:  # Windows has no flock
    fcntl = None  # type: ignore[assignment]

FILE, LOCK = "study.db", "study.lock"
REPORT = "report.json"  # which also has the number of the trial that the model is of
RANDOM_TRIALS = 8  # before the sampler models the scores
_NAME, _IDENTITY, _RESULT = "labelspace", "identity", "result"
_STATES = {"complete": "COMPLETE", "pruned": "PRUNED", "failed": "FAIL"}  # as Optuna names them


@dataclass(frozen=True)
class Trial:
    """A finished trial.

    Attributes
    ----------
    number : int
        Counted from 1; the first has the method's defaults.
    state : {"complete", "pruned", "failed"}
    score : float or None
        The metric in percent, mean over the validation cuts; None unless it is complete.
    parameters : dict
        What was drawn; empty for the first trial.
    seconds : float
    reason : str
        Why it was pruned or failed; "" if it is complete.
    figures : dict of str to float
        Metrics in percent, means over the validation cuts; empty unless it is complete.
    steps : dict of int to float
        Scores that pruning compares.
    """

    number: int
    state: State
    score: float | None
    parameters: dict[str, Any]
    seconds: float
    reason: str = ""
    figures: dict[str, float] = field(default_factory=dict)
    steps: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    """A trial to run: its number from 1, Optuna's trial, and what it drew."""

    number: int
    trial: Any
    drawn: dict[str, Any]


class Study:
    """The trials of one data set, method and metric.

    Parameters
    ----------
    folder : Path or None
        Where the file of the study is; None keeps it in memory.
    identity : mapping
        What the scores depend on, as JSON values; another one is refused.
    space : SearchSpace
    seed : int

    Raises
    ------
    CheckpointError
        If the folder has a study of other data or settings, or one that cannot be read.
    """

    def __init__(
        self, folder: Path | None, identity: Mapping[str, Any], space: SearchSpace, seed: int
    ) -> None:
        self.folder, self.space, self.seed = folder, space, seed
        self.optuna = load_optuna()
        try:
            self.study = self.optuna.create_study(
                study_name=_NAME,
                storage=None if folder is None else _storage(folder / FILE),
                direction="maximize",
                load_if_exists=True,
            )
            self._check(identity)
            self._close_lost()
        except (CheckpointError, KeyboardInterrupt):
            raise
        except Exception as error:  # of SQLAlchemy, alembic or Optuna, by what is damaged
            raise CheckpointError(
                f"{folder and folder / FILE} cannot be read as a study: {error}; "
                "--restart deletes it"
            ) from None

    def _check(self, identity: Mapping[str, Any]) -> None:
        written = json.loads(json.dumps(identity))
        before = self.study.user_attrs.get(_IDENTITY)
        if before is None:
            self.study.set_user_attr(_IDENTITY, written)
        elif before != written:
            names = {*before, *written} if isinstance(before, dict) else set()
            other = [name for name in sorted(names) if before.get(name) != written.get(name)]
            raise CheckpointError(
                f"{self.folder} holds a study with another {', '.join(other) or 'content'}: choose "
                "another --out, or give --restart to delete it"
            )

    def _close_lost(self) -> None:
        """End trials that ran when their process ended; without a result, they are drawn anew."""
        for trial in self.study.get_trials(deepcopy=False):
            if trial.state.is_finished():
                continue
            kept = trial.user_attrs.get(_RESULT)
            if kept is None:
                self.study.tell(trial.number, state=self._state("failed"))
            else:  # it ended between two writes
                self.study.tell(trial.number, kept["score"], self._state(kept["state"]))

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Raise CheckpointError where the file of the study fails, as on a full disk."""
        from sqlalchemy.exc import SQLAlchemyError

        try:
            yield
        except (self.optuna.exceptions.OptunaError, SQLAlchemyError) as error:
            cause: BaseException = error
            while cause.__cause__ is not None:
                cause = cause.__cause__
            raise CheckpointError(
                f"{self.folder and self.folder / FILE} cannot be written: "
                f"{str(cause).partition(chr(10))[0]}; repeat the command to continue"
            ) from error

    def finished(self) -> list[Trial]:
        """Return the finished trials, in order; those that were stopped are left out."""
        found = []
        with self._at_work():
            trials = self.study.get_trials(deepcopy=False)
        for trial in trials:
            if trial.state.is_finished() and _RESULT in trial.user_attrs:
                kept = trial.user_attrs[_RESULT]
                steps = {int(step): score for step, score in kept["steps"].items()}
                found.append(Trial(**{**kept, "steps": steps}))
        return sorted(found, key=lambda trial: trial.number)

    def ask(self, count: int) -> list[Asked]:
        """Return trials to run; the first of a study has the method's defaults."""
        used, asked = {trial.number for trial in self.finished()}, []
        for number in islice((number for number in counted(1) if number not in used), count):
            with (
                self._at_work(),
                warnings.catch_warnings(),
            ):  # conditional parameters are experimental in Optuna
                warnings.simplefilter("ignore", self.optuna.exceptions.ExperimentalWarning)
                self.study.sampler = self._sampler(number)
                trial = self.study.ask()
                drawn = self.space.draw(trial)
            # The sampler learns from the nearest values of the space; the trial has the defaults.
            asked.append(Asked(number, trial, {} if number == 1 else drawn))
        return asked

    def _sampler(self, number: int) -> Any:
        state = np.random.SeedSequence([self.seed, number]).generate_state(1)
        sampler = self.optuna.samplers.TPESampler(
            n_startup_trials=RANDOM_TRIALS,
            multivariate=True,
            group=True,
            constant_liar=True,  # trials that run at the same time differ
            seed=int(state[0]),
        )
        if number > 1:
            return sampler
        return self.optuna.samplers.PartialFixedSampler(self.space.defaults(), sampler)

    def tell(self, asked: Asked, result: TrialResult) -> Trial:
        """Add the result of a trial, and write it."""
        trial = Trial(
            asked.number,
            result.state,
            result.score,
            asked.drawn,
            result.seconds,
            result.reason,
            result.figures,
            result.steps,
        )
        with self._at_work():
            for step, score in result.steps.items():
                asked.trial.report(score, step)
            asked.trial.set_user_attr(_RESULT, asdict(trial))
            self.study.tell(asked.trial, result.score, self._state(result.state))
        return trial

    def lose(self, asked: Asked) -> None:
        """Leave out a trial that was stopped; if that cannot be written, the next run does it."""
        with suppress(CheckpointError), self._at_work():
            self.study.tell(asked.trial, state=self._state("failed"))

    def _state(self, name: State) -> Any:
        return self.optuna.trial.TrialState[_STATES[name]]

    def steps_of_complete(self) -> list[dict[int, float]]:
        """Return the scores that a running trial is compared with."""
        return [trial.steps for trial in self.finished() if trial.state == "complete"]


def best_of(trials: list[Trial]) -> Trial | None:
    """Return the first trial with the highest score; None if no trial is complete."""
    complete = [trial for trial in trials if trial.score is not None]
    return max(complete, key=lambda trial: trial.score or 0.0, default=None)


@contextmanager
def study_folder(folder: Path | None, *, restart: bool) -> Iterator[None]:
    """Hold the folder for this process; with `restart`, delete the study in it.

    Raises
    ------
    CheckpointError
        If another process holds it.
    """
    if folder is None:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        _take(lock, folder)
        if restart:
            for name in (FILE, f"{FILE}-journal", REPORT):
                (folder / name).unlink(missing_ok=True)
        yield
    finally:
        os.close(lock)


def _take(lock: int, folder: Path) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise CheckpointError(
            f"another process tunes in {folder}: wait for it, or choose another --out"
        ) from None
    except OSError:
        return  # a file system without locks


def _storage(path: Path) -> Any:
    from sqlalchemy.engine import URL

    url = URL.create("sqlite", database=str(path.resolve()))
    return load_optuna().storages.RDBStorage(url.render_as_string(hide_password=False))
