"""Vectors that took long to make, kept as plain arrays, so that the same texts are read once.

An entry is a safetensors file named after the texts and everything that their vectors depend on. It
holds a checksum, so that a damaged one is recognised. Entries may be deleted at any time.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from labelspace.arrays import read_arrays, write_arrays
from labelspace.sparse import digest

logger = logging.getLogger(__name__)

Arrays = Mapping[str, np.ndarray]

ENTRY_VERSION = 1  # raise it when the same settings come to give other vectors
CACHED_FROM = 2048  # texts; a request, or a batch of `predict`, is not worth a file


def kept(texts: Sequence[str], settings: Callable[[], str], make: Callable[[], Arrays]) -> Arrays:
    """What `make()` returns, from the cache where it was made of these texts and settings before.

    `settings` gives a fingerprint of what the result depends on beside the texts. The cache is the
    folder `features` in $LABELSPACE_CACHE or ~/.cache/labelspace.
    """
    if len(texts) < CACHED_FROM:
        return make()
    entry = _folder() / f"{digest(ENTRY_VERSION, settings(), *texts)}.safetensors"
    found = _read(entry)
    if found is None:
        found = make()
        try:
            entry.parent.mkdir(parents=True, exist_ok=True)
            write_arrays(entry, found, {"checksum": _checksum(found)})
        except OSError as error:  # a full or read-only disk is no reason to fail
            logger.warning("features are not cached: %s", error)
    return found


def _read(entry: Path) -> Arrays | None:
    if not entry.exists():
        return None
    try:
        arrays, metadata = read_arrays(entry)
        if metadata["checksum"] == _checksum(arrays):
            return arrays
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    logger.warning("cache entry %s is damaged; its features are made again", entry)
    return None


def _checksum(arrays: Arrays) -> str:
    return digest(*(arrays[name] for name in sorted(arrays)))


def _folder() -> Path:
    home = os.environ.get("LABELSPACE_CACHE") or Path.home() / ".cache" / "labelspace"
    return Path(home) / "features"
