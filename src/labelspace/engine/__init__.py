"""Where independent work runs: `engine.map(task, items)` on this machine, later on a cluster too.

A task is a function of an importable module, called as task(item, **shared). Items and results are
plain values that can be pickled, free of open handles; large arrays are given as `shared`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from labelspace.engine.local import LocalEngine

Result = TypeVar("Result")


class Engine(Protocol):
    """What stands behind `map`; results come in the order of the items."""

    def map(
        self,
        task: Callable[..., Result],
        items: Iterable[Any],
        *,
        shared: Mapping[str, Any] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[Result]: ...


__all__ = ["Engine", "LocalEngine"]
