"""Callbacks of a training run, and checkpoints; without torch, so that any module may import it."""

from __future__ import annotations

import logging
import math
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from labelspace.errors import CheckpointError, ParameterError

if TYPE_CHECKING:
    import numpy as np

    from labelspace.runs.checkpoint_files import Blocks

    Arrays = Mapping[str, np.ndarray]

logger = logging.getLogger(__name__)

WORKERS = "workers"  # the folder of checkpoints of a run in other processes
WORTH_WRITING = 10.0  # seconds; a shorter run is not written when its last epoch is over


class Progress(Protocol):
    """The progress of a run."""

    epoch: int
    step: int
    seconds: float
    history: list[dict[str, float]]


class Run(Protocol):
    """A training run as its callbacks see it: `labelspace.nn.trainer.Trainer`."""

    epochs: int
    steps_per_epoch: int
    loss: float
    identity: str

    @property
    def progress(self) -> Progress: ...

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return all that a resumed run needs."""

    def final_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return the same after the last epoch, without what only further epochs need."""

    def load_state(self, arrays: Mapping[str, np.ndarray], progress: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""


class Storage(NamedTuple):
    """Where a run in other processes keeps its checkpoints.

    Attributes
    ----------
    folder : Path
    minutes : float
        Time between checkpoints.
    """

    folder: Path
    minutes: float


class Callback:
    """Hooks of a training run; override those that you need.

    Examples
    --------
    >>> class PrintLoss(Callback):
    ...     def on_epoch(self, run):
    ...         print(run.progress.epoch, run.loss)

    Pass it to `fit`, as in `model.fit(X, Y, callbacks=[PrintLoss()])`.
    """

    def on_start(self, run: Run) -> None:
        """Run before the first batch."""

    def on_batch(self, run: Run) -> None:
        """Run after each batch."""

    def on_epoch(self, run: Run) -> None:
        """Run after each epoch and its validation."""

    def on_interrupt(self, run: Run) -> None:
        """Run when the user stops the run; its state is that after the last whole batch."""

    def on_trained(self, run: Run) -> None:
        """Run after the last batch of a training task, also where others of the run follow."""

    def on_end(self, run: Run) -> None:
        """Run after the last batch, with the best weights restored."""

    def on_work(self, what: str, done: int, total: int) -> None:
        """Run when work without epochs has advanced; called from any thread."""

    def within(self, part: str) -> Callback | None:
        """Return the callback of a part of the run, such as an ensemble member; None for none."""
        del part
        return None

    def blocks(self, name: str, identity: str) -> Blocks | None:
        """Return the store of the blocks of a computation without epochs; None for none."""
        del name, identity
        return None

    def storage(self) -> Storage | None:
        """Return where a run in other processes keeps its checkpoints; None for nowhere."""
        return None

    def finish(self, identity: str, arrays: Arrays) -> None:
        """Run when a part of the run is done, with its state."""

    def finished(self, identity: str) -> Arrays | None:
        """Return the state of a part that an earlier run has finished, if it was stored."""
        del identity
        return None


def listeners(callbacks: Iterable[Callback], part: str) -> list[Callback]:
    """Return the callbacks of a part of the run."""
    return [inner for inner in (callback.within(part) for callback in callbacks) if inner]


def kept_blocks(callbacks: Iterable[Callback], name: str, identity: str) -> Blocks | None:
    """Return the store of the blocks of a computation, if a callback has one."""
    found = (callback.blocks(name, identity) for callback in callbacks)
    return next((blocks for blocks in found if blocks is not None), None)


def progress_reporter(
    callbacks: Iterable[Callback], what: str, total: int
) -> Callable[[int], None]:
    """Return a function that adds to the work done and runs `on_work` of all; for any thread."""
    lock, done = threading.Lock(), 0

    def report(more: int) -> None:
        nonlocal done
        with lock:
            done += more
            for callback in callbacks:
                callback.on_work(what, done, total)

    return report


class Checkpoint(Callback):
    """Write a run's state to a folder, so that a resumed run ends with the same bits.

    A checkpoint is written every `minutes` and on interrupt, and replaces the one before at once: a
    process killed at any moment leaves the last whole one. Call `keep` when a run was interrupted
    outside of its epochs; what was done until then is written.

    Parameters
    ----------
    directory : str or Path
        The folder of the checkpoint.
    minutes : float
        Time between checkpoints; 0 writes one after every batch.
    resume : bool
        Whether to continue from the checkpoint in the folder, if there is one.

    Raises
    ------
    ParameterError
        If `minutes` is negative or not finite.

    Examples
    --------
    >>> Checkpoint("model.checkpoint", minutes=10, resume=True).path.name
    'checkpoint.safetensors'
    """

    def __init__(
        self, directory: str | Path, *, minutes: float = 5.0, resume: bool = False
    ) -> None:
        if not 0 <= minutes < math.inf:
            raise ParameterError(f"checkpoint minutes {minutes}: expected a number of at least 0")
        self.path = Path(directory) / "checkpoint.safetensors"
        self.finished_path = Path(directory) / "finished.safetensors"
        self.minutes = minutes
        self.resume = resume
        self._last = time.monotonic()
        self._trained: tuple[Arrays, dict[str, Any]] | None = None
        self._failed: CheckpointError | None = None
        self._parts: list[Checkpoint] = []
        self._blocks: list[Blocks] = []

    def on_start(self, run: Run) -> None:
        self._last = time.monotonic()
        if self.resume and self.path.exists():
            self._load(run)

    def on_batch(self, run: Run) -> None:
        if time.monotonic() - self._last >= 60 * self.minutes:
            self._try(lambda: self.save(run))

    def on_interrupt(self, run: Run) -> None:
        self._failed = self._try(lambda: self.save(run))

    def on_trained(self, run: Run) -> None:
        arrays, progress = run.final_state()
        self._trained = arrays, progress
        if progress["seconds"] >= WORTH_WRITING:
            self._try(self._write_trained)

    def within(self, part: str) -> Callback:
        inner = Checkpoint(self.path.parent / part, minutes=self.minutes, resume=self.resume)
        self._parts.append(inner)
        return inner

    def blocks(self, name: str, identity: str) -> Blocks:
        from labelspace.runs.checkpoint_files import Blocks

        found = Blocks(self.path.parent, name, identity, self.minutes, self.resume)
        self._blocks.append(found)
        return found

    def storage(self) -> Storage:
        folder = self.path.parent / WORKERS
        if not self.resume:
            shutil.rmtree(folder, ignore_errors=True)
        return Storage(folder, self.minutes)

    def finish(self, identity: str, arrays: Arrays) -> None:
        from labelspace.runs.checkpoint_files import write_checkpoint

        metadata = {"identity": identity}
        if self._try(lambda: write_checkpoint(self.finished_path, arrays, metadata)) is None:
            self._trained, self._blocks, self._parts = None, [], []

    def finished(self, identity: str) -> Arrays | None:
        from labelspace.runs.checkpoint_files import of_another_run, read_checkpoint

        if not self.resume or not self.finished_path.exists():
            return None
        arrays, metadata = read_checkpoint(self.finished_path)
        if metadata.get("identity") != identity:
            raise of_another_run(self.finished_path)
        return arrays

    def keep(self) -> None:
        """Write what is done of an interrupted run; raise CheckpointError if that fails."""
        for part in self._parts:
            part.keep()
        for blocks in self._blocks:
            blocks.flush()
        self._write_trained()
        if self._failed is not None:
            raise self._failed

    def save(self, run: Run) -> None:
        """Write the state of the run after its last whole batch."""
        self._write(*run.state())

    def _write_trained(self) -> None:
        if self._trained is not None:
            self._write(*self._trained)
            self._trained = None

    def _write(self, arrays: Arrays, progress: Mapping[str, Any]) -> None:
        from labelspace.runs.checkpoint_files import write_checkpoint

        self._last = time.monotonic()  # a write that fails is tried again after `minutes`
        write_checkpoint(self.path, arrays, progress)

    def _try(self, write: Callable[[], None]) -> CheckpointError | None:
        """Write, and log a failure: a full disk must not end the training."""
        try:
            write()
        except CheckpointError as error:
            logger.warning("%s; training goes on without it", error)
            return error
        return None

    def _load(self, run: Run) -> None:
        from labelspace.runs.checkpoint_files import of_another_run, read_checkpoint

        arrays, progress = read_checkpoint(self.path)
        if progress.get("identity") != run.identity:
            raise of_another_run(self.path)
        try:
            run.load_state(arrays, progress)
        except (LookupError, TypeError, ValueError, RuntimeError) as error:
            raise CheckpointError(
                f"{self.path} does not fit this run: {error}; remove it to start anew"
            ) from None
