"""Many binary linear classifiers on shared sparse features, by dual coordinate descent.

Each task minimises 1/2 |w|^2 + sum_i C_i loss(y_i <w, x_i>) over its own examples, one example at a
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
from labelspace.classifiers.dual_descent_loops import Examples, Rule, Scratch, solve_block
from labelspace.errors import CheckpointError, InputError

if TYPE_CHECKING:
    from labelspace.runs.checkpoint_files import Blocks

Loss = Literal["squared_hinge", "logistic"]

_TASKS_AT_A_TIME = 16


class Tasks(NamedTuple):
    """Binary problems: task t is given the examples rows[indptr[t]:indptr[t + 1]].

    indptr    (tasks + 1,) int64
    rows      row numbers of X, int32
    positive  whether each of them is a positive, bool; None: the rows are a task's positives, and
              every other example of X is a negative
    """

    indptr: np.ndarray
    rows: np.ndarray
    positive: np.ndarray | None

    def __len__(self) -> int:  # of tasks, not of fields
        return len(self.indptr) - 1


def all_against(Y: csr_matrix) -> Tasks:
    """One task a label: the examples that carry it against all others."""
    columns = Y.tocsc()
    return Tasks(columns.indptr, columns.indices, None)


def solve(
    X: csr_matrix,
    tasks: Tasks,
    *,
    loss: Loss = "squared_hinge",
    C: float = 1.0,
    positive_weight: float | np.ndarray = 1.0,
    tolerance: float = 0.1,
    passes: int = 20,
    bias: float = 1.0,
    prune: float = 0.1,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
    blocks: Blocks | None = None,
) -> csr_matrix:
    """Weights of every task, (tasks, features + 1) float32; the last column meets the bias.

    C                weight of the losses against |w|^2 / 2
    positive_weight  times C is the weight of positives' losses; one for all, or one a task
    tolerance        of the dual's gradient at which a task is done
    passes           over a task's examples at most
    bias             value of a constant feature; 0: none
    prune            weights below it in absolute value are dropped, but never the bias
    progress         called with the number of tasks done since the last call, from any thread
    blocks           keeps the weights of tasks that are done, for a run that is stopped

    The same seed gives the same weights whatever the number of threads.
    """
    examples = _examples(X, bias)
    indptr, rows = _fixed(tasks.indptr, np.int64), _fixed(tasks.rows, np.int32)
    if len(rows) and not 0 <= rows.min() <= rows.max() < X.shape[0]:
        raise InputError(f"a task names an example that X, of {X.shape[0]} rows, does not have")
    against_all = tasks.positive is None
    positive = _fixed([] if tasks.positive is None else tasks.positive, np.bool_)
    everyone = _fixed(np.arange(X.shape[0] if against_all else 0), np.int32)
    weight = _fixed(np.broadcast_to(positive_weight, len(tasks)), np.float64)
    rule = Rule(loss == "logistic", float(C), float(tolerance), passes, float(prune), seed)

    def block(start: int, stop: int, scratch: Scratch) -> tuple[np.ndarray, ...]:
        kept = None if blocks is None else blocks.take(start)
        parts: tuple[np.ndarray, ...]
        if kept is not None:
            parts = _checked(kept, stop - start, X.shape[1] + 1)
        else:
            parts = solve_block(
                *(examples, indptr, rows, positive, everyone, weight, start, stop, rule, scratch)
            )
            if blocks is not None:
                blocks.put(start, parts)
        if progress is not None:
            progress(stop - start)
        return parts

    longest = X.shape[0] if against_all else int(np.diff(indptr).max(initial=0))
    weights = _over_tasks(block, len(tasks), X.shape[1] + 1, longest)
    if blocks is not None:
        blocks.close()
    return weights


def solve_all(X: csr_matrix, Y: csr_matrix, **settings: Any) -> csr_matrix:
    """One task a label of Y, over all examples; settings as of `solve`."""
    return solve(X, all_against(Y), **settings)


def _examples(X: csr_matrix, bias: float) -> Examples:
    indptr, data = _fixed(X.indptr, np.int64), _fixed(X.data, np.float32)
    row_of = rows_of(X)
    squares = np.bincount(row_of, np.square(data, dtype=np.float64), X.shape[0]) + bias * bias
    # Unsigned, since numba asks of every signed index whether it counts from the end.
    indices = _fixed(X.indices, np.int32).view(np.uint32)
    return Examples(indptr, indices, data, _fixed(squares, np.float64), float(bias))


def _fixed(values: Any, dtype: type) -> np.ndarray:
    """A read-only view: memory maps are read only, and so one kind of array is compiled for."""
    view: np.ndarray = np.ascontiguousarray(values, dtype).view()
    view.flags.writeable = False
    return view


def _checked(block: tuple[np.ndarray, ...], n_tasks: int, n_weights: int) -> tuple[np.ndarray, ...]:
    """What `solve_block` gave to an earlier run, if it can be that."""
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
    block: Callable[[int, int, Scratch], tuple[np.ndarray, ...]],
    n_tasks: int,
    n_weights: int,
    longest: int,
) -> csr_matrix:
    """Blocks of tasks over all cores, their weights put together in order."""
    own = threading.local()

    def work(start: int, stop: int) -> None:
        if not hasattr(own, "scratch"):
            own.scratch = Scratch.fresh(n_weights, longest)
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
