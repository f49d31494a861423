"""What all engines do with a task: run it with read-only arguments, and name it in its error."""

from __future__ import annotations

import multiprocessing
import pickle
import reprlib
import traceback
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.errors import LabelspaceError

Result = TypeVar("Result")

_is_worker = False


class WorkerLostError(Exception):
    """Another worker of the same training has ended: this one is to be started again."""


def begin_worker() -> None:
    """Note that this process is a worker, whose cores are in use already."""
    global _is_worker
    _is_worker = True


def in_worker() -> bool:
    """Return whether this process is a worker, of an engine or of another library."""
    return _is_worker or multiprocessing.parent_process() is not None


def run_task(
    function: Callable[..., Result],
    number: int,
    n_tasks: int,
    task: Any,
    shared: Mapping[str, Any],
) -> tuple[int, Result]:
    """Run one task in a worker; its error must survive the way back."""
    try:
        return number, function(task, **read_only(shared))
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        try:
            pickle.loads(pickle.dumps(error))
            sent = error
        except Exception:
            sent = LabelspaceError(f"{type(error).__name__}: {error}")
        sent.add_note(position(number, n_tasks, task))
        sent.add_note(f"in a worker process:\n{text}")
        raise sent from None


def position(number: int, n_tasks: int, task: Any) -> str:
    """Return the note that names a task in its error."""
    return f"in task {number + 1} of {n_tasks}: {reprlib.repr(task)}"


def read_only(shared: Mapping[str, Any]) -> dict[str, Any]:
    """Return `shared` with plain read-only arrays, alike in this process and in a worker.

    Arrays of the memmap class would make compiled functions compile anew.
    """

    def lock(value: Any) -> Any:
        if isinstance(value, csr_matrix):
            parts = tuple(map(lock, (value.data, value.indices, value.indptr)))
            return csr_matrix(parts, shape=value.shape, copy=False)
        if isinstance(value, np.ndarray):
            value = np.asarray(value).view()
            value.flags.writeable = False
        return value

    return {name: lock(value) for name, value in shared.items()}
