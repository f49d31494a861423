"""Rows in blocks over this machine's cores, for compiled loops that release the GIL.

Threads over nogil kernels rather than numba's own parallel loops: those abort when two Python
threads enter them at once (a server does), and block results here never depend on thread count.
The threads stay: to start them takes longer than many a loop.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager

import numpy as np

_PRODUCT_ROWS = 512  # of a block of `product`

_here = threading.local()  # .working, in a thread of the pool
_made = threading.Lock()
_pool: ThreadPoolExecutor | None = None
_single = 0  # how many times `single_blas_thread` has been entered and not left


def cores() -> int:
    """Cores this process may use: those it is bound to, or fewer by a container's quota."""
    if hasattr(os, "sched_getaffinity"):
        return min(_quota(), len(os.sched_getaffinity(0)))
    return _quota()


@functools.cache
def _quota() -> int:
    from joblib import cpu_count  # type: ignore[import-untyped]  # it knows containers' quotas

    return max(1, int(cpu_count()))


def parallel_blocks(n: int, work: Callable[[int, int], None], block: int = 256) -> None:
    """Call work(start, stop) on consecutive blocks that cover range(n).

    What a block raises is raised here, when no block is at work any more.
    """
    starts = range(0, n, block)
    # A thread of the pool that waited for others of it might wait for ever.
    if len(starts) <= 1 or cores() == 1 or getattr(_here, "working", False):
        for start in starts:
            work(start, min(start + block, n))
        return
    pool = _threads()
    futures = [pool.submit(work, start, min(start + block, n)) for start in starts]
    try:
        for future in futures:
            future.result()
    except BaseException:
        for future in futures:
            future.cancel()
        wait(futures)
        raise


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Run numpy's and scipy's BLAS on one thread, so that sums round alike on every machine size.

    For training: `product` shares large products out among this module's threads instead.
    """
    global _single
    import scipy.linalg  # noqa: F401  # brings a BLAS of its own, which has to be there to be set
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # it has no types

    with threadpool_limits(limits=1, user_api="blas"):
        with _made:
            _single += 1
        try:
            yield
        finally:
            with _made:
                _single -= 1


def product(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """one @ other, quickly also within `single_blas_thread`, and there by fixed blocks of rows."""
    if not _single or len(one) <= _PRODUCT_ROWS:
        return np.asarray(one @ other)
    found = np.empty((len(one), other.shape[1]), np.result_type(one, other))

    def block(start: int, stop: int) -> None:
        np.matmul(one[start:stop], other, out=found[start:stop])

    parallel_blocks(len(one), block, block=_PRODUCT_ROWS)
    return found


def _threads() -> ThreadPoolExecutor:
    global _pool
    with _made:
        if _pool is None:
            _pool = ThreadPoolExecutor(cores(), "labelspace", _begin)
        return _pool


def _begin() -> None:
    _here.working = True


def _forget() -> None:
    """A forked process has none of its parent's threads, and maybe a lock that one of them held."""
    global _pool, _made
    _pool, _made = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
