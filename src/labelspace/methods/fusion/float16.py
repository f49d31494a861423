"""Storage of a fitted member's arrays in fewer bytes.

Floats of 32 bits are stored in 16, with three significant digits; integers are stored in the
narrowest type that holds them all, without loss. The original type is appended to the name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from labelspace._core.checks import expect

_MARK = "@"  # between the name of a narrowed array and its original type
_MIN_SIZE = 1024  # shorter arrays take little space, and often hold numbers that all others use
_NARROWED = ("float32", "int32", "int64")
_MAX_FLOAT16 = 65_000.0  # 65,504 is the largest number that 16 bits hold


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


def _narrow(array: np.ndarray) -> np.ndarray:
    """Return the array in a narrower type, or itself where that would lose more than digits."""
    if array.size < _MIN_SIZE:
        return array
    low, high = array.min(), array.max()
    if array.dtype == np.float32:
        fits = np.isfinite(low) and np.isfinite(high) and max(-low, high) < _MAX_FLOAT16
        return array.astype(np.float16) if fits else array
    if array.dtype in (np.int32, np.int64) and low >= 0:
        narrow: np.ndarray = array.astype(np.min_scalar_type(high))
        return narrow if narrow.itemsize < array.itemsize else array
    return array
