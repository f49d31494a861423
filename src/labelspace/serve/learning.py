"""Learning from examples that clients send: journalled first, then applied by `update`."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.files import Busy, lock_file
from labelspace.data.dataset import Dataset
from labelspace.errors import LabelspaceError, StoreError
from labelspace.model import store
from labelspace.model.tagger import Tagger, load
from labelspace.serve.journal import Entry, Journal
from labelspace.serve.models import ServedModel
from labelspace.serve.problems import Failure, overloaded

logger = logging.getLogger(__name__)

_AT_ONCE = 1000  # examples of one update
_PENDING = 100_000  # examples that may wait; they are held in memory too
_AGAIN = 5.0  # seconds until a failed update is tried again
_PAUSE = 0.2  # seconds between updates, at least; otherwise as long as the last one took


def journal_of(path: Path) -> Path:
    """Return the journal of a model's directory: a file beside it."""
    place = path.resolve()
    return place.with_name(f"{place.name}.journal.jsonl")


class Learner:
    """Applies the examples of a journal to a model, in a thread of its own.

    The model in the directory is loaded, updated and saved; then it is served, and its examples
    leave the journal. Requests go on with the version before.

    Parameters
    ----------
    served : ServedModel
        The model.

    Raises
    ------
    StoreError
        If the journal is damaged, or another process learns this model.
    """

    def __init__(self, served: ServedModel) -> None:
        self.served = served
        # Two processes would give the same numbers to other examples, and remove each other's.
        self._held = _held_alone(served.path)
        self._release = weakref.finalize(self, self._held.close)
        self.journal = Journal(journal_of(served.path))
        self.error: str | None = None
        self._stopping, self._arrived = threading.Event(), threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"labelspace-learn-{served.name}", daemon=True
        )

    def start(self) -> None:
        """Begin to apply examples; those that a killed process left come first."""
        self._show()
        self._arrived.set()
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Stop after the update at work, or without it: the journal has its examples."""
        self._stopping.set()
        self._arrived.set()
        if self._thread.ident is not None:
            self._thread.join(seconds)
        if not self._thread.is_alive():
            self._release()

    @property
    def is_running(self) -> bool:
        """Return whether an update is still at work after `stop`."""
        return self._thread.is_alive()

    def check(self) -> None:
        """Raise a Failure if this model cannot learn from texts."""
        tagger = self.served.tagger
        if not tagger.method.can_update:
            raise Failure(403, f"the method {tagger.method.name} cannot be updated")
        if tagger.pipeline.text is None or tagger.pipeline.n_numeric:
            raise Failure(403, "the model takes numeric features, and learns from texts alone")

    def accept(self, examples: Sequence[tuple[str, Sequence[str]]]) -> int:
        """Write examples to the journal; return the sequence number of the last one.

        When this returns, they are on the disk.
        """
        if len(self.journal) + len(examples) > _PENDING:
            raise overloaded(f"{len(self.journal)} examples wait to be learned: repeat it later")
        try:
            sequence = self.journal.append(examples)
        except OSError as error:
            raise Failure(503, f"the journal cannot be written: {error.strerror}") from error
        self.served.figures.learned.labels(self.served.name).inc(len(examples))
        self._show()
        self._arrived.set()
        return sequence

    def state(self) -> dict[str, Any]:
        """Return what is shown of it: examples that wait, and why the last update failed."""
        return {"pending": len(self.journal), "error": self.error}

    def apply(self) -> int:
        """Update the model by examples of the journal, save and serve it; return their number."""
        path = self.served.path
        with store.locked(path):
            tagger = load(path, verify=False)
            done = _contained(tagger, self.journal)
            entries = self.journal.after(done, _AT_ONCE)
            if entries:
                tagger.update(_dataset(tagger, entries), keep_threshold=True)
                done = entries[-1].sequence
                tagger.metadata["learned"] = {"journal": self.journal.name, "sequence": done}
                _merge_updates(tagger)
                tagger.save(path)
        if entries or tagger.digest != self.served.tagger.digest:
            self.served.load_again()
        # Only now: the examples are in the saved model, or were when it was loaded.
        self.journal.forget(done)
        self._show()
        return len(entries)

    def _run(self) -> None:
        while True:
            self._arrived.wait()
            self._arrived.clear()
            if self._stopping.is_set():
                return
            start = time.monotonic()
            try:
                while len(self.journal) and not self._stopping.is_set():
                    count = self.apply()
                    logger.info("%s: learned from %d examples", self.served.name, count)
                self.error = None
            except (LabelspaceError, OSError, MemoryError) as error:
                self.error = str(error) or type(error).__name__
                logger.error("%s: the update failed: %s", self.served.name, self.error)
            except Exception as error:
                self.error = type(error).__name__
                logger.exception("%s: the update failed", self.served.name)
            if self.error is not None:
                self._stopping.wait(_AGAIN)
                self._arrived.set()
            else:
                self._stopping.wait(max(_PAUSE, time.monotonic() - start))

    def _show(self) -> None:
        self.served.figures.pending.labels(self.served.name).set(len(self.journal))


def _held_alone(path: Path) -> ExitStack:
    """Lock the journal of a model for this process, until the stack is closed."""
    journal, held = journal_of(path), ExitStack()
    try:
        held.enter_context(lock_file(journal.with_name(f".{journal.name}.lock"), wait=False))
    except Busy as other:
        process = f"process {other.pid}" if other.pid else "another process"
        raise StoreError(
            f"{path}: {process} learns this model, and only one can: serve it without "
            "--allow-learn, or stop the other server"
        ) from None
    except OSError as error:
        raise StoreError(f"{journal} cannot be written: {error.strerror or error}") from error
    return held


def _contained(tagger: Tagger, journal: Journal) -> int:
    """Return the last sequence number of this journal that a saved model contains."""
    learned = tagger.metadata.get("learned")
    if not isinstance(learned, dict) or learned.get("journal") != journal.name:
        return 0
    sequence = learned.get("sequence")
    return sequence if isinstance(sequence, int) else 0


def _dataset(tagger: Tagger, entries: Sequence[Entry]) -> Dataset:
    """Return examples with the model's labels first, and new ones after them."""
    numbers = {name: number for number, name in enumerate(tagger.label_names)}
    rows, columns = [], []
    for row, entry in enumerate(entries):
        for label in dict.fromkeys(entry.labels):
            rows.append(row)
            columns.append(numbers.setdefault(label, len(numbers)))
    ones = np.ones(len(rows), np.float32)
    labels = csr_matrix((ones, (rows, columns)), shape=(len(entries), len(numbers)))
    labels.sort_indices()
    return Dataset(labels, texts=[entry.text for entry in entries], label_names=tuple(numbers))


def _merge_updates(tagger: Tagger) -> None:
    """Join the record of this update with that of the one before, if this one was served too.

    Otherwise `model.json` would grow with every update.
    """
    *before, last = tagger.metadata["updates"]
    last = {**last, "served": 1}
    if before and isinstance(before[-1], dict) and "served" in before[-1]:
        last = {name: before[-1].get(name, 0) + value for name, value in last.items()}
        before = before[:-1]
    tagger.metadata["updates"] = [*before, last]
