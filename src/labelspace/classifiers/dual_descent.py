"""Many binary linear classifiers on shared sparse features, by dual coordinate descent.

Each task minimises 1/2 |w|^2 + C sum_i loss(y_i <w, x_i>) over its own examples, one example at a
time in random order: squared hinge after Hsieh et al. (ICML 2008), with shrinking, and logistic
after Yu, Huang and Lin (Machine Learning 2011), as LIBLINEAR does. A task costs as much as its
examples have non-zeros, whatever the number of features.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.sparse import rows_of
from labelspace._core.threads import parallel_blocks
from labelspace.classifiers.dual_descent_loops import Examples, Scratch, Settings, solve_block
from labelspace.classifiers.lane_loops import LaneScratch, solve_lanes
from labelspace.classifiers.lanes import LANES
from labelspace.errors import CheckpointError, InputError

if TYPE_CHECKING:
    from labelspace.runs.checkpoint_files import Blocks

Loss = Literal["squared_hinge", "logistic"]

_TASKS_AT_A_TIME = LANES  # per block: few enough to divide among threads


class Tasks(NamedTuple):
    """Binary problems: the examples of task t are rows[indptr[t]:indptr[t + 1]].

    Attributes
    ----------
    indptr : ndarray of shape (tasks + 1,), int64
    rows : ndarray of int32
        Row numbers of X.
    positive : ndarray of bool, or None
        Whether each of the rows is a positive of its task. None: the rows are the positives of a
        task, and every other example of X is a negative.
    """

    indptr: np.ndarray
    rows: np.ndarray
    positive: np.ndarray | None

    def __len__(self) -> int:  # of tasks, not of fields
        return len(self.indptr) - 1


def all_against(Y: csr_matrix) -> Tasks:
    """Return one task per label: the examples that have it against all others."""
    columns = Y.tocsc()
    return Tasks(columns.indptr, columns.indices, None)


def solve(
    X: csr_matrix,
    tasks: Tasks,
    *,
    loss: Loss = "squared_hinge",
    C: float = 1.0,
    tolerance: float = 0.1,
    passes: int = 20,
    prune: float = 0.1,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
    blocks: Blocks | None = None,
) -> csr_matrix:
    """Fit the linear classifier of every task, with a bias that is regularised as a weight is.

    The same seed gives the same weights whatever the number of threads.

    Parameters
    ----------
    X : csr_matrix of shape (examples, features)
    tasks : Tasks
    loss : {"squared_hinge", "logistic"}
    C : float
        Weight of the losses against |w|^2 / 2.
    tolerance : float
        Dual gradient at which a task is done.
    passes : int
        Passes over a task's examples at most.
    prune : float
        Weights below it in absolute value are dropped, except biases.
    seed : int
        Seed of the order of examples.
    progress : callable, optional
        Called from any thread with the number of tasks done since the last call.
    blocks : Blocks, optional
        Stores the weights of tasks that are done, so that a stopped run can be resumed.

    Returns
    -------
    csr_matrix of shape (tasks, features + 1), float32
        Weights, with the biases in the last column.

    Raises
    ------
    InputError
        If a task refers to an example that X does not have.
    CheckpointError
        If `blocks` holds weights of another size.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_matrix
    >>> X = csr_matrix(np.array([[1, 0], [1, 1], [0, 1], [0, 1]], np.float32))
    >>> Y = csr_matrix(np.array([[1], [1], [0], [0]]))
    >>> weights = solve(X, all_against(Y), C=10.0, tolerance=1e-3, passes=1000)
    >>> weights.toarray().round(1)  # feature 0 is what sets the positives apart
    array([[ 1.8, -0.5, -0.5]], dtype=float32)
    """
    examples = _examples(X)
    indptr, rows = _fixed(tasks.indptr, np.int64), _fixed(tasks.rows, np.int32)
    if len(rows) and not 0 <= rows.min() <= rows.max() < X.shape[0]:
        raise InputError(f"a task names an example that X, of {X.shape[0]} rows, does not have")
    against_all = tasks.positive is None
    positive = _fixed([] if tasks.positive is None else tasks.positive, np.bool_)
    all_rows = _fixed(np.arange(X.shape[0] if against_all else 0), np.int32)
    settings = Settings(float(C), float(tolerance), passes, float(prune), seed)
    logistic = True if loss == "logistic" else None
    in_lanes = against_all and logistic is None
    # Labels of similar frequency need about as many passes: lanes of a block are done together.
    by_size = _fixed(np.argsort(-np.diff(indptr), kind="stable"), np.int64)

    def block(start: int, stop: int, scratch: Any) -> tuple[np.ndarray, ...]:
        kept = None if blocks is None else blocks.take(start)
        parts: tuple[np.ndarray, ...]
        if kept is not None:
            parts = _checked(kept, stop - start, X.shape[1] + 1)
        else:
            parts = (
                solve_lanes(examples, indptr, rows, by_size, start, stop, settings, scratch)
                if in_lanes
                else solve_block(
                    *(examples, indptr, rows, positive, all_rows, start, stop),
                    *(settings, logistic, scratch),
                )
            )
            if blocks is not None:
                blocks.put(start, parts)
        if progress is not None:
            progress(stop - start)
        return parts

    longest = X.shape[0] if against_all else int(np.diff(indptr).max(initial=0))
    fresh = LaneScratch.fresh if in_lanes else Scratch.fresh
    weights = _over_tasks(block, len(tasks), X.shape[1] + 1, lambda size: fresh(size, longest))
    if blocks is not None:
        blocks.close()
    return weights[np.argsort(by_size)] if in_lanes else weights


def _examples(X: csr_matrix) -> Examples:
    indptr, data = _fixed(X.indptr, np.int64), _fixed(X.data, np.float32)
    row_of = rows_of(X)
    squares = np.bincount(row_of, np.square(data, dtype=np.float64), X.shape[0]) + 1.0
    # Unsigned, since numba checks of every signed index whether it counts from the end.
    indices = _fixed(X.indices, np.int32).view(np.uint32)
    return Examples(indptr, indices, data, _fixed(squares, np.float64))


def _fixed(values: Any, dtype: type) -> np.ndarray:
    """Return a read-only view, as memory maps are, so that loops are compiled for one type."""
    view: np.ndarray = np.ascontiguousarray(values, dtype).view()
    view.flags.writeable = False
    return view


def _checked(block: tuple[np.ndarray, ...], n_tasks: int, n_weights: int) -> tuple[np.ndarray, ...]:
    """Return weights that an earlier run stored, or raise CheckpointError."""
    types = [part.dtype for part in block]
    if types == [np.int64, np.int32, np.float32]:
        counts, indices, data = block
        whole = len(counts) == n_tasks and counts.min(initial=0) >= 0
        whole = whole and counts.sum() == len(indices) == len(data)
        if whole and (not len(indices) or 0 <= indices.min() <= indices.max() < n_weights):
            return block
    raise CheckpointError(
        "the checkpoint holds weights of another size than this run; remove it to start anew"
    )


def _over_tasks(
    block: Callable[[int, int, Any], tuple[np.ndarray, ...]],
    n_tasks: int,
    n_weights: int,
    fresh: Callable[[int], Scratch | LaneScratch],
) -> csr_matrix:
    """Solve blocks of tasks on all cores and concatenate their weights in order."""
    own = threading.local()

    def work(start: int, stop: int) -> None:
        if not hasattr(own, "scratch"):
            own.scratch = fresh(n_weights)
        done[start] = block(start, stop, own.scratch)

    done: dict[int, tuple[np.ndarray, ...]] = {}
    parallel_blocks(n_tasks, work, block=_TASKS_AT_A_TIME)
    parts = [done[start] for start in sorted(done)]
    none = (np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))
    counts, indices, data = (np.concatenate(part) for part in zip(none, *parts, strict=True))
    indptr = np.concatenate([[0], np.cumsum(counts)])
    weights = csr_matrix((data, indices, indptr), shape=(n_tasks, n_weights), copy=False)
    weights.sort_indices()
    return weights
