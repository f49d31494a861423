"""Inner products of a float32 query and one vector of a table, in any precision of the table.

A table is a float32 array, a uint16 array of the bits of half-precision numbers, which numba does
not compute with, or a tuple of 8-bit codes, scales and last numbers (`stored_vectors.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from labelspace._core.compiled import loop_part

Stored = Any  # an array or a tuple of arrays
# The exponent of a half-precision number has another zero: 2 ** 112 corrects it.
_BIAS = np.float32(2.0**112)
_SIGN, _REST = np.uint32(0x8000), np.uint32(0x7FFF)
_TO_SIGN, _TO_REST = np.uint32(16), np.uint32(13)
_FAST = {"reassoc", "contract"}


# Sums may be reordered, or the loop would not use vector instructions.
@loop_part(fastmath=_FAST)
def dot(one, other):  # type: ignore[no-untyped-def]
    """Return the inner product in float32."""
    total = np.float32(0.0)
    for j in range(len(one)):
        total += one[j] * other[j]
    return total


@loop_part(fastmath=_FAST)
def _dot_of_halves(query, halves):  # type: ignore[no-untyped-def]
    total = np.float32(0.0)
    for j in range(len(query)):
        half = np.uint32(halves[j])
        bits = np.uint32(((half & _SIGN) << _TO_SIGN) | ((half & _REST) << _TO_REST))
        total += query[j] * (bits.view(np.float32) * _BIAS)
    return total


@loop_part(fastmath=_FAST)
def _dot_of_codes(query, codes):  # type: ignore[no-untyped-def]
    total = np.float32(0.0)
    for j in range(len(codes)):
        total += query[j] * np.float32(codes[j])
    return total


def row_product(query: Any, table: Any, row: Any) -> Any:
    """Return the inner product of a query and one row of a table; for compiled loops."""
    raise NotImplementedError("only compiled loops call it")


@overload(row_product, jit_options={"fastmath": _FAST})
def _row_product(query, table, row):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Choose by the type of the table, when a loop is compiled."""
    if isinstance(table, types.BaseTuple):
        return lambda query, table, row: (
            table[1][row] * _dot_of_codes(query, table[0][row])
            + table[2][row] * query[len(query) - 1]
        )
    if table.dtype == types.uint16:
        return lambda query, table, row: _dot_of_halves(query, table[row])
    return lambda query, table, row: dot(query, table[row])
