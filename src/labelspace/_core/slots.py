"""Hash tables within compiled loops, for the few of many numbers that one query meets.

An array of all labels or examples would have to be zeroed for every query.
"""

from __future__ import annotations

import numpy as np

from labelspace._core.compiled import loop_part


@loop_part
def new_table(most):  # type: ignore[no-untyped-def]
    """Return a table for up to `most` keys: a power of two of slots, at least half of them free."""
    size = 16
    while size < 2 * most:
        size *= 2
    return np.full(size, -1, np.int32)


@loop_part
def slot_of(table, keys, key):  # type: ignore[no-untyped-def]
    """Return the slot that has the place of `key` among the keys met so far, or a free one (-1)."""
    last = len(table) - 1
    slot = (np.int64(key) * 0x9E3779B1 >> 7) & last
    while table[slot] >= 0 and keys[table[slot]] != key:
        slot = (slot + 1) & last
    return slot
