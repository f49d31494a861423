"""Vectors that took long to make, cached, so that the same texts are encoded once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from labelspace._core.cache import FEATURES, Arrays, cache_folder, cached
from labelspace._core.sparse import digest

ENTRY_VERSION = 3  # raise it when the same settings come to give other vectors
CACHED_FROM = 2048  # texts; a request, or a batch of `predict`, is not worth a file


def cached_vectors(
    texts: Sequence[str], settings: Callable[[], str], make: Callable[[], Arrays]
) -> Arrays:
    """Return `make()`, from the cache where it was made of these texts and settings before.

    `settings` returns a fingerprint of what the result depends on beside the texts.
    """
    if len(texts) < CACHED_FROM:
        return make()
    return cached(
        cache_folder(),
        f"{FEATURES}/{digest(ENTRY_VERSION, settings(), *texts)}",
        "an array of features",
        make=make,
        pack=lambda arrays: arrays,
        restore=dict,
    )
