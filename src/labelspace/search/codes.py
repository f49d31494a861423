"""Vectors as 8-bit integers, for scans that only have to find a short list.

A quarter of the bytes is read, which is where the time goes; the short list is scored exactly.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from labelspace._core.threads import parallel_blocks

LARGEST_CODE = 127


def quantise(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Step of each dimension, and the vectors as multiples of it in 8 bits."""
    steps = np.maximum(vectors.max(axis=0), -vectors.min(axis=0)) / np.float32(LARGEST_CODE)
    steps[steps < np.finfo(np.float32).tiny] = 1  # a dimension of zeros
    codes = np.empty(vectors.shape, np.int8)

    def block(start: int, stop: int) -> None:
        codes[start:stop] = np.rint(vectors[start:stop] / steps)

    parallel_blocks(len(vectors), block, block=4096)
    return steps, codes


@njit(cache=True, nogil=True)
def to_integers(query, steps, out):  # type: ignore[no-untyped-def]
    """The query on the scale of the codes, as fine as 16 bits allow without overflow of a sum."""
    largest = np.float32(0.0)
    for j in range(len(query)):
        largest = max(largest, abs(query[j] * steps[j]))
    finest = min(32_767, (2**31 - 1) // (LARGEST_CODE * len(query)))
    for j in range(len(query)):
        out[j] = np.rint(query[j] * steps[j] / largest * finest) if largest > 0 else 0


@njit(cache=True, nogil=True)
def integer_dot(query, codes, label):  # type: ignore[no-untyped-def]
    # Narrow at each step: in 32 bits the compiler finds the processor's multiply-add of integers.
    total = np.int32(0)
    for j in range(len(query)):
        total = np.int32(total + np.int32(query[j]) * np.int32(codes[label, j]))
    return total
