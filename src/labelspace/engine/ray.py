"""Independent tasks on a Ray cluster: one that is started for the run, or a given one.

Ray schedules the tasks, keeps shared arrays once per node, where workers map them without a copy,
and repeats tasks whose worker or node has ended. What is added here: results as they arrive, errors
that name their task, as many threads as a task has cores, and an end of all tasks with the first
error or Ctrl-C.
"""

from __future__ import annotations

import copy
import logging
import math
import os
import pickle
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Self, TypeVar

from labelspace._core.threads import cores
from labelspace.engine.ray_nodes import node_cores, ray_module, threads_for, use_cores
from labelspace.engine.ray_training import RayTraining
from labelspace.engine.tasks import begin_worker, run_task
from labelspace.errors import LabelspaceError, ParameterError

Result = TypeVar("Result")

SHARDS_PER_NODE = 4  # so that nodes of different speed end at about the same time
_OWN = "local"  # what Ray calls a cluster that is started for this connection
# By its name of other systems, but on all it decides whether nodes listen beyond 127.0.0.1.
_BEYOND_LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"


class RayEngine:
    """Run independent tasks on a Ray cluster.

    The cluster is started, or connected to, by the first `map`. All its nodes need labelspace in
    the same version.

    Parameters
    ----------
    address : str, optional
        "auto" for the cluster that this machine belongs to, or HOST:PORT. By default one is started
        on this machine and ended by `close`, unless the environment variable RAY_ADDRESS names one.
    max_retries : int, default 3
        How many times a task is repeated whose worker or node has ended; its own errors are raised
        at once.
    object_store_bytes : int, optional
        Memory for shared arrays and results, of a cluster that is started here; by default Ray
        takes 30 % of the machine's.
    workers : int, optional
        Train each neural network by up to so many workers, which share the examples of a batch.
        Default: in one process.

    Attributes
    ----------
    group : RayTraining or None
        These workers.

    Examples
    --------
    >>> from labelspace.engine.ray import RayEngine
    >>> with RayEngine() as engine:  # doctest: +SKIP
    ...     engine.map(abs, [-1, 2, -3])
    [1, 2, 3]
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        max_retries: int = 3,
        object_store_bytes: int | None = None,
        workers: int | None = None,
    ) -> None:
        if max_retries < 0:
            raise ParameterError(f"max_retries={max_retries}: expected an integer of at least 0")
        if workers is not None and workers < 1:
            raise ParameterError(f"workers={workers}: expected an integer of at least 1 or none")
        self.group = None if workers is None else RayTraining(self, workers)
        self.address = address or os.environ.get("RAY_ADDRESS") or _OWN
        self.max_retries = max_retries
        if self.address == _OWN:
            os.environ.setdefault(_BEYOND_LOOPBACK, "0")  # Ray reads it when it is imported
        ray_module()  # it is missed before data are read
        self.object_store_bytes = object_store_bytes
        self._own_folder: str | None = None
        self._connected = False

    @property
    def shards(self) -> int:
        """Return into how many tasks to divide work that the threads of one process can share."""
        self.connect()
        return SHARDS_PER_NODE * len(node_cores())

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

        As `LocalEngine.map`, whose parameters it has, on the nodes of the cluster.

        Parameters
        ----------
        function : callable
            Called as ``function(task, **shared)``. A task may run twice if its worker ends.
        tasks : iterable
            Values that can be pickled.
        shared : mapping, optional
            Keyword arguments of every call. Arrays and CSR matrices among them are read-only; each
            node has them once.
        progress : callable, optional
            Called with (tasks done, number of tasks) after each task, in the caller's thread.
        on_result : callable, optional
            Called with (number of the task, result) as soon as a result is there, in any order, in
            the caller's thread.
        alone : bool, default False
            Give each task all cores of a node.

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
            If a task's worker ended more than `max_retries` times.
        """
        work = list(tasks)
        report, keep = progress or (lambda *_: None), on_result or (lambda *_: None)
        if not work:
            return []
        ray = self.connect()
        results: dict[int, Result] = {}
        pending = self._submit(ray, function, work, shared or {}, alone)
        try:
            while pending:
                [done], _ = ray.wait(list(pending), num_returns=1, fetch_local=False)
                number = pending.pop(done)
                result = self.fetched(ray, done)
                del done  # the result's place in the object store
                results[number] = result
                keep(number, result)
                report(len(results), len(work))
        finally:
            for reference in pending:
                with suppress(Exception):
                    ray.cancel(reference, force=True)
        return [results[number] for number in range(len(work))]

    def _submit(
        self,
        ray: Any,
        function: Callable[..., Result],
        work: Sequence[Any],
        shared: Mapping[str, Any],
        alone: bool,
    ) -> dict[Any, int]:
        """Hand all tasks to Ray, and return their numbers by reference."""
        nodes = node_cores() or [1]
        n_cores = min(nodes)
        if not alone:
            n_cores = max(1, n_cores // math.ceil(len(work) / len(nodes)))
        threads = threads_for(n_cores)
        run = ray.remote(_run).options(
            num_cpus=n_cores,
            max_retries=self.max_retries,
            name=_name(function),
            scheduling_strategy="SPREAD",
        )
        pending: dict[Any, int] = {}
        try:
            common = ray.put((function, dict(shared)))
            for number, task in enumerate(work):
                pending[run.remote(common, number, len(work), task, n_cores, threads)] = number
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            for reference in pending:
                ray.cancel(reference, force=True)
            raise _not_plain(str(error).strip().splitlines()[0]) from None
        return pending

    def fetched(self, ray: Any, reference: Any) -> Any:
        """Return the result of a task that is done, or raise its error."""
        try:
            result, error = ray.get(reference)
        except ray.exceptions.RayTaskError as failure:
            raise _not_plain(str(failure.cause)) from None
        except ray.exceptions.RayError as failure:
            raise LabelspaceError(
                f"a task's worker ended {self.max_retries + 1} times; if its node was out of "
                f"memory, use fewer or larger nodes: {str(failure).strip().splitlines()[0]}"
            ) from None
        if error is not None:
            raise error
        # Arrays in the object store are read-only, and unmapped when the cluster is closed.
        return copy.deepcopy(result)

    def connect(self) -> Any:
        """Start the cluster or connect to it, unless this is done; return the module `ray`."""
        ray = ray_module()
        if self._connected:
            return ray
        if ray.is_initialized():  # by the caller, whose connection this is
            self._connected = True
            return ray
        settings: dict[str, Any] = {}
        if self.address == _OWN:
            self._own_folder = tempfile.mkdtemp(prefix="ray-")  # short: it has sockets
            settings = {
                "num_cpus": cores(),
                "include_dashboard": False,
                "object_store_memory": self.object_store_bytes,
                "_temp_dir": self._own_folder,
            }
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # or it reports over the network
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # what matters is raised as well
        try:
            with _same_signals(), _without_stderr():
                ray.init(self.address, log_to_driver=False, logging_level=logging.ERROR, **settings)
        except (ConnectionError, ValueError, RuntimeError) as error:
            self.close()
            raise ParameterError(
                f"address={self.address!r}: there is no Ray cluster that can be connected to "
                f"({str(error).strip().splitlines()[0]}); start one by `ray start --head`"
            ) from None
        self._connected = self._owner = True
        return ray

    _owner = False  # of the connection, which `close` ends

    def close(self) -> None:
        """End the connection, and with it a cluster that was started by it."""
        if self._owner:
            ray_module().shutdown()
        self._connected = self._owner = False
        if self._own_folder is not None:
            shutil.rmtree(self._own_folder, ignore_errors=True)
            self._own_folder = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def _same_signals() -> Iterator[None]:
    """Keep the handler of SIGTERM, which Ray replaces by one that skips our clean-up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _without_stderr() -> Iterator[None]:
    """Drop what Ray's compiled part prints: that it obeys RAY_BACKEND_LOG_LEVEL."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _run(
    common: tuple[Callable[..., Any], Mapping[str, Any]],
    number: int,
    n_tasks: int,
    task: Any,
    n_cores: int,
    threads: str,
) -> tuple[Any, Exception | None]:
    """Run a task in a worker of Ray, and return its result or its error."""
    function, shared = common
    begin_worker()
    use_cores(n_cores, threads)
    try:
        return run_task(function, number, n_tasks, task, shared)[1], None
    except Exception as error:
        return None, error


def _name(function: Callable[..., Any]) -> str:
    return f"labelspace.{getattr(function, '__name__', 'task')}"


def _not_plain(cause: str) -> ParameterError:
    return ParameterError(
        "tasks, their results and shared arguments must be plain values, for they are sent to "
        f"other processes (pickle): {cause}"
    )
