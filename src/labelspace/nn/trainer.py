"""The training loop of all methods: epochs, batches, shuffling, early stopping, resuming.

A method passes parameters, an optimiser and the loss of a batch. Every random choice of a batch
derives from (seed, epoch, step) alone, so that a resumed run needs no generator state.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
import torch

from labelspace.errors import TrainingError
from labelspace.nn import exchange
from labelspace.nn.optimisers import Optimiser
from labelspace.runs.callbacks import Callback

Schedule = Literal["constant", "linear"]


@dataclass(frozen=True)
class Batch:
    """The rows of one step, and the only random source that its loss may use.

    Parameters
    ----------
    rows : ndarray of int
        Numbers of the training examples.
    rng : numpy.random.Generator
        Derived from (seed, epoch, step).
    """

    rows: np.ndarray
    rng: np.random.Generator


@dataclass
class TrainingTask:
    """The parameters and the loss that a Trainer minimises.

    Parameters
    ----------
    parameters : mapping of name to Tensor
        All that is trained: it goes into checkpoints, and the best epoch's values are restored.
    loss : callable
        Takes a Batch; returns a scalar Tensor on which `backward` is called.
    optimiser : Optimiser
        Updates the parameters by their gradients.
    score : callable, optional
        Returns the validation score, higher is better; called after every epoch. Without it, all
        epochs are run.

    Examples
    --------
    Fit the mean of four numbers:

    >>> import numpy as np, torch
    >>> from labelspace.nn.optimisers import TorchOptimiser
    >>> data, mean = torch.tensor([1.0, 2.0, 3.0, 6.0]), torch.zeros(1, requires_grad=True)
    >>> def loss(batch):
    ...     return (data[torch.from_numpy(batch.rows)] - mean).square().mean()
    >>> optimiser = TorchOptimiser(torch.optim.SGD([mean], lr=0.1))
    >>> task = TrainingTask({"mean": mean}, loss, optimiser)
    >>> history = Trainer(epochs=50, batch_size=4).run(task, n_rows=4)
    >>> round(mean.item(), 2)
    3.0
    """

    parameters: Mapping[str, torch.Tensor]
    loss: Callable[[Batch], torch.Tensor]
    optimiser: Optimiser
    score: Callable[[], float] | None = None


@dataclass
class Progress:
    """The progress of a run, which is part of checkpoints as JSON.

    Attributes
    ----------
    epoch, step : int
        Epochs that are over, and batches of the current one.
    seconds : float
        Time spent, over all parts of a resumed run.
    best_score : float or None
    best_epoch : int
        Number of the epoch with the best score, from 0; -1 before the first score.
    loss_sum : float
        Sum of the losses of the current epoch's batches.
    over : bool
        Whether the last epoch is done, early or not.
    history : list of dict
        One entry per epoch, with `epoch`, `loss` and, if there is one, `score`.
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
        """Return the progress of a checkpoint.

        Raises
        ------
        ValueError
            If a value is not of its type.
        """
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
    """Runs the epochs of a TrainingTask and leaves it with the parameters of its best epoch.

    Parameters
    ----------
    epochs : int
    batch_size : int
    seed : int
        The same seed gives the same batches, and the same random numbers in each.
    schedule : {"constant", "linear"}
        Learning rate over the run: as it is, or falling to 0.
    warmup : float
        Share of the run in which the learning rate first rises from 0.
    patience : int, optional
        Stop after this many epochs without a better validation score.
    validate_from : float
        Share of the epochs before the first validation score; the last epoch always has one.
    callbacks : sequence of Callback
        Called at the start, after batches and epochs, and at the end.
    identity : str
        Fingerprint of data and parameters: a checkpoint with another one is refused.

    Attributes
    ----------
    task : TrainingTask
        The task of the current or last run.
    progress : Progress
    loss : float
        Loss of the last batch.
    best : dict of Tensor
        Parameters of the epoch with the best validation score.

    Examples
    --------
    >>> import torch
    >>> from labelspace.nn.optimisers import TorchOptimiser
    >>> w = torch.tensor([4.0], requires_grad=True)
    >>> optimiser = TorchOptimiser(torch.optim.SGD([w], lr=0.25))
    >>> task = TrainingTask({"w": w}, lambda batch: w.square().sum(), optimiser)
    >>> trainer = Trainer(epochs=3, batch_size=10)
    >>> [entry["loss"] for entry in trainer.run(task, n_rows=10)]
    [16.0, 4.0, 1.0]
    >>> w.item()
    0.5
    """

    def __init__(
        self,
        *,
        epochs: int = 10,
        batch_size: int = 256,
        seed: int = 0,
        schedule: Schedule = "constant",
        warmup: float = 0.0,
        patience: int | None = None,
        validate_from: float = 0.0,
        callbacks: Sequence[Callback] = (),
        identity: str = "",
    ) -> None:
        self.epochs, self.batch_size, self.seed = epochs, batch_size, seed
        self.schedule, self.warmup, self.patience = schedule, warmup, patience
        self.validate_from = validate_from
        self.callbacks, self.identity = callbacks, identity
        self.progress = Progress()
        self.loss = math.nan
        self.steps_per_epoch = 0
        self.best: dict[str, torch.Tensor] = {}

    def run(self, task: TrainingTask, n_rows: int) -> list[dict[str, float]]:
        """Train the parameters of the task in place.

        Parameters
        ----------
        task : TrainingTask
        n_rows : int
            Number of training examples; batches are drawn from range(n_rows).

        Returns
        -------
        list of dict
            One entry per epoch, with `epoch`, `loss` and, if there is one, `score`.

        Raises
        ------
        TrainingError
            If the loss or the validation score is not finite.
        """
        self.task, self._exchange = task, exchange.current()
        self.steps_per_epoch = math.ceil(n_rows / self.batch_size)
        self._notify("on_start")
        self._clock = time.monotonic() - self.progress.seconds
        with _stop_between_batches() as stop:
            while self.progress.epoch < self.epochs and not self._over():
                self._epoch(n_rows, stop)
                self._stop_if_signalled(stop)  # a signal may have come during validation
            if self.best:
                self._restore(self.best)
            self._notify("on_trained")
        self._stop_if_signalled(stop)
        self._notify("on_end")
        return self.progress.history

    def _stop_if_signalled(self, stop: _Stop) -> None:
        if stop.signum is not None:
            self._notify("on_interrupt")
            stop.deliver()

    def _epoch(self, n_rows: int, stop: _Stop) -> None:
        at = self.progress
        order = np.random.default_rng([self.seed, at.epoch]).permutation(n_rows)
        while at.step < self.steps_per_epoch:
            rows = order[at.step * self.batch_size : (at.step + 1) * self.batch_size]
            rng = np.random.default_rng([self.seed, at.epoch, at.step])
            self._step(Batch(rows, rng))
            at.step += 1
            # Agreed, as callbacks of all workers may decide by it when to write a checkpoint.
            at.seconds = self._exchange.agreed(time.monotonic() - self._clock)
            self._notify("on_batch")
            self._stop_if_signalled(stop)
        self._close_epoch()
        self._notify("on_epoch")

    def _step(self, batch: Batch) -> None:
        self.task.optimiser.zero_grad()
        loss = self.task.loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        self.loss = self._exchange.total(float(loss.detach()))
        if not math.isfinite(self.loss):
            at = self.progress
            raise TrainingError(
                f"the loss became {self.loss} in epoch {at.epoch + 1}, batch {at.step + 1}; "
                "lower the learning rate"
            )
        self.task.optimiser.step(self._rate())
        self.progress.loss_sum += self.loss

    def _close_epoch(self) -> None:
        at = self.progress
        entry = {"epoch": at.epoch + 1, "loss": at.loss_sum / max(1, at.step)}
        if self.task.score is not None and at.epoch >= int(self.validate_from * self.epochs):
            own = float(self.task.score()) if self._exchange.leads else 0.0
            score = entry["score"] = self._exchange.agreed(own)
            if not math.isfinite(score):
                raise TrainingError(f"the validation score became {score}")
            if at.best_score is None or score > at.best_score:
                at.best_score, at.best_epoch = score, at.epoch
                self.best = {k: v.detach().clone() for k, v in self.task.parameters.items()}
        at.history.append(entry)
        at.epoch, at.step, at.loss_sum = at.epoch + 1, 0, 0.0
        at.seconds = self._exchange.agreed(time.monotonic() - self._clock)

    def _over(self) -> bool:
        at = self.progress
        waited = at.epoch - 1 - at.best_epoch if at.best_score is not None else 0
        out_of_patience = self.patience is not None and waited >= self.patience
        return at.over or out_of_patience

    def _rate(self) -> float:
        done = (self.progress.epoch * self.steps_per_epoch + self.progress.step) / max(
            1, self.epochs * self.steps_per_epoch
        )
        if done < self.warmup:
            return (done + 1 / max(1, self.epochs * self.steps_per_epoch)) / self.warmup
        left = (1 - done) / (1 - self.warmup) if self.warmup < 1 else 1.0
        return left if self.schedule == "linear" else 1.0

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return what a resumed run needs: arrays by name, and the progress as JSON values."""
        groups = {
            "parameter": self.task.parameters,
            "optimiser": self.task.optimiser.state(),
            "best": self.best,
        }
        arrays = {
            f"{group}/{name}": tensor.detach().cpu().numpy()
            for group, tensors in groups.items()
            for name, tensor in tensors.items()
        }
        return arrays, {"identity": self.identity, **asdict(self.progress)}

    def final_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return copies of the state of a run whose last batch is over, without the optimiser."""
        arrays, progress = self.state()
        best = {f"parameter/{name}": tensor.cpu().numpy() for name, tensor in self.best.items()}
        rest = {
            name: np.array(array)
            for name, array in arrays.items()
            if name not in best and not name.startswith(("optimiser/", "best/"))
        }
        return rest | best, {**progress, "over": True}

    def load_state(self, arrays: Mapping[str, np.ndarray], progress: Mapping[str, Any]) -> None:
        """Restore what `state` or `final_state` returned.

        Raises
        ------
        ValueError
            If the arrays or the progress are not those of this run.
        """
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
            self.task.optimiser.load_state(groups["optimiser"])
        self.best, self.progress = groups["best"], at

    def _check_fit(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Raise ValueError for other names, shapes or types: `copy_` would broadcast or cast."""
        wanted = {name: (own.shape, own.dtype) for name, own in self.task.parameters.items()}
        if {name: (found.shape, found.dtype) for name, found in tensors.items()} != wanted:
            raise ValueError("its arrays are not those of this model")

    def _restore(self, tensors: Mapping[str, torch.Tensor]) -> None:
        with torch.no_grad():
            for name, tensor in tensors.items():
                self.task.parameters[name].copy_(tensor)

    def _notify(self, event: str) -> None:
        for callback in self.callbacks:
            getattr(callback, event)(self)


class _Stop:
    """Holds back the signals that stop a process until a batch is over.

    `signum` is the number of the first signal that came, None before.
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
        """Raise the signal anew under its former handler, which as a rule ends the process."""
        self.release()
        assert self.signum is not None
        signal.raise_signal(self.signum)
        raise KeyboardInterrupt


@contextmanager
def _stop_between_batches() -> Iterator[_Stop]:
    """Delay SIGINT, SIGTERM and SIGHUP to the end of a batch: no checkpoint has half an update.

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
