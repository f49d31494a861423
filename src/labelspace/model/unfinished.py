"""The checkpoint folder of a training run: held by one process, resumed only when requested."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from labelspace.errors import CheckpointError

try:
    import fcntl
except ImportError:  # Windows has no flock
    fcntl = None  # type: ignore[assignment]

RUN = "run.json"  # names the method of the run; the process that trains holds a lock on it
logger = logging.getLogger(__name__)


@contextmanager
def unfinished_run(folder: Path, method: str, *, resume: bool, restart: bool) -> Iterator[None]:
    """Hold the folder for this process; remove it at the end if it has no checkpoint.

    Parameters
    ----------
    folder : Path
        The checkpoint folder.
    method : str
        Name of the method that is trained.
    resume : bool
        Continue the run whose checkpoint is in the folder.
    restart : bool
        Delete the checkpoint that is in the folder.

    Raises
    ------
    CheckpointError
        If another process holds the folder, or it has a checkpoint of another method, or one that
        neither `resume` nor `restart` accounts for.
    """
    lock = _locked(folder)
    try:
        if restart:
            discard(folder)
        left = has_content(folder)
        if left and not resume:
            raise CheckpointError(
                f"{folder} holds an unfinished run: --resume continues it, --restart deletes it"
            )
        earlier = _method_of(lock)
        if left and earlier not in (None, method):
            raise CheckpointError(
                f"{folder} holds an unfinished run of {earlier}, not of {method}: give "
                f"--method {earlier} to continue it, or --restart to delete it"
            )
        if resume and not left:
            logger.warning("there is no unfinished run in %s: starting from the beginning", folder)
        try:
            os.ftruncate(lock, 0)
            os.lseek(lock, 0, os.SEEK_SET)
            os.write(lock, json.dumps({"method": method}).encode())
        except OSError as error:
            raise _unwritable(folder, error) from None
        yield
    finally:
        if not has_content(folder):
            # Still locked, so that no other process begins in a folder that is being removed.
            shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def discard(folder: Path) -> None:
    """Remove the checkpoint of an unfinished run; the lock stays."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.name != RUN:
            with suppress(OSError):
                entry.unlink()


def has_content(folder: Path) -> bool:
    """Return whether there is a checkpoint; names with a leading dot are incomplete writes."""
    with suppress(OSError):
        return any(e.name != RUN and not e.name.startswith(".") for e in folder.iterdir())
    return False


def _locked(folder: Path) -> int:
    """Return the descriptor of the lock file; the kernel frees the lock when the process ends."""
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
        raise _unwritable(folder, error) from None


def _unwritable(folder: Path, error: OSError) -> CheckpointError:
    return CheckpointError(
        f"{folder} cannot be written, where training keeps its checkpoints: "
        f"{error.strerror or error}"
    )


def _take(lock: int, folder: Path) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise CheckpointError(
            f"another training run of {folder.name.removesuffix('.checkpoint')} is in progress and "
            f"holds {folder}: wait for it, or choose another --out"
        ) from None
    except OSError:
        return  # a file system without locks


def _method_of(lock: int) -> str | None:
    """Return the method that an earlier run wrote into its lock file, if it can be read."""
    try:
        earlier = str(json.loads(os.read(lock, 4096))["method"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return earlier if earlier.isascii() and earlier.replace("-", "").isalnum() else None
