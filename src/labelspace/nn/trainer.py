"""The one training loop: epochs, batches, shuffling, early stopping, time budget, resume.

A method gives it parameters, an optimiser and the loss of a batch. Every random choice of a batch
derives from (seed, epoch, step) alone, so a resumed run needs no generator state to repeat itself.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import torch

from labelspace.errors import TrainingError
from labelspace.runs.callbacks import Callback

Schedule = Literal["constant", "linear", "cosine"]


class Optimiser(Protocol):
    """Takes a step on the gradients that a loss left behind."""

    def zero_grad(self) -> None: ...
    def step(self, scale: float) -> None:
        """Update once; `scale` multiplies the base learning rate."""

    def state(self) -> dict[str, torch.Tensor]: ...
    def load_state(self, state: Mapping[str, torch.Tensor]) -> None: ...


class TorchOptimiser:
    """Any torch.optim optimiser behind our protocol, its state as flat tensors."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        self.inner = inner
        self._base = [group["lr"] for group in inner.param_groups]

    def zero_grad(self) -> None:
        self.inner.zero_grad()

    def step(self, scale: float) -> None:
        for group, base in zip(self.inner.param_groups, self._base, strict=True):
            group["lr"] = base * scale
        self.inner.step()

    def state(self) -> dict[str, torch.Tensor]:
        slots = self.inner.state_dict()["state"]
        return {
            f"{index}.{key}": torch.as_tensor(value)
            for index, slot in slots.items()
            for key, value in slot.items()
            if value is not None
        }

    def load_state(self, state: Mapping[str, torch.Tensor]) -> None:
        whole = self.inner.state_dict()
        whole["state"] = {}
        for name, value in state.items():
            index, _, key = name.partition(".")
            whole["state"].setdefault(int(index), {})[key] = value
        self.inner.load_state_dict(whole)


@dataclass(frozen=True)
class Batch:
    """Rows of one step and the only random source its loss may use."""

    rows: np.ndarray
    rng: np.random.Generator

    def torch_generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(int(self.rng.integers(2**62)))


@dataclass
class TrainingTask:
    """What a method hands over: named parameters, the loss of a batch, an optimiser, a score.

    score  validation score, higher is better; None trains for all epochs
    """

    parameters: Mapping[str, torch.Tensor]
    loss: Callable[[Batch], torch.Tensor]
    optimiser: Optimiser
    score: Callable[[], float] | None = None


@dataclass
class Progress:
    """Where a run stands; goes into checkpoints as JSON.

    over  its last epoch is done, early or not
    """

    epoch: int = 0
    step: int = 0
    seconds: float = 0.0
    best_score: float | None = None
    best_epoch: int = -1
    loss_sum: float = 0.0
    over: bool = False
    history: list[dict[str, float]] = field(default_factory=list)

    @classmethod
    def restored(cls, metadata: Mapping[str, Any]) -> Progress:
        """From a checkpoint; ValueError if a value is not of its kind."""
        at = cls(**metadata)
        counts = (at.epoch, at.step)
        figures = [at.seconds, at.loss_sum, 0.0 if at.best_score is None else at.best_score]
        entries = at.history if isinstance(at.history, list) else [None]
        known = (
            all(type(count) is int and count >= 0 for count in counts)
            and type(at.best_epoch) is int
            and type(at.over) is bool
            and all(isinstance(entry, dict) for entry in entries)
            and all(_is_number(figure) for figure in figures)
            and all(_is_number(figure) for entry in at.history for figure in entry.values())
        )
        if not known:
            raise ValueError("its progress is not that of a run")
        return at


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


