"""Sorting in compiled loops.

numpy's sort and argsort, in a loop, take a second to compile; these take a tenth of it.
"""

from __future__ import annotations

import numpy as np

from labelspace._core.compiled import loop_part

_RUN = 8  # numbers that are sorted by insertion before they are merged


@loop_part
def sort_first(values, count):  # type: ignore[no-untyped-def]
    """Sort the first `count` numbers, in place; for some hundred of them (Shell's sort)."""
    gap = 1
    while 3 * gap + 1 < count:
        gap = 3 * gap + 1
    while gap > 0:
        for start in range(gap, count):
            value, place = values[start], start
            while place >= gap and values[place - gap] > value:
                values[place] = values[place - gap]
                place -= gap
            values[place] = value
        gap //= 3


@loop_part
def stable_order(keys):  # type: ignore[no-untyped-def]
    """Return the order in which keys rise, equal ones as they come: np.argsort(stable=True)."""
    n = len(keys)
    order, merged = np.empty(n, np.int64), np.empty(n, np.int64)
    for start in range(n):
        place = start
        while place % _RUN and keys[order[place - 1]] > keys[start]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = start
    width = _RUN
    while width < n:
        for first in range(0, n, 2 * width):
            middle, last = min(first + width, n), min(first + 2 * width, n)
            left, right = first, middle
            for place in range(first, last):
                if right == last or (left < middle and keys[order[left]] <= keys[order[right]]):
                    merged[place] = order[left]
                    left += 1
                else:
                    merged[place] = order[right]
                    right += 1
        order, merged = merged, order
        width *= 2
    return order
