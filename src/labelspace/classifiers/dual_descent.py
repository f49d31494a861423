"""Many binary linear classifiers on shared sparse features, by dual coordinate descent.

Each task minimises 1/2 |w|^2 + C sum_i loss(y_i <w, x_i>) over its own examples, one example at a
time in random order: squared hinge after Hsieh et al. (ICML 2008), with shrinking, and logistic
after Yu, Huang and Lin (Machine Learning 2011), as LIBLINEAR does. A task costs as much as its
examples have non-zeros, whatever the number of features.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.sparse import rows_of
from labelspace._core.threads import parallel_blocks
from labelspace.classifiers.dual_descent_loops import Examples, Scratch, Settings, solve_block
from labelspace.classifiers.lane_loops import LaneScratch, solve_lanes
from labelspace.classifiers.lanes import LANES
from labelspace.engine import current
from labelspace.errors import CheckpointError, InputError

if TYPE_CHECKING:
    from labelspace.runs.checkpoint_files import Blocks

Loss = Literal["squared_hinge", "logistic"]

BlockWeights = tuple[np.ndarray, ...]  # numbers of weights per task, their indices, their values

TOLERANCE, PASSES = 0.1, 20  # when a task is done
_TASKS_AT_A_TIME = LANES  # per block: few enough to divide among threads
WORTH_SHARING = 5e8  # multiply-adds of a pass, above which a cluster is quicker than one process


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
    tolerance: float = TOLERANCE,
    passes: int = PASSES,
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
    n_weights = X.shape[1] + 1
    indptr, rows = fixed(tasks.indptr, np.int64), fixed(tasks.rows, np.int32)
    if len(rows) and not 0 <= rows.min() <= rows.max() < X.shape[0]:
        raise InputError(f"a task names an example that X, of {X.shape[0]} rows, does not have")
    problem: dict[str, Any] = {
        "X": X,
        "indptr": indptr,
        "rows": rows,
        "positive": tasks.positive,
        "loss": loss,
        "settings": Settings(float(C), float(tolerance), passes, float(prune), seed),
    }
    weights = in_blocks(
        *(solve_blocks, problem, equal_blocks(len(tasks)), n_weights, _work(X, tasks)),
        progress=progress, blocks=blocks,
    )  # fmt: skip
    in_lanes = tasks.positive is None and loss == "squared_hinge"
    return weights[np.argsort(_by_size(indptr))] if in_lanes else weights


def in_blocks(
    solve_some: Callable[..., dict[int, BlockWeights]],
    problem: Mapping[str, Any],
    bounds: np.ndarray,
    n_weights: int,
    work: float,
    *,
    progress: Callable[[int], None] | None,
    blocks: Blocks | None,
) -> csr_matrix:
    """Solve blocks of tasks in this process, or where that is quicker on the nodes of a cluster.

    Parameters
    ----------
    solve_some : callable
        Takes a list of blocks, by their first task, `problem` as keywords and `on_block`; returns
        weights by block, as `solve_blocks` does.
    problem : mapping
        What all blocks need.
    bounds : ndarray
        The first task of each block, and the number of tasks.
    n_weights : int
        Width of the result.
    work : float
        Multiply-adds of a pass over the examples of all tasks.
    progress, blocks
        As of `solve`.

    Returns
    -------
    csr_matrix of shape (tasks, n_weights), float32
    """
    done = kept_blocks_of(blocks, bounds, n_weights, progress)
    sizes = dict(zip(bounds[:-1].tolist(), np.diff(bounds).tolist(), strict=True))
    rest = [start for start in sizes if start not in done]

    def keep(start: int, parts: BlockWeights) -> None:
        done[start] = parts
        if blocks is not None:
            blocks.put(start, parts)
        if progress is not None:
            progress(sizes[start])

    def keep_all(_: int, found: Mapping[int, BlockWeights]) -> None:
        for start, parts in found.items():
            keep(start, parts)

    n_shards = min(current().shards, len(rest)) if work >= WORTH_SHARING else 1
    if n_shards > 1:
        current().map(
            solve_some,
            # Blocks are in the order of their size, so that every shard has large and small ones.
            [rest[number::n_shards] for number in range(n_shards)],
            shared=problem,
            on_result=keep_all,
        )
    else:
        solve_some(rest, **problem, on_block=keep)
    if blocks is not None:
        blocks.close()
    return _joined(done, int(bounds[-1]), n_weights)


def equal_blocks(n_tasks: int) -> np.ndarray:
    """Return the first task of each block of tasks of one size, and the number of tasks."""
    return np.append(np.arange(0, n_tasks, _TASKS_AT_A_TIME), n_tasks)


def kept_blocks_of(
    blocks: Blocks | None,
    bounds: np.ndarray,
    n_weights: int,
    progress: Callable[[int], None] | None = None,
) -> dict[int, BlockWeights]:
    """Return the blocks that an earlier run has kept, by their first task."""
    found: dict[int, BlockWeights] = {}
    if blocks is None:
        return found
    for start, stop in pairwise(bounds.tolist()):
        kept = blocks.take(start)
        if kept is not None:
            found[start] = _checked(kept, stop - start, n_weights)
            if progress is not None:
                progress(stop - start)
    return found


def solve_blocks(
    starts: Sequence[int],
    *,
    X: csr_matrix,
    indptr: np.ndarray,
    rows: np.ndarray,
    positive: np.ndarray | None,
    loss: Loss,
    settings: Settings,
    on_block: Callable[[int, BlockWeights], None] = lambda *_: None,
) -> dict[int, BlockWeights]:
    """Solve some blocks of tasks on all cores: a task of an engine.

    Parameters
    ----------
    starts : sequence of int
        Which blocks: the first task of each.
    X, indptr, rows, positive
        As of `solve` and `Tasks`.
    loss : {"squared_hinge", "logistic"}
    settings : Settings
    on_block : callable, optional
        Called from any thread with the first task of a block and its weights.

    Returns
    -------
    dict
        The counts, indices and values of the weights of each block, by its first task.
    """
    examples, n_tasks = loop_examples(X), len(indptr) - 1
    indptr, rows = fixed(indptr, np.int64), fixed(rows, np.int32)
    against_all = positive is None
    of_rows = fixed([] if positive is None else positive, np.bool_)
    all_rows = fixed(np.arange(X.shape[0] if against_all else 0), np.int32)
    logistic = True if loss == "logistic" else None
    in_lanes = against_all and logistic is None
    by_size = _by_size(indptr)
    longest = X.shape[0] if against_all else int(np.diff(indptr).max(initial=0))
    fresh = LaneScratch.fresh if in_lanes else Scratch.fresh
    own = threading.local()
    done: dict[int, BlockWeights] = {}

    def work(first: int, last: int) -> None:
        if not hasattr(own, "scratch"):
            own.scratch = fresh(X.shape[1] + 1, longest)
        for start in starts[first:last]:
            stop = min(start + _TASKS_AT_A_TIME, n_tasks)
            parts = (
                solve_lanes(examples, indptr, rows, by_size, start, stop, settings, own.scratch)
                if in_lanes
                else solve_block(
                    *(examples, indptr, rows, of_rows, all_rows, start, stop),
                    *(settings, logistic, own.scratch),
                )
            )
            done[start] = parts
            on_block(start, parts)

    parallel_blocks(len(starts), work, block=1)
    return done


def keep_whole(blocks: Blocks | None, weights: csr_matrix) -> None:
    """Keep weights that `solve` has returned for tasks with their own negatives."""
    if blocks is None:
        return
    ends = weights.indptr
    for start, stop in pairwise(equal_blocks(weights.shape[0]).tolist()):
        part = slice(ends[start], ends[stop])
        counts = np.diff(ends[start : stop + 1]).astype(np.int64)
        blocks.put(start, (counts, weights.indices[part].astype(np.int32), weights.data[part]))
    blocks.close()


def kept_whole(blocks: Blocks | None, n_tasks: int, n_weights: int) -> csr_matrix | None:
    """Return the weights that `keep_whole` or `solve` has kept, if those of all tasks are."""
    bounds = equal_blocks(n_tasks)
    done = kept_blocks_of(blocks, bounds, n_weights)
    return _joined(done, n_tasks, n_weights) if len(done) == len(bounds) - 1 else None


def _joined(done: Mapping[int, BlockWeights], n_tasks: int, n_weights: int) -> csr_matrix:
    """Return the weights of all blocks as one matrix, in the order in which they are solved."""
    parts = [done[start] for start in sorted(done)]
    none = (np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))
    counts, indices, data = (np.concatenate(part) for part in zip(none, *parts, strict=True))
    indptr = np.concatenate([[0], np.cumsum(counts)])
    weights = csr_matrix((data, indices, indptr), shape=(n_tasks, n_weights), copy=False)
    weights.sort_indices()
    return weights


def _by_size(indptr: np.ndarray) -> np.ndarray:
    """Return the tasks by their number of examples, largest first.

    Labels of similar frequency need about as many passes: lanes of a block are done together.
    """
    return fixed(np.argsort(-np.diff(indptr), kind="stable"), np.int64)


def _work(X: csr_matrix, tasks: Tasks) -> float:
    """Return the multiply-adds of a pass over the examples of all tasks."""
    if tasks.positive is None:
        return float(len(tasks) * X.nnz)
    return float(len(tasks.rows) * X.nnz / max(1, X.shape[0]))


def loop_examples(X: csr_matrix) -> Examples:
    """Return X as the compiled loops read it."""
    indptr, data = fixed(X.indptr, np.int64), fixed(X.data, np.float32)
    row_of = rows_of(X)
    squares = np.bincount(row_of, np.square(data, dtype=np.float64), X.shape[0]) + 1.0
    # Unsigned, since numba checks of every signed index whether it counts from the end.
    indices = fixed(X.indices, np.int32).view(np.uint32)
    return Examples(indptr, indices, data, fixed(squares, np.float64))


def fixed(values: Any, dtype: type) -> np.ndarray:
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