class Trainer:
    """Runs a Learner to its best epoch."""

    def __init__(
        self,
        *,
        epochs: int = 10,
        batch_size: int = 256,
        seed: int = 0,
        schedule: Schedule = "constant",
        warmup: float = 0.0,
        patience: int | None = None,
        time_budget: float | None = None,
        callbacks: Sequence[Callback] = (),
        identity: str = "",
    ) -> None:
        """
        schedule     learning rate over the run; `warmup` is the share that rises linearly first
        patience     stop after this many epochs without a better validation score
        time_budget  stop after this many seconds, over all resumed parts
        identity     fingerprint of data and parameters: a checkpoint of another run is refused
        """
        self.epochs, self.batch_size, self.seed = epochs, batch_size, seed
        self.schedule, self.warmup = schedule, warmup
        self.patience, self.time_budget = patience, time_budget
        self.callbacks, self.identity = callbacks, identity
        self.progress = Progress()
        self.loss = math.nan
        self.steps_per_epoch = 0
        self.best: dict[str, torch.Tensor] = {}

    def run(self, learner: TrainingTask, n_rows: int) -> list[dict[str, float]]:
        """Train in place; returns the history, one entry an epoch."""
        self.learner = learner
        self.steps_per_epoch = math.ceil(n_rows / self.batch_size)
        self._tell("on_start")
        self._clock = time.monotonic() - self.progress.seconds
        with _stop_between_batches() as stop:
            while self.progress.epoch < self.epochs and not self._over():
                self._epoch(n_rows, stop)
                self._stop_if_signalled(stop)  # a signal may have come during validation
            if self.best:
                self._restore(self.best)
            self._tell("on_trained")
        self._stop_if_signalled(stop)
        self._tell("on_end")
        return self.progress.history

    def _stop_if_signalled(self, stop: _Stop) -> None:
        if stop.signum is not None:
            self._tell("on_interrupt")
            stop.deliver()

    def _epoch(self, n_rows: int, stop: _Stop) -> None:
        at = self.progress
        order = np.random.default_rng([self.seed, at.epoch]).permutation(n_rows)
        while at.step < self.steps_per_epoch:
            rows = order[at.step * self.batch_size : (at.step + 1) * self.batch_size]
            rng = np.random.default_rng([self.seed, at.epoch, at.step])
            self._step(Batch(rows, rng))
            at.step += 1
            at.seconds = time.monotonic() - self._clock
            self._tell("on_batch")
            self._stop_if_signalled(stop)
            if self._out_of_time():
                break
        self._close_epoch()
        self._tell("on_epoch")

    def _step(self, batch: Batch) -> None:
        self.learner.optimiser.zero_grad()
        loss = self.learner.loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        self.loss = float(loss.detach())
        if not math.isfinite(self.loss):
            at = self.progress
            raise TrainingError(
                f"the loss became {self.loss} in epoch {at.epoch + 1}, batch {at.step + 1}; "
                "lower the learning rate"
            )
        self.learner.optimiser.step(self._rate())
        self.progress.loss_sum += self.loss

    def _close_epoch(self) -> None:
        at = self.progress
        entry = {"epoch": at.epoch + 1, "loss": at.loss_sum / max(1, at.step)}
        if self.learner.score is not None:
            score = entry["score"] = float(self.learner.score())
            if not math.isfinite(score):
                raise TrainingError(f"the validation score became {score}")
            if at.best_score is None or score > at.best_score:
                at.best_score, at.best_epoch = score, at.epoch
                self.best = {k: v.detach().clone() for k, v in self.learner.parameters.items()}
        at.history.append(entry)
        at.epoch, at.step, at.loss_sum = at.epoch + 1, 0, 0.0
        at.seconds = time.monotonic() - self._clock

    def _over(self) -> bool:
        at = self.progress
        waited = at.epoch - 1 - at.best_epoch if at.best_score is not None else 0
        out_of_patience = self.patience is not None and waited >= self.patience
        return at.over or self._out_of_time() or out_of_patience

    def _out_of_time(self) -> bool:
        return self.time_budget is not None and self.progress.seconds >= self.time_budget

    def _rate(self) -> float:
        done = (self.progress.epoch * self.steps_per_epoch + self.progress.step) / max(
            1, self.epochs * self.steps_per_epoch
        )
        if done < self.warmup:
            return (done + 1 / max(1, self.epochs * self.steps_per_epoch)) / self.warmup
        left = (1 - done) / (1 - self.warmup) if self.warmup < 1 else 1.0
        if self.schedule == "linear":
            return left
        if self.schedule == "cosine":
            return 0.5 * (1 + math.cos(math.pi * (1 - left)))
        return 1.0

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """All that a resumed run needs: tensors, and the progress as JSON values."""
        groups = {
            "parameter": self.learner.parameters,
            "optimiser": self.learner.optimiser.state(),
            "best": self.best,
        }
        arrays = {
            f"{group}/{name}": tensor.detach().cpu().numpy()
            for group, tensors in groups.items()
            for name, tensor in tensors.items()
        }
        return arrays, {"identity": self.identity, **asdict(self.progress)}

    def final_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return the state of a run whose last batch is over, as copies that nobody changes.

        A resumed run only takes its weights from it, so that the optimiser is left out.
        """
        arrays, progress = self.state()
        best = {f"parameter/{name}": tensor.cpu().numpy() for name, tensor in self.best.items()}
        rest = {
            name: np.array(array)
            for name, array in arrays.items()
            if name not in best and not name.startswith(("optimiser/", "best/"))
        }
        return rest | best, {**progress, "over": True}

    def load_state(self, arrays: Mapping[str, np.ndarray], progress: Mapping[str, Any]) -> None:
        """Take back what `state` or `final_state` gave."""
        groups: dict[str, dict[str, torch.Tensor]] = {"parameter": {}, "optimiser": {}, "best": {}}
        for key, array in arrays.items():
            group, _, name = key.partition("/")
            groups[group][name] = torch.from_numpy(np.array(array))
        for group in ("parameter", "best"):
            if groups[group] or group == "parameter":
                self._check_fit(groups[group])
        at = Progress.restored({k: v for k, v in progress.items() if k != "identity"})
        self._restore(groups["parameter"])
        if not at.over:
            self.learner.optimiser.load_state(groups["optimiser"])
        self.best, self.progress = groups["best"], at

    def _check_fit(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Refuse tensors of other names, shapes or types: `copy_` would stretch or cast them."""
        wanted = {name: (own.shape, own.dtype) for name, own in self.learner.parameters.items()}
        if {name: (found.shape, found.dtype) for name, found in tensors.items()} != wanted:
            raise ValueError("its arrays are not those of this model")

    def _restore(self, tensors: Mapping[str, torch.Tensor]) -> None:
        with torch.no_grad():
            for name, tensor in tensors.items():
                self.learner.parameters[name].copy_(tensor)

    def _tell(self, event: str) -> None:
        for callback in self.callbacks:
            getattr(callback, event)(self)


