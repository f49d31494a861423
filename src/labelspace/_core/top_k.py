"""Top-k lists and heaps for compiled loops: values and items in two arrays, filled from the front.

A short list in order is kept by `keep_best`, a queue of which the largest is taken next by `push`
and `pop`.
"""

from __future__ import annotations

from labelspace._core.compiled import loop_part


@loop_part
def keep_best(value, item, best_values, best_items, filled):  # type: ignore[no-untyped-def]
    """Insert into a short descending list; on equal values the smaller item goes first.

    Return how many places are filled. Insertion is quicker than a heap here: lists are short and
    nearly every candidate fails the first comparison.
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


@loop_part
def push(value, item, values, items, size):  # type: ignore[no-untyped-def]
    """Insert into a heap whose root is the largest value; return its new size."""
    place = size
    while place > 0 and values[(place - 1) // 2] < value:
        parent = (place - 1) // 2
        values[place], items[place] = values[parent], items[parent]
        place = parent
    values[place], items[place] = value, item
    return size + 1


@loop_part
def pop(values, items, size):  # type: ignore[no-untyped-def]
    """Remove the root of a heap whose root is the largest value; return its new size."""
    size -= 1
    value, item, place = values[size], items[size], 0
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and values[child + 1] > values[child]:
            child += 1
        if values[child] <= value:
            break
        values[place], items[place] = values[child], items[child]
        place = child
    values[place], items[place] = value, item
    return size
