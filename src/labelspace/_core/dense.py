"""Dense arrays of vectors, one per row."""

from __future__ import annotations

import numpy as np


def unit_array(rows: np.ndarray) -> np.ndarray:
    """Return the rows divided by their lengths, float32; rows of zeros stay.

    Compiled: for a single row, numpy's calls take longer than the arithmetic. For sparse matrices
    there is `labelspace._core.sparse.unit_rows`.
    """
    from labelspace._core.sparse_loops import scale_dense_rows  # numba, which reading does without

    if rows.dtype.kind != "f" or rows.dtype.itemsize < 4:  # numba has no half precision
        rows = rows.astype(np.float32)
    scaled = np.empty(rows.shape, np.float32)
    scale_dense_rows(rows, scaled)
    return scaled


def read_only(array: np.ndarray) -> np.ndarray:
    """Return a view that is read-only, as arrays of a file are.

    Loops are compiled once per type, and may round otherwise: so a model that was trained and one
    that was loaded run the same.
    """
    view = array.view()
    view.setflags(write=False)
    return view
