"""The folder of an unfinished training: one process at a time, and never picked up by accident."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from labelspace.cli.output import say
from labelspace.errors import CheckpointError

try:
    import fcntl
except ImportError:  # Windows has no flock
    fcntl = None  # type: ignore[assignment]

RUN = "run.json"  # names the method of the run; whoever trains holds a lock on it


@contextmanager
def unfinished_run(folder: Path, method: str, *, resume: bool, restart: bool) -> Iterator[None]:
    """Hold the folder for this process, its content settled; without content it is removed again.

    resume   go on with the run that is in it
    restart  drop the run that is in it
    """
    lock = _locked(folder)
    try:
        if restart:
            discard(folder)
        left = has_content(folder)
        if left and not resume:
            raise CheckpointError(
                f"{folder} holds an unfinished run: --resume goes on with it, --restart drops it"
            )
        earlier = _method_of(lock)
        if left and earlier not in (None, method):
            raise CheckpointError(
                f"{folder} holds an unfinished run of {earlier}, not of {method}: give "
                f"--method {earlier} to go on with it, or --restart to drop it"
            )
        if resume and not left:
            say(f"there is no unfinished run in {folder}: starting from the beginning")
        os.ftruncate(lock, 0)
        os.lseek(lock, 0, os.SEEK_SET)
        os.write(lock, json.dumps({"method": method}).encode())
        yield
    finally:
        if not has_content(folder):
            # The lock is held while its file goes, so that nobody works in a folder that goes.
            shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def discard(folder: Path) -> None:
    """Remove what an unfinished run has left; the lock stays."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.name != RUN:
            with suppress(OSError):
                entry.unlink()


def has_content(folder: Path) -> bool:
    """Whether there is anything to resume; drafts of killed writes have a dot in front."""
    with suppress(OSError):
        return any(e.name != RUN and not e.name.startswith(".") for e in folder.iterdir())
    return False


def _locked(folder: Path) -> int:
    """The descriptor of the lock file; the kernel frees the lock when the process ends."""
    path = folder / RUN
    try:
        while True:
            folder.mkdir(parents=True, exist_ok=True)
            try:
                lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            except FileNotFoundError:  # its owner has just removed the folder
                continue
            try:
                _take(lock, folder)
                if os.path.samestat(os.fstat(lock), os.stat(path)):
                    return lock
            except FileNotFoundError:
                pass
            except BaseException:
                os.close(lock)
                raise
            os.close(lock)  # its owner has removed it since we opened it
    except OSError as error:
        raise CheckpointError(
            f"{folder} cannot be written, where training keeps its checkpoints: "
            f"{error.strerror or error}"
        ) from None


def _take(lock: int, folder: Path) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise CheckpointError(
            f"another training that is to write {folder.name.removesuffix('.checkpoint')} is "
            f"running and holds {folder}: wait for it, or choose another --out"
        ) from None
    except OSError:
        return  # a file system without locks


def _method_of(lock: int) -> str | None:
    """The method that an earlier run has written into its lock file, if it can be read."""
    try:
        earlier = str(json.loads(os.read(lock, 4096))["method"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return earlier if earlier.isascii() and earlier.replace("-", "").isalnum() else None
