"""The compiled loops of LANES labels at once: classifiers against all examples, on one thread."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from labelspace._core.compiled import loop, loop_part
from labelspace._core.random64 import GOLDEN, mix
from labelspace.classifiers.dual_descent_loops import append, shuffle
from labelspace.classifiers.lanes import LANES, lane_step

_STILL = 0.05  # projected gradients below this share of the tolerance move nothing


class LaneScratch(NamedTuple):
    """Arrays that a thread reuses from block to block; all are overwritten."""

    weights: np.ndarray
    alpha: np.ndarray
    signs: np.ndarray

    @classmethod
    def fresh(cls, n_weights: int, n_examples: int) -> LaneScratch:
        return cls(
            np.empty((n_weights, LANES), np.float32),
            np.empty((n_examples, LANES), np.float32),
            np.empty((n_examples, LANES), np.int8),
        )


@loop
def solve_lanes(  # type: ignore[no-untyped-def]
    examples, indptr, rows, tasks, start, stop, settings, scratch
):
    """Return weights of tasks[start:stop]: counts per task, features and values.

    The rows of a task are its positives; every other example is a negative. As in `_squared_hinge`,
    examples far inside the margin are left aside, here of all lanes, until the others are done.
    """
    w, alpha, signs = scratch.weights, scratch.alpha, scratch.signs
    n_lanes = stop - start
    w[:] = 0.0
    alpha[:] = 0.0
    signs[:] = -1
    for lane in range(n_lanes):
        task = tasks[start + lane]
        for row in rows[indptr[task] : indptr[task + 1]]:
            signs[row, lane] = 1
    numbers = np.empty((4, LANES), np.float32)
    for lane in range(LANES):
        numbers[3, lane] = 1.0 if lane < n_lanes else 0.0
    # A stream of its own for each block: threads and other blocks do not change it.
    random = mix(np.uint64(settings.seed) * GOLDEN + np.uint64(start + 1)) | np.uint64(1)
    descend(
        *(examples.indptr, examples.indices, examples.data, examples.squares),
        *(w, alpha, signs, numbers, settings, random),
    )
    return kept_weights(w, n_lanes, settings.prune)


@loop_part
def descend(  # type: ignore[no-untyped-def]
    indptr, indices, data, squares, w, alpha, signs, numbers, settings, random
):
    """Visit all examples again and again until the lanes that are on are done.

    The first arguments are the fields of `Examples`; w and alpha are zeros at first. The last row
    of `numbers` is 1 for lanes that are on, and the others are of `lane_step`.
    """
    n = len(indptr) - 1
    order = np.empty(n, np.int32)
    for row in range(n):
        order[row] = row
    scalars = np.empty(3, np.float32)
    highest, lowest, limit, is_on = numbers[0], numbers[1], numbers[2], numbers[3]
    ridge = 0.5 / settings.C
    scalars[0], scalars[2] = ridge, _STILL * settings.tolerance
    limit[:] = np.inf
    active = n
    for _ in range(settings.passes):
        highest[:] = -np.inf
        lowest[:] = np.inf
        random = shuffle(order, active, random)
        place = 0
        while place < active:
            row = order[place]
            scalars[1] = 1.0 / (squares[row] + ridge)
            if lane_step(
                indices, data, indptr[row], indptr[row + 1],
                w, signs[row], alpha[row], numbers, scalars,
            ):  # fmt: skip
                place += 1
            else:
                active -= 1
                order[place], order[active] = order[active], row
        n_on, whole = 0, active == n
        for lane in range(LANES):
            if is_on[lane] == 0.0:
                continue
            limit[lane] = np.inf
            if highest[lane] - lowest[lane] > settings.tolerance:
                n_on += 1
                limit[lane] = highest[lane] if highest[lane] > 0.0 else np.inf
            elif whole:
                is_on[lane] = 0.0
        if n_on == 0:
            if whole:
                break
            active = n  # check all once more


@loop_part
def kept_weights(w, n_lanes, prune):  # type: ignore[no-untyped-def]
    """Return the weights of each lane from `prune` on: counts per lane, features and values."""
    counts, bias = np.zeros(n_lanes, np.int64), len(w) - 1
    indices, data = np.empty(1024, np.int32), np.empty(1024, np.float32)
    features, values, filled = np.empty(len(w), np.int32), np.empty(len(w), np.float32), 0
    for lane in range(n_lanes):
        kept = 0
        for feature in range(len(w)):
            value = w[feature, lane]
            if value != 0.0 and (abs(value) >= prune or feature == bias):
                features[kept], values[kept] = feature, value
                kept += 1
        indices = append(indices, filled, features, kept)
        data = append(data, filled, values, kept)
        counts[lane], filled = kept, filled + kept
    return counts, indices[:filled].copy(), data[:filled].copy()
