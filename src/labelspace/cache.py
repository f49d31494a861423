"""Entries of the cache: arrays in a safetensors file with a checksum, deleted at any time."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from labelspace.arrays import read_arrays, write_arrays
from labelspace.sparse import digest

logger = logging.getLogger(__name__)

Arrays = Mapping[str, np.ndarray]


def cache_folder() -> Path:
    """$LABELSPACE_CACHE or ~/.cache/labelspace."""
    return Path(os.environ.get("LABELSPACE_CACHE") or Path.home() / ".cache" / "labelspace")


def write_entry(entry: Path, arrays: Arrays) -> None:
    entry.parent.mkdir(parents=True, exist_ok=True)
    write_arrays(entry, arrays, {"checksum": _checksum(arrays)})


def read_entry(entry: Path, what: str) -> Arrays | None:
    """The arrays; None if there is no entry, or a damaged one, which is logged with `what` it is.

    The arrays are mapped into memory, and nothing is unpickled.
    """
    if not entry.exists():
        return None
    try:
        arrays, metadata = read_arrays(entry)
        if metadata["checksum"] == _checksum(arrays):
            return arrays
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    logger.warning("cache entry %s is damaged; %s made again", entry, what)
    return None


def _checksum(arrays: Arrays) -> str:
    return digest(*(arrays[name] for name in sorted(arrays)))
