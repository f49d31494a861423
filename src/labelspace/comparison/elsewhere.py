"""Runs of a comparison on the nodes of a cluster, each alone on its node, so that times hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from labelspace._core.scratch import scratch_folder
from labelspace.comparison.runs import run
from labelspace.engine import Engine
from labelspace.errors import LabelspaceError


def run_elsewhere(
    engine: Engine,
    jobs: Sequence[Mapping[str, Any]],
    on_result: Callable[[int, dict[str, Any]], None],
) -> None:
    """Run all jobs by the engine; data files are sent, as nodes may have no folder in common.

    Parameters
    ----------
    engine : Engine
    jobs : sequence of mapping
        What `DataFiles.job` returns.
    on_result : callable
        Called with the number of a job and its figures, or {"error": ...}, as they arrive.
    """
    files = {job["data"]: np.fromfile(job["data"], np.uint8) for job in jobs}
    engine.map(_run, jobs, shared={"files": files}, on_result=on_result, alone=True)


def _run(job: Mapping[str, Any], *, files: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Run one job in a process of this node, and return its figures or its error."""
    with scratch_folder("compare") as folder:
        data = folder / "data.safetensors"
        files[job["data"]].tofile(data)
        try:
            return run({**job, "data": str(data)}, folder)
        except LabelspaceError as error:
            return {"error": str(error)}
