"""Entries of the cache: arrays in a safetensors file with a checksum, deleted at any time."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np

from labelspace._core.arrays import read_arrays, write_arrays
from labelspace._core.files import drafts_in, private_folder, remove_dead
from labelspace._core.sparse import digest

logger = logging.getLogger(__name__)

Arrays = Mapping[str, np.ndarray]
T = TypeVar("T")


def cache_folder() -> Path:
    """$LABELSPACE_CACHE or ~/.cache/labelspace; a temporary folder for a user without a home."""
    chosen = os.environ.get("LABELSPACE_CACHE")
    if chosen:
        return Path(chosen)
    try:
        return Path.home() / ".cache" / "labelspace"
    except RuntimeError:  # no HOME and no entry in the system's list of users
        return private_folder("labelspace-cache")


def write_entry(entry: Path, arrays: Arrays) -> None:
    """Write an entry, and remove what killed processes left in its folder."""
    entry.parent.mkdir(parents=True, exist_ok=True)
    remove_dead(drafts_in(entry.parent, entry.suffix))
    write_arrays(entry, arrays, {"checksum": _checksum(arrays)})


def read_entry(entry: Path, what: str, restore: Callable[[Arrays], T]) -> T | None:
    """Return what `restore` makes of the arrays; None if there is no entry, or a damaged one.

    A damaged one is logged with `what` it is. The arrays are mapped into memory, and nothing is
    unpickled.
    """
    if not entry.exists():
        return None
    try:
        arrays, metadata = read_arrays(entry)
        if metadata["checksum"] == _checksum(arrays):
            return restore(arrays)
    except Exception as error:  # an entry is only a copy: whatever is wrong, it is made again
        logger.debug("%s: %r", entry, error)
    logger.warning("cache entry %s is damaged; %s made again", entry, what)
    return None


def _checksum(arrays: Arrays) -> str:
    described = ((name, arrays[name].dtype.str, arrays[name]) for name in sorted(arrays))
    return digest(*(item for one in described for item in one))
