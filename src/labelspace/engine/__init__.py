"""Where independent tasks run: in the processes of this machine, or on a Ray cluster.

Tasks and results are plain values that can be pickled, without open handles; large arrays that all
tasks read are given as `shared`. Code that has tasks calls ``current().map(function, tasks)``; who
starts the work chooses the engine by ``with use(engine):``, so that no method needs to know it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

from labelspace.engine.local import LocalEngine
from labelspace.errors import ParameterError

Result = TypeVar("Result")

ENGINES = ("local", "ray")


class TrainingGroup(Protocol):
    """Workers that train one model together."""

    def run(
        self,
        function: Callable[..., Result],
        shared: Mapping[str, Any],
        *,
        storage: str | None = None,
        minutes: float = 5.0,
        progress: Callable[[int, int], None] | None = None,
    ) -> Result:
        """Return what ``function(callbacks, **shared)`` returns; see `RayTraining.run`."""
        ...


class Engine(Protocol):
    """The interface of an engine: `map`, with the results in the order of the tasks."""

    @property
    def group(self) -> TrainingGroup | None:
        """Return the workers that train one model together; None where one process does."""
        ...

    @property
    def shards(self) -> int:
        """Return into how many tasks to divide work that the threads of one process can share.

        1 where these threads are all there is.
        """
        ...

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
        """Return ``[function(task, **shared) for task in tasks]``; see `LocalEngine.map`."""
        ...


_current: ContextVar[Engine | None] = ContextVar("engine", default=None)


def current() -> Engine:
    """Return the engine of the innermost `use`, or a `LocalEngine` without one.

    A task finds the local engine of its worker, whatever engine runs it.

    Examples
    --------
    >>> from labelspace.engine import current
    >>> current().map(abs, [-1, 2])
    [1, 2]
    """
    return _current.get() or LocalEngine()


@contextmanager
def use(engine: Engine) -> Iterator[Engine]:
    """Run independent tasks of the code within by this engine.

    Examples
    --------
    >>> from labelspace.engine import LocalEngine, current, use
    >>> with use(LocalEngine(workers=1)) as engine:
    ...     current() is engine
    True
    """
    before = _current.set(engine)
    try:
        yield engine
    finally:
        _current.reset(before)


@contextmanager
def engine_of(
    name: str, address: str | None = None, *, workers: int | None = None
) -> Iterator[Engine]:
    """Use the engine of this name, and close it at the end.

    Parameters
    ----------
    name : "local" or "ray"
    address : str, optional
        The Ray cluster to connect to: "auto" for that of this machine, or HOST:PORT. By default
        one is started on this machine, unless the environment variable RAY_ADDRESS names one.
    workers : int, optional
        With Ray, train each neural network by up to so many workers.

    Examples
    --------
    >>> from labelspace.engine import engine_of
    >>> with engine_of("local") as engine:
    ...     engine.map(abs, [-1, 2])
    [1, 2]
    """
    if name not in ENGINES:
        raise ParameterError(f"engine={name!r}: expected one of {', '.join(ENGINES)}")
    if name == "local":
        if address is not None:
            raise ParameterError(f"address={address!r}: only the engine ray has an address")
        if workers is not None:
            raise ParameterError(f"workers={workers}: only the engine ray has workers for training")
        with use(LocalEngine()) as engine:
            yield engine
        return
    from labelspace.engine.ray import RayEngine

    with RayEngine(address, workers=workers) as cluster, use(cluster) as engine:
        yield engine


__all__ = ["ENGINES", "Engine", "LocalEngine", "TrainingGroup", "current", "engine_of", "use"]
