"""The nodes of a Ray cluster: their cores, and the threads of what runs on them."""

from __future__ import annotations

import os
import sys
from typing import Any

from labelspace._core.threads import set_cores
from labelspace.errors import MissingExtraError

_OMP = "OMP_NUM_THREADS"


def ray_module() -> Any:
    """Return the module `ray`, or raise MissingExtraError."""
    try:
        import ray
    except ModuleNotFoundError:
        raise MissingExtraError(
            "the engine ray needs ray, which is not installed: pip install 'labelspace[ray]'"
        ) from None
    return ray


def node_cores() -> list[int]:
    """Return the cores of each node that has any; the head of a cluster may have none."""
    nodes = ray_module().nodes()
    found = (int(node["Resources"].get("CPU", 0)) for node in nodes if node["Alive"])
    return [count for count in found if count]


def threads_for(n_cores: int) -> str:
    """Return how many threads libraries use on so many cores: the caller's OMP_NUM_THREADS."""
    return os.environ.get(_OMP, str(n_cores))


def use_cores(n_cores: int, threads: str) -> None:
    """Use as many threads as the task has cores; the worker may have run others before."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # it has no types

    set_cores(n_cores)
    os.environ[_OMP] = threads  # for libraries that are imported later
    threadpool_limits(int(threads))
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(int(threads))
