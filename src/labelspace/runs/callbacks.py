"""What listens to a training run: progress, checkpoints. Free of torch, so anyone may import it."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from labelspace.errors import CheckpointError, ParameterError

if TYPE_CHECKING:
    import numpy as np

    from labelspace.runs.checkpoint_files import Blocks

    Arrays = Mapping[str, np.ndarray]

logger = logging.getLogger(__name__)

# A run of so many seconds is written when its last epoch is over; others are held in memory.
WORTH_WRITING = 10.0


class Progress(Protocol):
    """Where a run stands."""

    epoch: int
    step: int
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
        """All that a resumed run needs."""

    def final_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The same after the last epoch, without what only further epochs need."""

    def load_state(self, arrays: Mapping[str, np.ndarray], progress: Mapping[str, Any]) -> None:
        """Take back what `state` gave."""


class Callback:
    """Hooks of a run; override what you need."""

    def on_start(self, run: Run) -> None:
        """Before the first batch."""

    def on_batch(self, run: Run) -> None:
        """After each batch."""

    def on_epoch(self, run: Run) -> None:
        """After each epoch, its validation score known."""

    def on_interrupt(self, run: Run) -> None:
        """The user stopped the run; the state is that after the last whole batch."""

    def on_trained(self, run: Run) -> None:
        """After the last batch of a learner, also where others of the same run follow."""

    def on_end(self, run: Run) -> None:
        """After the last batch, the best weights in place."""

    def on_work(self, what: str, done: int, total: int) -> None:
        """Work that has no epochs got on; called from any thread."""

    def within(self, part: str) -> Callback | None:
        """What listens in its place to a part of the run, a member of several say; None: nobody."""
        del part
        return None

    def blocks(self, name: str, identity: str) -> Blocks | None:
        """Keeps the blocks of a computation that has no epochs; None: they are not kept."""
        del name, identity
        return None

    def finish(self, identity: str, arrays: Arrays) -> None:
        """A part of the run is done, and this is its state."""

    def finished(self, identity: str) -> Arrays | None:
        """The state of a part that an earlier run has finished, if it was kept."""
        del identity
        return None


def listeners(callbacks: Iterable[Callback], part: str) -> list[Callback]:
    """Who listens to a part of the run."""
    return [inner for inner in (callback.within(part) for callback in callbacks) if inner]


def kept_blocks(callbacks: Iterable[Callback], name: str, identity: str) -> Blocks | None:
    """Return what keeps the blocks of a computation, if any of the callbacks does."""
    found = (callback.blocks(name, identity) for callback in callbacks)
    return next((blocks for blocks in found if blocks is not None), None)


def teller(callbacks: Iterable[Callback], what: str, total: int) -> Callable[[int], None]:
    """A function that adds up how much of the work is done, and tells all; for any thread."""
    lock, done = threading.Lock(), 0

    def tell(more: int) -> None:
        nonlocal done
        with lock:
            done += more
            for callback in callbacks:
                callback.on_work(what, done, total)

    return tell


class Checkpoint(Callback):
    """Keeps a run's state in one folder, so that a stopped or killed run goes on to the same bits.

    Written every `minutes` and on interrupt, to a temporary sibling that is renamed: a kill at any
    moment leaves the last whole checkpoint. Call `keep` when a run was interrupted outside of its
    epochs; what was done until then is written.
    """

    def __init__(
        self, directory: str | Path, *, minutes: float = 5.0, resume: bool = False
    ) -> None:
        """
        minutes  between checkpoints; 0 writes one after every batch
        resume   go on from the checkpoint in the folder, if there is one
        """
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
        """Write what is done of an interrupted run; CheckpointError if that cannot be."""
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
        """Write; a disk that fails must not end the training."""
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
