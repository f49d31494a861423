"""Checks of arrays from a model file, made before a compiled loop trusts them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from labelspace.errors import ModelFormatError

OFFSETS = "shortlist.offsets"  # the only array of a model that may hold -inf


def expect(holds: bool, what: str) -> None:
    """Raise ModelFormatError, a sentence on what does not fit, unless it holds."""
    if not holds:
        raise ModelFormatError(f"{what}: the model is damaged, restore it from a copy")


def all_within(ids: np.ndarray, low: int, limit: int) -> bool:
    """Return whether these are whole numbers from `low` to below `limit`."""
    if ids.dtype.kind not in "iu":
        return False
    return ids.size == 0 or (int(ids.min()) >= low and int(ids.max()) < limit)


def are_offsets(offsets: np.ndarray, count: int, end: int) -> bool:
    """Return whether these begin at 0, never fall, end at `end` and bound so many slices."""
    return (
        offsets.dtype in (np.int32, np.int64)
        and offsets.shape == (count + 1,)
        and int(offsets[0]) == 0
        and int(offsets[-1]) == end
        and bool((offsets[1:] >= offsets[:-1]).all())
    )


def are_numbers(array: np.ndarray, *shape: int | None) -> bool:
    """Return whether this is a float array of this shape; None is any length."""
    return (
        array.dtype.kind == "f"
        and array.ndim == len(shape)
        and all(want in (None, have) for have, want in zip(array.shape, shape, strict=True))
    )


def kept_count(arrays: Mapping[str, np.ndarray], name: str) -> int:
    """Return a setting of a search that is kept as an array: a whole number of at least 1."""
    kept = arrays[name]
    expect(kept.shape == (1,) and all_within(kept, 1, 2**62), f"{name} is out of range")
    return int(kept[0])
