"""Independent tasks in the processes of this machine, by joblib and its loky workers.

joblib starts the workers, memory-maps large arrays and removes its temporary files, also those of
a killed process. What is added here: a worker ends with its parent in the midst of a task, an
error names its task, and no worker stays once `map` has returned.
"""

from __future__ import annotations

import os
import pickle
import re
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from labelspace._core.threads import cores
from labelspace.engine.lifetime import end_with_parent
from labelspace.engine.tasks import in_worker, position, read_only, run_task
from labelspace.errors import LabelspaceError, ParameterError

Result = TypeVar("Result")

_MAX_NBYTES = 1 << 20  # larger arrays are memory-mapped, smaller ones are pickled with each task
# joblib has one pool of workers per process, which is shut down at the end of a `map`.
_pool_in_use = threading.Lock()


class LocalEngine:
    """Run independent tasks in worker processes of this machine.

    Parameters
    ----------
    workers : int, optional
        The number of processes; by default as many as this process may use cores. With 1, and
        within a worker process, tasks run one after another in this process.

    Examples
    --------
    >>> from labelspace.engine import LocalEngine
    >>> LocalEngine(workers=1).map(abs, [-1, 2, -3])
    [1, 2, 3]
    """

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise ParameterError(f"workers={workers}: expected an integer of at least 1 or none")
        self.workers = workers

    @property
    def group(self) -> None:
        """Return None: one process trains a model."""
        return

    @property
    def shards(self) -> int:
        """Return 1: work that threads can divide is left to the threads of this process."""
        return 1

    def map(
        self,
        function: Callable[..., Result],
        tasks: Iterable[Any],
        *,
        shared: Mapping[str, Any] | None = None,
        progress: Callable[[int, int], None] | None = None,
        on_result: Callable[[int, Result], None] | None = None,
        alone: bool = False,
    ) -> list[Result]:
        """Return ``[function(task, **shared) for task in tasks]``, in that order.

        A worker has its share of the cores for BLAS, OpenMP and the threads of this package: one
        thread where there are as many workers as cores. A script needs no main guard.

        Parameters
        ----------
        function : callable
            Called as ``function(task, **shared)``.
        tasks : iterable
            Values that can be pickled.
        shared : mapping, optional
            Keyword arguments of every call. Arrays and CSR matrices among them are read-only;
            large ones are memory-mapped and not copied.
        progress : callable, optional
            Called with (tasks done, number of tasks) after each task, in the caller's thread.
        on_result : callable, optional
            Called with (number of the task, result) as soon as a result is there, in any order,
            in the caller's thread: to keep it in case a later task fails.
        alone : bool, default False
            Run the tasks one after another, each with all cores: in this process.

        Returns
        -------
        list
            The results, in the order of the tasks.

        Raises
        ------
        Exception
            The first error of a task, with a note that names the task; the others are ended.
        ParameterError
            If a task or a shared argument cannot be pickled.
        LabelspaceError
            If a worker was killed, as happens where memory runs out.
        """
        work, shared = list(tasks), shared or {}
        report, keep = progress or (lambda *_: None), on_result or (lambda *_: None)
        workers = 1 if alone else min(self.workers or cores(), len(work))
        if workers <= 1 or in_worker():
            return _map_here(function, work, read_only(shared), report, keep)
        with _pool_in_use:
            return _map_in_workers(function, work, shared, report, keep, workers)


def _map_here(
    function: Callable[..., Result],
    tasks: Sequence[Any],
    shared: Mapping[str, Any],
    report: Callable[[int, int], None],
    keep: Callable[[int, Result], None],
) -> list[Result]:
    results: list[Result] = []
    for number, task in enumerate(tasks):
        try:
            results.append(function(task, **shared))
        except Exception as error:
            error.add_note(position(number, len(tasks), task))
            raise
        keep(number, results[-1])
        report(number + 1, len(tasks))
    return results


def _map_in_workers(
    function: Callable[..., Result],
    tasks: Sequence[Any],
    shared: Mapping[str, Any],
    report: Callable[[int, int], None],
    keep: Callable[[int, Result], None],
    workers: int,
) -> list[Result]:
    from joblib import Parallel, delayed, parallel_config  # type: ignore[import-untyped]
    from joblib.externals.loky import get_reusable_executor  # type: ignore[import-untyped]

    results: dict[int, Result] = {}
    calls = (
        delayed(run_task)(function, number, len(tasks), task, shared)
        for number, task in enumerate(tasks)
    )
    begin = {"initializer": _start, "initargs": (os.getpid(), max(1, cores() // workers))}
    with parallel_config(backend="loky", **begin):
        pool = Parallel(
            workers,
            return_as="generator_unordered",
            batch_size=1,
            max_nbytes=_MAX_NBYTES,
            mmap_mode="r",
        )
    finished = None
    try:
        finished = pool(calls)
        for number, result in finished:
            results[number] = result
            keep(number, result)
            report(len(results), len(tasks))
    except pickle.PicklingError as error:
        raise ParameterError(
            f"tasks, their results and shared arguments must be plain values, for they are sent "
            f"to other processes: {error.__cause__ or error}"
        ) from None
    except BrokenProcessPool as error:
        codes = ", ".join(re.findall(r"(?:EXIT|SIG\w+)\(-?\d+\)", str(error)))
        raise LabelspaceError(
            f"a worker process ended by itself ({codes or error}); "
            "if that is SIGKILL(-9), the machine was out of memory: use fewer workers"
        ) from None
    finally:
        if finished is not None:
            with warnings.catch_warnings():  # of results that an error or Ctrl-C left unused
                warnings.simplefilter("ignore", UserWarning)
                finished.close()
        get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=True)
    return [results[number] for number in range(len(tasks))]


def _start(parent: int, n_cores: int) -> None:
    """Prepare a worker."""
    end_with_parent(parent)
    os.environ["LOKY_MAX_CPU_COUNT"] = str(n_cores)  # joblib.cpu_count and cores() read it
