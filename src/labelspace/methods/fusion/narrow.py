"""Arrays in fewer bytes: what a model keeps on disk need not be as wide as what it computes with.

Numbers of 32 bits are kept in 16, which costs them their fourth digit; whole numbers are kept in
the narrowest form that holds them all, which costs nothing. The name tells what they were.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from labelspace._core.checks import expect

_MARK = "@"
_SMALL = 1024  # fewer numbers are left alone: they are often the ones that count
_WIDE = ("float32", "int32", "int64")
_LARGEST = 65_000.0  # what 16 bits can hold


def compact(
    arrays: Mapping[str, np.ndarray], full_precision: Collection[str] = ()
) -> dict[str, np.ndarray]:
    """The same arrays, narrower where that can be undone by `widened`.

    full_precision  arrays whose floats keep 32 bits, by the last part of their dotted names
    """
    kept = {}
    for name, array in arrays.items():
        exact = array.dtype.kind == "f" and name.rpartition(".")[2] in full_precision
        narrow = array if exact else _narrow(array)
        kept[name if narrow is array else f"{name}{_MARK}{array.dtype}"] = narrow
    return kept


def widened(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The inverse of `compact`, but for digits lost. Arrays it left alone are not copied."""
    found = {}
    for name, array in arrays.items():
        plain, _, dtype = name.partition(_MARK)
        expect(dtype in ("", *_WIDE), f"{name} was of a type that is not kept narrower")
        found[plain] = array.astype(dtype) if dtype else array
    return found


def _narrow(array: np.ndarray) -> np.ndarray:
    if array.size < _SMALL:
        return array
    low, high = array.min(), array.max()
    if array.dtype == np.float32:
        fits = np.isfinite(low) and np.isfinite(high) and max(-low, high) < _LARGEST
        return array.astype(np.float16) if fits else array
    if array.dtype in (np.int32, np.int64) and low >= 0:
        narrow: np.ndarray = array.astype(np.min_scalar_type(high))
        return narrow if narrow.itemsize < array.itemsize else array
    return array
