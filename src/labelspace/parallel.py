"""Rows in blocks over this machine's cores, for compiled loops that release the GIL.

Threads over nogil kernels rather than numba's own parallel loops: those abort when two Python
threads enter them at once (a server does), and block results here never depend on thread count.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


def cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def over_rows(n: int, work: Callable[[int, int], None], block: int = 256) -> None:
    """Call work(start, stop) on consecutive blocks that cover range(n)."""
    starts = range(0, n, block)
    if len(starts) <= 1 or cores() == 1:
        for start in starts:
            work(start, min(start + block, n))
        return
    with ThreadPoolExecutor(cores()) as pool:
        # list() re-raises what a block raised.
        list(pool.map(lambda start: work(start, min(start + block, n)), starts))
