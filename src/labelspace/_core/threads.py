"""The thread pool: blocks of rows over this machine's cores, for loops that release the GIL.

Threads over nogil kernels rather than numba's own parallel loops: those abort when two Python
threads enter them at once (a server does), and block results here never depend on thread count.
The pool is kept while the number of cores is the same: starting threads takes longer than many a
loop, and an iterator that is left half-way must not wait for its threads (it may be collected while
one is being started).
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

_PRODUCT_ROWS = 512  # of a block of `product`

Item = TypeVar("Item")
Result = TypeVar("Result")

_here = threading.local()  # .working, in a thread of the pool
_made = threading.Lock()  # held while `_pool` or `_single` changes
_pool: ThreadPoolExecutor | None = None
_single = 0  # how many times `single_blas_thread` has been entered and not left


def cores() -> int:
    """Return how many cores this process may use: those it is bound to, or a container's quota."""
    if hasattr(os, "sched_getaffinity"):
        return min(_quota(), len(os.sched_getaffinity(0)))
    return _quota()


@functools.cache
def _quota() -> int:
    from joblib import cpu_count  # type: ignore[import-untyped]  # it respects quotas of containers

    return max(1, int(cpu_count()))


def set_cores(n: int) -> None:
    """Use n cores at most from now on: for a worker process, between its tasks."""
    global _pool
    if os.environ.get("LOKY_MAX_CPU_COUNT") == str(n):
        return
    os.environ["LOKY_MAX_CPU_COUNT"] = str(n)  # joblib.cpu_count reads it
    _quota.cache_clear()
    with _made:
        if _pool is not None:
            _pool.shutdown(wait=False)
        _pool = None


def parallel_blocks(
    n: int, work: Callable[[int, int], None], block: int = 256, least: int | None = None
) -> None:
    """Call work(start, stop) on consecutive blocks that cover range(n).

    What a block raises is raised here, when no block is at work any more. With `least`, few rows
    are shared out among all cores, in blocks of at least so many: for work whose results do not
    depend on the blocks, such as a server's batches.
    """
    if least is not None:
        block = min(block, max(least, -(-n // cores())))
    starts = range(0, n, block)
    if len(starts) <= 1 or _is_serial():
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


def parallel_map(
    work: Callable[[Item], Result], items: Iterable[Item], ahead: int
) -> Iterator[tuple[Item, Callable[[], Result]]]:
    """Yield each item, in order, with a function that returns work(item) or raises what it raised.

    Up to `ahead` further items are taken, and worked on, before an item is yielded.
    """
    if _is_serial():
        for item in items:
            yield item, functools.partial(work, item)
        return
    taken: deque[tuple[Item, Future[Result]]] = deque()
    for item in items:
        taken.append((item, _threads().submit(work, item)))
        if len(taken) > ahead:
            first, future = taken.popleft()
            yield first, future.result
    while taken:
        first, future = taken.popleft()
        yield first, future.result


@functools.lru_cache(maxsize=1)
def _thread_pools(n_modules: int) -> Any:  # noqa: ARG001
    """Return threadpoolctl's view of the libraries, made anew when more modules were imported.

    To look for them takes milliseconds, several times as long as a small update.
    """
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # it has no types

    return ThreadpoolController()


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Run numpy's and scipy's BLAS on one thread, so that sums round alike on every machine size.

    For training: `product` shares large products out among this module's threads instead.
    """
    global _single
    import scipy.linalg  # noqa: F401  # brings a BLAS of its own, which has to be there to be set

    with _thread_pools(len(sys.modules)).limit(limits=1, user_api="blas"):
        with _made:
            _single += 1
        try:
            yield
        finally:
            with _made:
                _single -= 1


def product(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return one @ other; within `single_blas_thread` by blocks of rows, over all cores."""
    if not _single or len(one) <= _PRODUCT_ROWS:
        return np.asarray(one @ other)
    found = np.empty((len(one), other.shape[1]), np.result_type(one, other))

    def block(start: int, stop: int) -> None:
        np.matmul(one[start:stop], other, out=found[start:stop])

    parallel_blocks(len(one), block, block=_PRODUCT_ROWS)
    return found


def _is_serial() -> bool:
    """Return whether the caller does the work: a thread of the pool must not wait for others."""
    return cores() == 1 or getattr(_here, "working", False)


def _threads() -> ThreadPoolExecutor:
    global _pool
    with _made:
        if _pool is None:
            _pool = ThreadPoolExecutor(cores(), "labelspace", _begin)
        return _pool


def _begin() -> None:
    _here.working = True


def _after_fork() -> None:
    """Do without threads of the parent in a forked process, which has none of them.

    The pool is dropped, and a lock that one of them may hold. OpenMP would wait for its threads for
    ever: torch and faiss compute with one thread.
    """
    global _pool, _made
    _pool, _made = None, threading.Lock()
    for name, call in (("torch", "set_num_threads"), ("faiss", "omp_set_num_threads")):
        library = sys.modules.get(name)
        if hasattr(library, call):
            getattr(library, call)(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
