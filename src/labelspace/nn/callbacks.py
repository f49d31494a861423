"""What listens to a training run: progress, checkpoints. Free of torch, so anyone may import it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from labelspace.errors import CheckpointError

if TYPE_CHECKING:
    import numpy as np

    from labelspace.nn.trainer import Trainer


class Callback:
    """Hooks of a run; override what you need. `run` is the Trainer with its public state."""

    def on_start(self, run: Trainer) -> None:
        """Before the first batch."""

    def on_batch(self, run: Trainer) -> None:
        """After each batch."""

    def on_epoch(self, run: Trainer) -> None:
        """After each epoch, its validation score known."""

    def on_interrupt(self, run: Trainer) -> None:
        """The user stopped the run; the state is that after the last whole batch."""

    def on_end(self, run: Trainer) -> None:
        """After the last batch, the best weights in place."""

    def on_work(self, what: str, done: int, total: int) -> None:
        """Work that has no epochs got on; called from any thread."""

    def within(self, part: str) -> Callback | None:
        """What listens in its place to a part of the run, a member of several say; None: nobody."""
        del part
        return None

    def finish(self, identity: str, arrays: Mapping[str, np.ndarray]) -> None:
        """A part of the run is done, and this is its state."""

    def finished(self, identity: str) -> Mapping[str, np.ndarray] | None:
        """The state of a part that an earlier run has finished, if it was kept."""
        del identity
        return None


def listeners(callbacks: Iterable[Callback], part: str) -> list[Callback]:
    """Who listens to a part of the run."""
    return [inner for inner in (callback.within(part) for callback in callbacks) if inner]


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
    """Keeps a run's state in one file, so that a stopped or killed run goes on to the same bits.

    Written every `minutes` and on interrupt, to a temporary sibling that is renamed: a kill at any
    moment leaves the last whole checkpoint.
    """

    def __init__(
        self, directory: str | Path, *, minutes: float = 5.0, resume: bool = False
    ) -> None:
        self.path = Path(directory) / "checkpoint.safetensors"
        self.finished_path = Path(directory) / "finished.safetensors"
        self.minutes = minutes
        self.resume = resume
        self._last = time.monotonic()

    def on_start(self, run: Trainer) -> None:
        self._last = time.monotonic()
        if self.resume and self.path.exists():
            self._load(run)

    def on_batch(self, run: Trainer) -> None:
        if time.monotonic() - self._last >= 60 * self.minutes:
            self.save(run)

    def on_interrupt(self, run: Trainer) -> None:
        self.save(run)

    def within(self, part: str) -> Callback:
        return Checkpoint(self.path.parent / part, minutes=self.minutes, resume=self.resume)

    def finish(self, identity: str, arrays: Mapping[str, np.ndarray]) -> None:
        from labelspace.arrays import write_arrays

        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_arrays(self.finished_path, arrays, {"identity": identity})

    def finished(self, identity: str) -> Mapping[str, np.ndarray] | None:
        from labelspace.arrays import read_arrays

        if not self.resume or not self.finished_path.exists():
            return None
        try:
            arrays, metadata = read_arrays(self.finished_path)
        except (OSError, ValueError) as error:
            raise CheckpointError(
                f"{self.finished_path} is not a readable checkpoint: {error}"
            ) from None
        if metadata.get("identity") != identity:
            raise CheckpointError(_of_another_run(self.finished_path))
        return arrays

    def save(self, run: Trainer) -> None:
        from labelspace.arrays import write_arrays

        arrays, progress = run.state()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_arrays(self.path, arrays, {"run": json.dumps(progress)})
        self._last = time.monotonic()

    def _load(self, run: Trainer) -> None:
        from labelspace.arrays import read_arrays

        try:
            arrays, metadata = read_arrays(self.path)
            progress = json.loads(metadata["run"])
        except (OSError, ValueError, KeyError) as error:
            raise CheckpointError(f"{self.path} is not a readable checkpoint: {error}") from None
        if progress["identity"] != run.identity:
            raise CheckpointError(_of_another_run(self.path))
        run.load_state(arrays, progress)


def _of_another_run(path: Path) -> str:
    return (
        f"{path} belongs to a run with other data or parameters; "
        "give the same ones, or remove it to start anew"
    )
