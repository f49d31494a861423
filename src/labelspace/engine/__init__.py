"""Where independent tasks run: `engine.map(function, tasks)` in the processes of this machine.

Tasks and results are plain values that can be pickled, without open handles; large arrays that all
tasks read are given as `shared`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from labelspace.engine.local import LocalEngine

Result = TypeVar("Result")


class Engine(Protocol):
    """The interface of an engine: `map`, with the results in the order of the tasks."""

    def map(
        self,
        function: Callable[..., Result],
        tasks: Iterable[Any],
        *,
        shared: Mapping[str, Any] | None = None,
        progress: Callable[[int, int], None] | None = None,
        on_result: Callable[[int, Result], None] | None = None,
    ) -> list[Result]:
        """Return ``[function(task, **shared) for task in tasks]``; see `LocalEngine.map`."""
        ...


__all__ = ["Engine", "LocalEngine"]
