"""Storage of a fitted member's arrays in fewer bytes.

Floats of 32 bits are stored in 16, with three significant digits; integers are stored in the
narrowest type that holds them all, without loss. The original type is appended to the name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from labelspace._core.checks import expect
from labelspace._core.compiled import loop

_MARK = "@"  # between the name of a narrowed array and its original type
_MIN_SIZE = 1024  # shorter arrays take little space, and often hold numbers that all others use
_NARROWED = ("float32", "int32", "int64")
_MAX_FLOAT16 = 65_000.0  # 65,504 is the largest number that 16 bits hold
# Bits of a float of 32 bits: digits that 16 do not hold, all but the sign, and the size below which
# 16 bits hold fewer digits.
_DIGITS, _SIZE, _SMALL = np.uint32(0x1FFF), np.uint32(0x7FFFFFFF), np.uint32(0x38800000)


def to_float16(
    arrays: Mapping[str, np.ndarray], full_precision: Collection[str] = ()
) -> dict[str, np.ndarray]:
    """Return the arrays with floats in 16 bits and integers in as few as hold them.

    Parameters
    ----------
    arrays : mapping of str to ndarray
        What `Method.state` returns.
    full_precision : collection of str
        Arrays whose floats keep 32 bits, by the last part of their dotted names.

    Returns
    -------
    dict of str to ndarray
        An array that would lose more than digits (a large number, an infinity), or is short, is
        the one that was given.
    """
    stored = {}
    for name, array in arrays.items():
        exact = array.dtype.kind == "f" and name.rpartition(".")[2] in full_precision
        narrow = array if exact else _narrow(array)
        stored[name if narrow is array else f"{name}{_MARK}{array.dtype}"] = narrow
    return stored


def as_float32(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays in the types that `to_float16` found; others are not copied."""
    restored = {}
    for name, array in arrays.items():
        plain, _, dtype = name.partition(_MARK)
        expect(dtype in ("", *_NARROWED), f"{name} has an original type that is never narrowed")
        restored[plain] = array.astype(dtype) if dtype else array
    return restored


def round_in_place(arrays: Mapping[str, np.ndarray], full_precision: Collection[str] = ()) -> None:
    """Round floats to those that `to_float16` stores, in the arrays that are given.

    Arrays that are read-only come from a file, and are rounded already.
    """
    for name, array in arrays.items():
        exact = name.rpartition(".")[2] in full_precision
        if array.dtype == np.float32 and not exact and array.flags.writeable and _fits(array):
            if not array.flags.c_contiguous:
                array[...] = array.astype(np.float16)
                continue
            flat = array.reshape(-1)
            places = _unrounded(flat.view(np.uint32))
            flat[places] = flat[places].astype(np.float16)


def _fits(array: np.ndarray) -> bool:
    """Return whether floats of 32 bits are stored in 16."""
    if array.size < _MIN_SIZE:
        return False
    low, high = array.min(), array.max()
    return bool(np.isfinite(low) and np.isfinite(high) and max(-low, high) < _MAX_FLOAT16)


@loop
def _unrounded(bits):  # type: ignore[no-untyped-def]
    """Return the places of floats that may have more digits than 16 bits hold.

    Most are rounded already, and rounding all of them takes ten times as long.
    """
    count = 0
    for place in range(len(bits)):
        size = bits[place] & _SIZE
        count += (bits[place] & _DIGITS) != 0 or 0 < size < _SMALL
    places = np.empty(count, np.int64)
    count = 0
    for place in range(len(bits)):
        size = bits[place] & _SIZE
        if (bits[place] & _DIGITS) != 0 or 0 < size < _SMALL:
            places[count] = place
            count += 1
    return places


def _narrow(array: np.ndarray) -> np.ndarray:
    """Return the array in a narrower type, or itself where that would lose more than digits."""
    if array.dtype == np.float32:
        return array.astype(np.float16) if _fits(array) else array
    if array.size < _MIN_SIZE:
        return array
    if array.dtype in (np.int32, np.int64) and array.min() >= 0:
        high = array.max()
        narrow: np.ndarray = array.astype(np.min_scalar_type(high))
        return narrow if narrow.itemsize < array.itemsize else array
    return array
