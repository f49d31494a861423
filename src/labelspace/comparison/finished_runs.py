"""The finished runs of a comparison, kept in a file so that a stopped comparison can be resumed.

The first line is JSON on what is compared, followed by one line per finished run. A line is on disk
before the next run begins; an incomplete last line is dropped.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labelspace._core.sparse import digest
from labelspace.data.dataset import Dataset
from labelspace.errors import CheckpointError

try:
    import fcntl
except ImportError:  # Windows has no flock
    fcntl = None  # type: ignore[assignment]

_FORMAT = 2
logger = logging.getLogger(__name__)


def data_digest(*datasets: Dataset) -> str:
    """Return a fingerprint of the examples, labels, names, label texts and taxonomies."""
    sha = hashlib.blake2b(digest_size=16)
    for dataset in datasets:
        edges = None if dataset.taxonomy is None else dataset.taxonomy.edges
        sha.update(digest(dataset.labels, dataset.features, edges).encode())
        for texts in (dataset.texts, dataset.label_names):
            sha.update(b"none" if texts is None else len(texts).to_bytes(8, "little"))
            for text in texts or ():
                content = text.encode("utf-8", "surrogatepass")
                sha.update(len(content).to_bytes(8, "little") + content)
        if dataset.label_texts is not None:
            sha.update(json.dumps(dataset.label_texts.to_json()).encode())
    return sha.hexdigest()


def state_file(report: Path | None) -> Path | None:
    """Return the default file for finished runs, beside the report; None if that is no file."""
    if report is None or (report.exists() and not report.is_file()):
        return None
    return report.with_name(report.name + ".state")


def check_state(path: Path, resume: bool) -> None:
    """Raise CheckpointError for an unfinished comparison that is not to be resumed.

    It is quick, to be called before data are read.
    """
    if path.exists() and not resume:
        raise CheckpointError(
            f"{path} holds an unfinished comparison: --resume continues it, --restart deletes it"
        )


@dataclass(frozen=True)
class Words:
    """What errors call the whole, the option for its file, and how to begin anew."""

    whole: str = "comparison"
    option: str = "--state"
    restart: str = "--restart deletes the file"


class FinishedRuns:
    """Figures of runs by name, kind, parameters and seed of the system."""

    def __init__(self, file: int | None = None) -> None:
        self._file = file
        self._known: dict[str, dict[str, Any]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def find(self, run: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the figures of a run, None if it is not finished."""
        return self._known.get(_key(run))

    def restore(self, run: Mapping[str, Any], figures: dict[str, Any]) -> None:
        """Add the figures of a run that the file has."""
        self._known[_key(run)] = figures

    def add(self, run: Mapping[str, Any], figures: dict[str, Any]) -> None:
        """Write the figures of a run to the file; if that fails, log a warning."""
        self.restore(run, figures)
        if self._file is None:
            return
        size = os.fstat(self._file).st_size
        try:
            _append(self._file, {"run": run, "figures": figures})
        except OSError as error:
            logger.warning("a finished run is not kept: %s", error.strerror or error)
            with suppress(OSError):
                os.ftruncate(self._file, size)
                os.lseek(self._file, 0, os.SEEK_END)


@contextmanager
def finished_runs(
    path: Path | None,
    compared: Mapping[str, Any],
    figures: Sequence[str],
    *,
    resume: bool,
    check: Callable[[Mapping[str, Any]], object] = lambda _: None,
    words: Words | None = None,
) -> Iterator[FinishedRuns]:
    """Yield the runs in the file, to which new ones are appended.

    Parameters
    ----------
    path : Path or None
        The file; None keeps nothing.
    compared : mapping
        What must be equal for runs to be comparable, by its name in errors.
    figures : sequence of str
        Names of numbers that each run must have.
    resume : bool
        Use the runs of a file that exists; otherwise it is an error.
    check : callable, optional
        Called with the figures of each run in the file; raises ValueError, LookupError or TypeError
        if what is no number is damaged.
    words : Words, optional
        What errors call the whole; by default a comparison.
    """
    words = words or Words()
    if path is None:
        yield FinishedRuns()
        return
    check_state(path, resume)
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be written: {error.strerror or error}") from None
    runs = None
    try:
        _lock(file, path, words)
        runs = _read(path, file, json.loads(json.dumps(compared)), figures, check, words)
        yield runs
    finally:
        if runs is not None and not len(runs):
            path.unlink(missing_ok=True)  # there is nothing to resume
        os.close(file)


def _lock(file: int, path: Path, words: Words) -> None:
    busy = CheckpointError(
        f"another {words.whole} is in progress and writes {path}: wait for it, or choose another "
        f"{words.option}"
    )
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise busy from None
        except OSError:  # a file system without locks
            return
    if os.fstat(file).st_nlink == 0:  # the other one has just ended
        raise busy


def _read(
    path: Path,
    file: int,
    compared: dict[str, Any],
    figures: Sequence[str],
    check: Callable[[Mapping[str, Any]], object],
    words: Words,
) -> FinishedRuns:
    """Read the complete lines of the file; a new file gets its first line."""
    runs = FinishedRuns(file)
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    os.ftruncate(file, len(whole))
    os.lseek(file, 0, os.SEEK_END)
    if not whole:
        _append(file, {"format": _FORMAT, "compared": compared})
        return runs
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            entry = json.loads(line)
            if number == 1:
                _check_compared(path, entry, compared, words)
            else:
                found = _checked(entry["figures"], figures)
                check(found)
                runs.restore(entry["run"], found)
        except (ValueError, LookupError, TypeError, RecursionError):
            raise CheckpointError(
                f"{path}:{number}: not a line of an unfinished {words.whole}: {words.restart}"
            ) from None
    return runs


def _check_compared(
    path: Path, entry: dict[str, Any], compared: dict[str, Any], words: Words
) -> None:
    if entry["format"] != _FORMAT:
        raise ValueError
    earlier = dict(entry["compared"])
    other = [name for name in compared if earlier.get(name) != compared[name]]
    if other:
        raise CheckpointError(
            f"{path} holds an unfinished {words.whole} with other {' and '.join(other)}: repeat "
            f"that command to continue it; {words.restart}"
        )


def _checked(found: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    for name in names:
        if not isinstance(found[name], int | float) or not math.isfinite(found[name]):
            raise ValueError
    return found


def _key(run: Mapping[str, Any]) -> str:
    return json.dumps(run, sort_keys=True)


def _append(file: int, entry: Mapping[str, Any]) -> None:
    line = json.dumps(entry).encode() + b"\n"
    while line:
        line = line[os.write(file, line) :]
    os.fsync(file)
