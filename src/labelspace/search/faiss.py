"""Loading of faiss, where it is installed, and the number of threads it runs on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from labelspace.errors import MissingExtraError


def load_faiss() -> Any:
    """Return the module; raise MissingExtraError if it is not installed."""
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError(
            f"approximate search over many labels needs faiss ({error}): "
            "pip install 'labelspace[neural]'"
        ) from None
    return faiss


def has_faiss() -> bool:
    """Return whether faiss can be used."""
    try:
        load_faiss()
    except MissingExtraError:
        return False
    return True


@contextmanager
def faiss_threads(count: int) -> Iterator[None]:
    """Run faiss on `count` threads, then on as many as before."""
    faiss = load_faiss()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(count)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
