"""Rows of a sparse matrix brought to length 1, in a compiled loop: single questions wait for it."""

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
