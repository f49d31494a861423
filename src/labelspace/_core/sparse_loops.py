"""Compiled loops over sparse matrices that every single prediction waits for."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def scale_rows(indptr, data, scaled):  # type: ignore[no-untyped-def]
    """Each row's data divided by its length; rows of zeros stay."""
    for row in range(len(indptr) - 1):
        square = 0.0
        for cell in range(indptr[row], indptr[row + 1]):
            square += float(data[cell]) ** 2
        scale = 1.0 / np.sqrt(square) if square > 0.0 else 1.0
        for cell in range(indptr[row], indptr[row + 1]):
            scaled[cell] = data[cell] * scale


@njit(cache=True, nogil=True)
def all_inside(indptr, indices, n_values, n_rows, n_columns):  # type: ignore[no-untyped-def]
    """Return whether the index arrays of a CSR matrix stay within its values and its shape."""
    if len(indptr) != n_rows + 1 or indptr[0] != 0:
        return False
    for row in range(n_rows):
        if indptr[row] > indptr[row + 1]:
            return False
    if indptr[n_rows] > min(len(indices), n_values):
        return False
    inside = True  # no early exit: the loop runs in vector instructions
    for column in indices:
        inside &= 0 <= column < n_columns
    return inside


@njit(cache=True, nogil=True)
def inverse_length(data, start, stop):  # type: ignore[no-untyped-def]
    """1 / |row| of a row's non-zeros data[start:stop], 1 if it has none: `unit_rows` in a loop."""
    square = np.float32(0.0)
    for cell in range(start, stop):
        square += data[cell] * data[cell]
    return np.float32(1.0) / np.sqrt(square) if square > 0.0 else np.float32(1.0)