class _Stop:
    """Holds back the signals that stop a process until a batch is over.

    signum  of the first signal that came; None: go on
    """

    def __init__(self) -> None:
        self.signum: int | None = None
        self.before: dict[int, Any] = {}
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)  # Windows has no SIGHUP
            # What is ignored stays ignored: nohup does so with SIGHUP.
            if number is not None and signal.getsignal(number) not in (signal.SIG_IGN, None):
                self.before[number] = signal.signal(number, self._hold)

    def _hold(self, signum: int, frame: Any) -> None:
        del frame
        self.signum = signum
        self.release()

    def release(self) -> None:
        """Put back the handlers that were there before."""
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def deliver(self) -> None:
        """Let the signal do what it would have done: as a rule, it raises or ends the process."""
        self.release()
        assert self.signum is not None
        signal.raise_signal(self.signum)
        raise KeyboardInterrupt


@contextmanager
def _stop_between_batches() -> Iterator[_Stop]:
    """SIGINT, SIGTERM and SIGHUP wait for the end of a batch: no checkpoint holds half an update.

    A second one acts at once, without a checkpoint. Signals reach the main thread only.
    """
    if threading.current_thread() is not threading.main_thread():
        yield _NeverStopped()
        return
    stop = _Stop()
    try:
        yield stop
    finally:
        stop.release()


class _NeverStopped(_Stop):
    def __init__(self) -> None:
        self.signum, self.before = None, {}
