"""A cache of vectors on disk, so that the same texts are encoded once.

An entry is a safetensors file named after the texts and everything that their vectors depend on. It
has a checksum, by which a damaged one is recognised. Entries may be deleted at any time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from labelspace._core.cache import Arrays, cache_folder, read_entry, write_entry
from labelspace._core.sparse import digest

logger = logging.getLogger(__name__)

ENTRY_VERSION = 2  # raise it when the same settings come to give other vectors
CACHED_FROM = 2048  # texts; a request, or a batch of `predict`, is not worth a file


def cached(texts: Sequence[str], settings: Callable[[], str], make: Callable[[], Arrays]) -> Arrays:
    """Return what `make()` returns, from the cache if it has these texts and settings.

    `settings` returns a fingerprint of what the result depends on beside the texts. The cache is
    the directory `features` in $LABELSPACE_CACHE or ~/.cache/labelspace.
    """
    if len(texts) < CACHED_FROM:
        return make()
    entry = cache_folder() / "features" / f"{digest(ENTRY_VERSION, settings(), *texts)}.safetensors"
    found: Arrays | None = read_entry(entry, "its features are", dict)
    if found is None:
        found = make()
        try:
            write_entry(entry, found)
        except OSError as error:  # a full or read-only disk is no reason to fail
            logger.warning("features are not cached: %s", error)
    return found
