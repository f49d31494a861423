"""The compiled loops behind `dual_descent.py`: one task after another, on one thread."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from labelspace._core.compiled import loop, loop_part
from labelspace._core.random64 import GOLDEN

_NO_STEP = 1e-12  # projected gradients below this move nothing


class Examples(NamedTuple):
    """X as the compiled loops read it; `squares` are squared lengths, the bias's 1 included."""

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    squares: np.ndarray


class Settings(NamedTuple):
    """The weight C of the losses, when a task is done, and which weights it keeps."""

    C: float
    tolerance: float
    passes: int
    prune: float
    seed: int


class Scratch(NamedTuple):
    """Arrays that a thread reuses from task to task; the weights are zeros between tasks."""

    weights: np.ndarray
    features: np.ndarray
    values: np.ndarray
    alpha: np.ndarray
    rest: np.ndarray
    order: np.ndarray
    sign: np.ndarray

    @classmethod
    def fresh(cls, n_weights: int, longest: int) -> Scratch:
        return cls(
            np.zeros(n_weights, np.float32),
            *(np.empty(n_weights, np.int32), np.empty(n_weights, np.float32)),
            *(np.empty(longest, np.float64), np.empty(longest, np.float64)),
            *(np.empty(longest, np.int32), np.empty(longest, np.int8)),
        )


@loop
def solve_block(  # type: ignore[no-untyped-def]
    examples, indptr, rows, positive, all_rows, start, stop, settings, logistic, scratch
):
    """Return weights of the tasks from `start` to `stop`: counts per task, features and values.

    If `all_rows` lists all examples, a task's rows are its positives and all others negatives.
    `logistic` is True, or None for the squared hinge: numba then compiles one of the losses.
    Slices are copied in loops, which take a tenth of the time to compile.
    """
    counts = np.zeros(stop - start, np.int64)
    indices, data = np.empty(1024, np.int32), np.empty(1024, np.float32)
    filled, sign = np.int64(0), scratch.sign  # a literal 0 would be a second type to compile
    for task in range(start, stop):
        first, last = indptr[task], indptr[task + 1]
        own = rows[first:last]
        if len(all_rows):
            for row in all_rows:
                sign[row] = -1
            for row in own:
                sign[row] = 1
            own = all_rows
        else:
            for cell in range(first, last):
                sign[cell - first] = 1 if positive[cell] else -1
        _descend(examples, own, task, settings, logistic, scratch)
        kept = _take_weights(examples, own, settings.prune, scratch)
        indices = append(indices, filled, scratch.features, kept)
        data = append(data, filled, scratch.values, kept)
        counts[task - start], filled = kept, filled + kept
    return counts, indices[:filled].copy(), data[:filled].copy()


@loop_part
def _descend(examples, rows, task, settings, logistic, scratch):  # type: ignore[no-untyped-def]
    # A stream of its own for each task: threads and other tasks do not change it.
    random = np.uint64(settings.seed) * GOLDEN + np.uint64(task + 1)
    random = _next(random * np.uint64(0xD1B54A32D192ED03) | np.uint64(1))
    if logistic is not None:
        _logistic(examples, rows, settings, scratch, random)
    else:
        _squared_hinge(examples, rows, settings, scratch, random)


@loop_part
def _squared_hinge(examples, rows, settings, scratch, random):  # type: ignore[no-untyped-def]
    """Minimise the dual 1/2 a'Qa + sum_i a_i^2 / (4 C) - sum_i a_i over a >= 0.

    The weights are w = sum_i a_i y_i x_i.
    """
    w, alpha, order, sign = scratch.weights, scratch.alpha, scratch.order, scratch.sign
    n = len(rows)
    for i in range(n):
        order[i] = i
        alpha[i] = 0.0
    ridge = 0.5 / settings.C
    active, limit = n, np.inf
    for _ in range(settings.passes):
        highest, lowest = -np.inf, np.inf
        random = shuffle(order, active, random)
        place = 0
        while place < active:
            i = order[place]
            row, old = rows[i], alpha[i]
            gradient = sign[i] * _product(examples, row, w) - 1.0 + old * ridge
            if old == 0.0 and gradient > limit:  # far inside its margin: shrink
                active -= 1
                order[place], order[active] = order[active], i
                continue
            projected = min(gradient, 0.0) if old == 0.0 else gradient
            highest, lowest = max(highest, projected), min(lowest, projected)
            if abs(projected) > _NO_STEP:
                alpha[i] = max(old - gradient / (examples.squares[row] + ridge), 0.0)
                _add(examples, row, (alpha[i] - old) * sign[i], w)
            place += 1
        if highest - lowest <= settings.tolerance:
            if active == n:
                break
            active, limit = n, np.inf  # check all once more
        else:
            limit = highest if highest > 0.0 else np.inf


