"""What listens to a training run: progress, checkpoints. Free of torch, so anyone may import it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

from labelspace.errors import CheckpointError

if TYPE_CHECKING:
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


class Checkpoint(Callback):
    """Keeps a run's state in one file, so that a stopped or killed run goes on to the same bits.

    Written every `minutes` and on interrupt, to a temporary sibling that is renamed: a kill at any
    moment leaves the last whole checkpoint.
    """

    def __init__(
        self, directory: str | Path, *, minutes: float = 5.0, resume: bool = False
    ) -> None:
        self.path = Path(directory) / "checkpoint.safetensors"
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
            raise CheckpointError(
                f"{self.path} belongs to a run with other data or parameters; "
                "give the same ones, or remove it to start anew"
            )
        run.load_state(arrays, progress)
