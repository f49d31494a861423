"""Compiled loops over the rows of matrices, which every single prediction needs."""

from __future__ import annotations

import numpy as np
from numba import njit

_SHORTEST = np.float32(1e-12)  # length below which a dense row counts as zeros


@njit(cache=True, nogil=True)
def scale_rows(indptr, data, scaled):  # type: ignore[no-untyped-def]
    """Divide each row's data by its length; rows of zeros stay. `scaled` may be `data` itself."""
    for row in range(len(indptr) - 1):
        square = 0.0
        for cell in range(indptr[row], indptr[row + 1]):
            square += float(data[cell]) ** 2
        scale = 1.0 / np.sqrt(square) if square > 0.0 else 1.0
        for cell in range(indptr[row], indptr[row + 1]):
            scaled[cell] = data[cell] * scale


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def scale_dense_rows(rows, scaled):  # type: ignore[no-untyped-def]
    """Divide each row of an array by its length; rows of zeros stay."""
    for row in range(len(rows)):
        square = np.float32(0.0)
        for value in rows[row]:
            square += value * value
        factor = 1.0 / max(np.sqrt(square), _SHORTEST)
        for j in range(rows.shape[1]):
            scaled[row, j] = factor * rows[row, j]


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
    """Return 1 / |row| of a row's values data[start:stop], 1 for zeros: `unit_rows` in a loop."""
    square = np.float32(0.0)
    for cell in range(start, stop):
        square += data[cell] * data[cell]
    return np.float32(1.0) / np.sqrt(square) if square > 0.0 else np.float32(1.0)
