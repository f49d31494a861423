"""The cache on disk: arrays in safetensors files with a checksum, within a limit of bytes.

An entry is named after all that it depends on, so it is never out of date. It is memory-mapped when
it is read, and nothing is unpickled. Any process may remove an entry at any time: on POSIX those
that have it mapped keep it, and others make it again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from labelspace._core.arrays import read_arrays, write_arrays
from labelspace._core.files import drafts_in, private_folder, remove_dead
from labelspace._core.sparse import digest
from labelspace.errors import ParameterError

logger = logging.getLogger(__name__)

FOLDER_VARIABLE, LIMIT_VARIABLE = "LABELSPACE_CACHE", "LABELSPACE_CACHE_BYTES"
DEFAULT_LIMIT = 10_000_000_000  # bytes; the vectors of a few million texts
FEATURES = "features"  # the folder of vectors of texts; parsed files lie beside it

_ENDING = ".safetensors"
_ENTRY = re.compile(rf"[0-9a-f]{{32}}{re.escape(_ENDING)}")  # nothing else is ever removed

Arrays = Mapping[str, np.ndarray]
T = TypeVar("T")


class Entry(NamedTuple):
    """One file of the cache: its size in bytes and when it was last used, in nanoseconds."""

    path: Path
    size: int
    used: int


def cache_folder() -> Path:
    """Return $LABELSPACE_CACHE or ~/.cache/labelspace; for a user without a home, a private one."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    if chosen:
        return Path(chosen)
    try:
        return Path.home() / ".cache" / "labelspace"
    except RuntimeError:  # no HOME and no entry in the system's list of users
        return private_folder("labelspace-cache")


def cache_limit() -> int:
    """Return how many bytes the cache may take: $LABELSPACE_CACHE_BYTES or 10 GB; 0 is no cache."""
    given = os.environ.get(LIMIT_VARIABLE, "").strip()
    if not given:
        return DEFAULT_LIMIT
    if not (given.isascii() and given.isdigit()):
        raise ParameterError(
            f"{LIMIT_VARIABLE}={given!r}: expected a whole number of bytes, such as "
            f"{DEFAULT_LIMIT}; 0 turns the cache off"
        )
    return int(given)


def cached(
    root: Path,
    name: str,
    what: str,
    *,
    make: Callable[[], T],
    pack: Callable[[T], Arrays | None],
    restore: Callable[[Arrays], T],
) -> T:
    """Return the cached result of `make`, or make it and write it to the cache.

    Parameters
    ----------
    root : Path
        The cache's folder.
    name : str
        32 hexadecimal digits, made of all that the result depends on; in a folder `FEATURES` if
        `features/` comes before them.
    what : str
        The subject of the warning about an entry that cannot be written or is damaged.
    make, pack, restore : callable
        The result; its arrays, or None if it cannot be cached; the result from its arrays.
    """
    if cache_limit() == 0:
        return make()
    entry = root / f"{name}{_ENDING}"
    found = read_entry(entry, what, restore)
    if found is not None:
        return found
    made = make()
    arrays = pack(made)
    if arrays is not None:
        try:
            write_entry(entry, arrays, root)
        except OSError as error:  # a full or read-only disk is no reason to fail
            logger.warning("%s is not cached: %s", what, error)
    return made


def write_entry(entry: Path, arrays: Arrays, root: Path) -> None:
    """Write an entry, after removing the least recently used ones if the limit requires it."""
    size = sum(array.nbytes for array in arrays.values())
    limit = cache_limit()
    if size > limit:
        logger.debug("%s: %d bytes are more than the limit of the cache", entry, size)
        return
    entry.parent.mkdir(parents=True, exist_ok=True)
    trim(root, limit - size)
    write_arrays(entry, arrays, {"checksum": _checksum(arrays)})


def read_entry(entry: Path, what: str, restore: Callable[[Arrays], T]) -> T | None:
    """Return what `restore` makes of an entry's arrays; None if it is absent or damaged.

    A damaged entry is logged as a warning about `what`.
    """
    try:
        arrays, metadata = read_arrays(entry)
        if metadata["checksum"] == _checksum(arrays):
            found = restore(arrays)
            _mark_used(entry)
            return found
    except (FileNotFoundError, NotADirectoryError):
        return None
    except Exception as error:  # an entry is only a copy: whatever is wrong, it is made again
        logger.debug("%s: %r", entry, error)
    logger.warning("cache entry %s is damaged; %s is made again", entry, what)
    return None


def entries(root: Path) -> list[Entry]:
    """Return the entries of a cache, the least recently used first."""
    found = []
    for folder in (root, root / FEATURES):
        with contextlib.suppress(OSError), os.scandir(folder) as files:
            for file in files:
                # Another process may remove it between the two calls.
                with contextlib.suppress(OSError):
                    if _ENTRY.fullmatch(file.name) and file.is_file(follow_symlinks=False):
                        status = file.stat(follow_symlinks=False)
                        used = max(status.st_atime_ns, status.st_mtime_ns)
                        found.append(Entry(Path(file.path), status.st_size, used))
    return sorted(found, key=lambda entry: (entry.used, entry.path))


def trim(root: Path, limit: int) -> list[Entry]:
    """Remove the least recently used entries until the rest take at most `limit` bytes.

    Files that killed processes left unfinished are removed too. Processes that trim at the same
    time remove the same entries, since each counts what another has just removed. Returns what is
    gone.
    """
    for folder in (root, root / FEATURES):
        remove_dead(drafts_in(folder, _ENDING))
    found = entries(root)
    total = sum(entry.size for entry in found)
    gone = []
    for entry in found:
        if total <= limit:
            break
        with contextlib.suppress(OSError):  # mapped by a process on Windows, or another user's
            entry.path.unlink(missing_ok=True)
            total -= entry.size
            gone.append(entry)
    return gone


def _mark_used(entry: Path) -> None:
    """Set the time of access, which many file systems do not keep up to date themselves."""
    with contextlib.suppress(OSError):
        os.utime(entry, ns=(time.time_ns(), entry.stat().st_mtime_ns))


def _checksum(arrays: Arrays) -> str:
    described = ((name, arrays[name].dtype.str, arrays[name]) for name in sorted(arrays))
    return digest(*(item for one in described for item in one))
