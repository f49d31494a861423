"""Vectors as 8-bit integers, for scans that only have to find candidates.

A quarter of the bytes is read, which is where the time goes; candidates are scored exactly.
"""

from __future__ import annotations

import numpy as np

from labelspace._core.compiled import loop_part
from labelspace._core.threads import parallel_blocks

LARGEST_CODE = 127


def quantise(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the scale of each dimension, and the vectors as multiples of it in 8 bits."""
    scales = np.maximum(vectors.max(axis=0), -vectors.min(axis=0)) / np.float32(LARGEST_CODE)
    scales[scales < np.finfo(np.float32).tiny] = 1  # a dimension of zeros
    codes = np.empty(vectors.shape, np.int8)

    def block(start: int, stop: int) -> None:
        codes[start:stop] = np.rint(vectors[start:stop] / scales)

    parallel_blocks(len(vectors), block, block=4096)
    return scales, codes


@loop_part
def to_integers(query, scales, out):  # type: ignore[no-untyped-def]
    """Round the query to the codes' scales, as fine as 16 bits allow without overflow of a sum."""
    largest = np.float32(0.0)
    for j in range(len(query)):
        largest = max(largest, abs(query[j] * scales[j]))
    finest = min(32_767, (2**31 - 1) // (LARGEST_CODE * len(query)))
    for j in range(len(query)):
        out[j] = np.rint(query[j] * scales[j] / largest * finest) if largest > 0 else 0


@loop_part
def integer_dot(query, codes, label):  # type: ignore[no-untyped-def]
    """Return the inner product of a query and one row of codes in 32 bits."""
    # Narrow at each step: so the compiler finds the processor's multiply-add of integers.
    total = np.int32(0)
    for j in range(len(query)):
        total = np.int32(total + np.int32(query[j]) * np.int32(codes[label, j]))
    return total
