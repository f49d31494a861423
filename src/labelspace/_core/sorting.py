"""Sorting in compiled loops.

numpy's sort and argsort, in a loop, take a second to compile; these take a tenth of it.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def sort_first(values, count):  # type: ignore[no-untyped-def]
    """Sort the first `count` numbers, in place; for some hundred of them (Shell's sort)."""
    gap = np.int64(1)
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
