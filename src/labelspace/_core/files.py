"""Files that are replaced whole, next to other processes that write to the same place.

A draft is written beside its target under a random name and is locked while it is written. The
kernel releases a lock when its process ends, however it ends: a draft that can be locked was left
by a killed process. Where the system has no `flock`, nothing is locked and nothing is removed.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from labelspace.errors import ParameterError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PathLike = str | os.PathLike[str]

_STREAMS = re.compile(r"/(?:dev|proc/self)/fd/([0-9]+)")
_STANDARD = {"/dev/stdout": 1, "/dev/stderr": 2}


def checked_path(path: Any, what: str = "path") -> Path:
    """Return `path` as a Path; raise ParameterError if it cannot name a file."""
    if not isinstance(path, str | os.PathLike) or isinstance(os.fspath(path), bytes):
        raise ParameterError(f"{what}={path!r}: expected the path of a file or directory")
    if "\0" in os.fspath(path):
        raise ParameterError(f"{what}={os.fspath(path)!r}: a path cannot hold a NUL character")
    return Path(path)


def beside(target: Path, ending: str) -> Path:
    """Return a hidden name next to the target that nothing else has, such as `.m.4f0c….new`."""
    return target.with_name(f".{target.name}.{secrets.token_hex(6)}.{ending}")


def left_beside(target: Path, ending: str) -> list[Path]:
    """Return what is there under names that `beside` gives for this target."""
    name = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{12}}\.{ending}", re.DOTALL)
    return _matching(target.parent, name)


@contextmanager
def replaced(
    path: PathLike, *, durable: bool = False, before: Callable[[], object] | None = None
) -> Iterator[IO[bytes]]:
    """Yield a file to write that takes the place of `path` at the end; failing changes nothing.

    A link is followed. A device, a FIFO and an open stream such as /dev/stdout are written into.
    Drafts that killed processes left for the same path are removed. `durable` waits for the disk.
    `before` is called when all is written and nothing is left to do but to give it its name.
    """
    place = checked_path(path)
    stream = _stream(place)
    if stream is not None:
        with stream as file:
            yield file
        if before is not None:
            before()
        return
    target = Path(os.path.realpath(place))
    remove_dead(left_beside(target, "tmp"))
    file, draft = _new_draft(target)
    try:
        with file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
            if before is not None:
                before()
            if fcntl is not None:  # before the file is closed and so unlocked
                os.replace(draft, target)
        if fcntl is None:  # Windows does not rename an open file
            os.replace(draft, target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    if durable:
        sync(target.parent)


def remove_dead(drafts: list[Path]) -> None:
    """Remove those files that no running process has locked."""
    for draft in drafts if fcntl is not None else []:
        with contextlib.suppress(OSError):
            handle = os.open(draft, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                if _locked(handle) and _is_at(handle, draft):
                    draft.unlink()
            finally:
                os.close(handle)


def drafts_in(folder: Path, ending: str) -> list[Path]:
    """Return the drafts of all files of this ending in a folder."""
    name = re.compile(rf"\..+{re.escape(ending)}\.[0-9a-f]{{12}}\.tmp", re.DOTALL)
    return _matching(folder, name)


class Busy(Exception):
    """Another process or thread holds the lock; `pid` is its process, if known."""

    def __init__(self, pid: int | None) -> None:
        super().__init__(pid)
        self.pid = pid


@contextmanager
def lock_file(path: Path, *, wait: bool) -> Iterator[bool]:
    """Hold a lock by means of this file, which is removed at the end.

    Yields False where the file system has no locks. Without `wait`, a lock that is held raises
    Busy.
    """
    handle = _take(path, wait)
    try:
        yield handle is not None
    finally:
        if handle is not None:
            # Removed while it is locked: a waiting process finds another file there, and retries.
            with contextlib.suppress(OSError):
                path.unlink()
            os.close(handle)


def private_folder(name: str) -> Path:
    """Return a folder of this user among the temporary files that no other user can open."""
    user = str(os.getuid()) if hasattr(os, "getuid") else "user"
    folder = Path(tempfile.gettempdir()) / f"{name}-{user}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    metadata = folder.lstat()
    ours = not hasattr(os, "getuid") or (
        metadata.st_uid == os.getuid() and not metadata.st_mode & 0o077
    )
    if stat.S_ISDIR(metadata.st_mode) and ours:
        return folder
    return Path(tempfile.mkdtemp(prefix=f"{name}-"))  # another user made it


def sync(path: Path) -> None:
    """Make the content of a file or directory durable."""
    if sys.platform == "win32" and path.is_dir():
        return  # Windows opens no directories
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _take(path: Path, wait: bool) -> int | None:
    """Create and lock the file, or return None where that is not possible here."""
    if fcntl is None:
        return None
    while True:
        handle = _open_lock(path)
        try:
            if not _locked(handle, wait=wait):
                raise Busy(_pid_in(handle))
            if _is_at(handle, path):
                with contextlib.suppress(OSError):  # for the message of another process only
                    os.truncate(handle, 0)
                    os.pwrite(handle, str(os.getpid()).encode(), 0)
                return handle
        except Busy:
            os.close(handle)
            raise
        except OSError:  # a file system without locks
            os.close(handle)
            return None
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _open_lock(path: Path) -> int:
    """Open a lock file, creating it if needed; for reading alone if it is another user's."""
    flags = os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(path, flags | os.O_RDWR, 0o666)
    except PermissionError:  # to lock it, reading is enough
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _pid_in(handle: int) -> int | None:
    """Read the process that a lock file names."""
    written = os.pread(handle, 20, 0)
    return int(written) if written.isdigit() else None


def _locked(handle: int, *, wait: bool = False) -> bool:
    """Lock an open file; return False if another process or thread holds the lock."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def _is_at(handle: int, path: Path) -> bool:
    """Return whether the open file is still the one of this name."""
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False


def _new_draft(target: Path) -> tuple[IO[bytes], Path]:
    """Create and lock a draft beside the target."""
    while True:
        draft = beside(target, "tmp")
        file = open(draft, "xb")  # noqa: SIM115  # the caller closes it
        if fcntl is None:
            return file, draft
        try:
            # Another process may have taken it for a dead one before it was locked, and removed it.
            if _locked(file.fileno(), wait=True) and _is_at(file.fileno(), draft):
                return file, draft
        except OSError:  # a file system without locks
            return file, draft
        file.close()


def _stream(place: Path) -> IO[bytes] | None:
    """Open what can be written into but not replaced; None for a regular file or a new one."""
    number = _STREAMS.fullmatch(str(place))
    if number or str(place) in _STANDARD:
        handle = int(number[1]) if number else _STANDARD[str(place)]
        (sys.stdout if handle == 1 else sys.stderr).flush()
        return os.fdopen(os.dup(handle), "wb")
    try:
        mode = os.stat(place).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(21, "this is a directory, expected a file", str(place))
    return None if stat.S_ISREG(mode) else open(place, "wb")


def _matching(folder: Path, name: re.Pattern[str]) -> list[Path]:
    """Return the entries of a folder whose name matches; none if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return sorted(Path(entry.path) for entry in entries if name.fullmatch(entry.name))
    except OSError:
        return []