@loop_part
def _logistic(examples, rows, settings, scratch, random):  # type: ignore[no-untyped-def]
    """Minimise the dual 1/2 a'Qa + sum_i a_i log a_i + (C - a_i) log(C - a_i) over 0 < a_i < C.

    Each step solves for one a_i by Newton's method, in a_i or in `rest`, C - a_i, whichever is
    the smaller, since digits of the other one are lost near its end.
    """
    w, alpha, rest = scratch.weights, scratch.alpha, scratch.rest
    order, sign = scratch.order, scratch.sign
    n = len(rows)
    cost = settings.C
    for i in range(n):
        order[i] = i
        alpha[i] = min(1e-3 * cost, 1e-8)
        rest[i] = cost - alpha[i]
    precision, finest = 1e-2, min(1e-8, settings.tolerance)
    for round in range(settings.passes):
        largest, n_steps = 0.0, 0
        random = shuffle(order, n, random)
        for place in range(n):
            i = order[place]
            row, old = rows[i], alpha[i]
            a, b = examples.squares[row], sign[i] * _product(examples, row, w)
            in_rest = 0.5 * a * (rest[i] - old) + b < 0.0
            if in_rest:
                z, gradient, steps = _newton(a, -b, cost, rest[i], precision)
            else:
                z, gradient, steps = _newton(a, b, cost, old, precision)
            largest, n_steps = max(largest, gradient), n_steps + steps
            if steps or round == 0:
                alpha[i], rest[i] = (cost - z, z) if in_rest else (z, cost - z)
                # The weights begin at zero, as if every a_i did.
                _add(examples, row, (alpha[i] - (old if round else 0.0)) * sign[i], w)
        if largest < settings.tolerance:
            break
        if n_steps <= n // 10:
            precision = max(finest, 0.1 * precision)


@loop_part
def _newton(a, b, cost, old, precision):  # type: ignore[no-untyped-def]
    """Solve a (z - old) + b + log(z / (cost - z)) = 0: z, |the value at first|, steps taken."""
    z = 0.1 * old if cost - old < 0.5 * cost else old
    gradient = a * (z - old) + b + np.log(z / (cost - z))
    first, steps = abs(gradient), 0
    while abs(gradient) >= precision and steps <= 100:
        fresh = z - gradient / (a + cost / (cost - z) / z)
        z = fresh if fresh > 0.0 else 0.1 * z
        gradient = a * (z - old) + b + np.log(z / (cost - z))
        steps += 1
    return z if steps else old, first, steps


@loop_part
def _product(examples, row, w):  # type: ignore[no-untyped-def]
    """Return <w, x> and the bias, by four sums that do not depend on one another."""
    indices, data = examples.indices, examples.data
    cell, last = examples.indptr[row], examples.indptr[row + 1]
    a = b = c = d = np.float32(0.0)
    while cell + 4 <= last:
        a += w[indices[cell]] * data[cell]
        b += w[indices[cell + 1]] * data[cell + 1]
        c += w[indices[cell + 2]] * data[cell + 2]
        d += w[indices[cell + 3]] * data[cell + 3]
        cell += 4
    while cell < last:
        a += w[indices[cell]] * data[cell]
        cell += 1
    return (a + b) + (c + d) + np.float64(w[len(w) - 1])


@loop_part
def _add(examples, row, amount, w):  # type: ignore[no-untyped-def]
    step = np.float32(amount)
    for cell in range(examples.indptr[row], examples.indptr[row + 1]):
        w[examples.indices[cell]] += step * examples.data[cell]
    w[len(w) - 1] += step


@loop_part
def _take_weights(examples, rows, prune, scratch):  # type: ignore[no-untyped-def]
    """Move the weights that are kept into features and values, zero all; return the count."""
    w, features, values = scratch.weights, scratch.features, scratch.values
    bias, kept, cells = len(w) - 1, np.int64(0), 0
    for row in rows:
        cells += examples.indptr[row + 1] - examples.indptr[row]
    if cells >= bias:
        for feature in range(bias):
            kept = _take(feature, w, prune, features, values, kept)
    else:
        for row in rows:
            for cell in range(examples.indptr[row], examples.indptr[row + 1]):
                kept = _take(np.int64(examples.indices[cell]), w, prune, features, values, kept)
    return _take(bias, w, 0.0, features, values, kept)


@loop_part
def _take(feature, w, prune, features, values, kept):  # type: ignore[no-untyped-def]
    value = w[feature]
    w[feature] = 0.0
    if value == 0.0 or abs(value) < prune:
        return kept
    features[kept], values[kept] = feature, value
    return kept + 1


@loop_part
def append(pieces, filled, piece, count):  # type: ignore[no-untyped-def]
    """Return `pieces`, made longer if need be, with `count` values of `piece` from `filled` on."""
    if filled + count > len(pieces):
        longer = np.empty(2 * (filled + count), pieces.dtype)
        for place in range(filled):
            longer[place] = pieces[place]
        pieces = longer
    for place in range(count):
        pieces[filled + place] = piece[place]
    return pieces


@loop_part
def shuffle(order, n, random):  # type: ignore[no-untyped-def]
    for i in range(n - 1, 0, -1):
        random = _next(random)
        j = (random >> np.uint64(32)) * np.uint64(i + 1) >> np.uint64(32)
        order[i], order[j] = order[j], order[i]
    return random


@loop_part
def _next(random):  # type: ignore[no-untyped-def]
    random ^= random << np.uint64(13)
    random ^= random >> np.uint64(7)
    return random ^ (random << np.uint64(17))
