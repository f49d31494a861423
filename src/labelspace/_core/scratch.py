"""Temporary folders that do not outlive their process, or at least not its next run.

Each folder holds a file that its process has locked. The kernel releases the lock when the process
ends, however it ends: a folder whose lock can be taken was left by a killed process.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: nothing is locked and nothing is swept
    fcntl = None  # type: ignore[assignment]

_LOCK = "lock"


@contextmanager
def scratch_folder(kind: str) -> Iterator[Path]:
    """Yield a new temporary folder, and remove it at the end with those of killed processes."""
    prefix = f"labelspace-{kind}-"
    _sweep(prefix)
    folder, lock = _new(prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _new(prefix: str) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix))
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            # Another process may have swept it between these two lines.
            if _taken(lock) and os.fstat(lock).st_nlink:
                return folder, lock
        except OSError:  # a file system without locks
            return folder, lock
        os.close(lock)


def _taken(lock: int) -> bool:
    """Lock an open file; False if another process has it."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sweep(prefix: str) -> None:
    """Remove this user's folders of the same kind whose processes have ended."""
    if fcntl is None:
        return
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(prefix) and _is_ours(entry):
                _remove_if_left(Path(entry.path))


def _is_ours(entry: os.DirEntry[str]) -> bool:
    with suppress(OSError):
        metadata = entry.stat(follow_symlinks=False)
        return entry.is_dir(follow_symlinks=False) and metadata.st_uid == os.getuid()
    return False


def _remove_if_left(folder: Path) -> None:
    with suppress(OSError):
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
        try:
            if _taken(lock):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)
