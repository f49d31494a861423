"""The best few of many values, kept in order in compiled loops."""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True)
def keep_best(value, item, best_values, best_items, filled):  # type: ignore[no-untyped-def]
    """Insert into a short descending list; on equal values the smaller item goes first.

    Returns how many places are filled. Insertion beats a heap here: lists are short and nearly
    every candidate fails the first comparison.
    """
    size = len(best_values)
    if filled == size:
        last = size - 1
        if value < best_values[last] or (value == best_values[last] and item > best_items[last]):
            return filled
        place = last
    else:
        place = filled
        filled += 1
    while place > 0 and (
        best_values[place - 1] < value
        or (best_values[place - 1] == value and best_items[place - 1] > item)
    ):
        best_values[place] = best_values[place - 1]
        best_items[place] = best_items[place - 1]
        place -= 1
    best_values[place] = value
    best_items[place] = item
    return filled
