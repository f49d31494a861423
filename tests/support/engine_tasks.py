"""Tasks for tests of the engine: workers import them from here."""

from __future__ import annotations

import os
import signal
import time

import numpy as np


class OddError(Exception):
    """Cannot be made anew from its arguments."""

    def __init__(self, *, number):
        super().__init__(f"odd {number}")


def double(item):
    return 2 * item


def process(item):  # noqa: ARG001
    time.sleep(0.05)
    return os.getpid()


def fail_at_three(item):
    if item == 3:
        raise ValueError("three is not wanted")
    return item


def fail_oddly(item):
    raise OddError(number=item)


def die(item):
    os._exit(item)


def print_and_return(item):
    print("a word", item)
    os.write(1, b"another\n")
    return item


def sums(item, *, table, X, names):
    return {
        "table": float(table[item].sum()),
        "X": float(X[item].sum()),
        "name": names[item],
        "locked": not (table.flags.writeable or X.data.flags.writeable),
        "mapped": _on_a_map(table) and _on_a_map(X.data),
    }


def _on_a_map(array):
    while array is not None and not isinstance(array, np.memmap):
        array = getattr(array, "base", None)
    return array is not None


def sleep(item, *, folder, table):  # noqa: ARG001
    (folder / f"{os.getpid()}").touch()
    time.sleep(60)
    return item


def sleep_with_the_lock(item, *, folder, table):  # noqa: ARG001
    """Sleep as compiled code does that never lets another thread of Python run."""
    import ctypes

    (folder / f"{os.getpid()}").touch()
    ctypes.PyDLL(None).sleep(600)
    return item


def nested(item):
    from labelspace.engine import LocalEngine

    return LocalEngine(4).map(process, [item] * 2)


def n_cores(item):  # noqa: ARG001
    from labelspace._core.threads import cores

    return cores()


def threads(item):
    from threadpoolctl import threadpool_info

    counts = {pool["num_threads"] for pool in threadpool_info()}
    return n_cores(item), max(counts)


def ones(size):
    return np.ones(size)


def in_shared_memory(item, *, table):  # noqa: ARG001
    """Return whether the array's bytes are in a file that other processes map."""
    place = table.__array_interface__["data"][0]
    with open("/proc/self/maps") as maps:
        for line in maps:
            start, end = (int(part, 16) for part in line.split(" ", 1)[0].split("-"))
            if start <= place < end:
                return line.split()[1].endswith("s")
    return False


def killed_at_first(item, *, folder):
    mark = folder / f"{item}"
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * item


def slow_sum(item, *, folder, table):
    import ray

    node = ray.get_runtime_context().get_node_id()
    (folder / f"{node} {item}").touch()
    time.sleep(0.5)
    return float(table.sum()) + item


def touch_slowly(item, *, folder):
    (folder / f"{item}").touch()
    time.sleep(0.2)
    return item
