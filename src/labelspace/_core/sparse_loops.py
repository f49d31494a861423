"""Compiled loops over the rows of matrices, which every single prediction needs."""

from __future__ import annotations

import numpy as np

from labelspace._core.compiled import loop, loop_part

_SHORTEST = np.float32(1e-12)  # length below which a dense row counts as zeros


@loop
def scale_rows(indptr, data, scaled):  # type: ignore[no-untyped-def]
    """Divide each row's data by its length; rows of zeros stay. `scaled` may be `data` itself."""
    for row in range(len(indptr) - 1):
        square = 0.0
        for cell in range(indptr[row], indptr[row + 1]):
            square += float(data[cell]) ** 2
        scale = 1.0 / np.sqrt(square) if square > 0.0 else 1.0
        for cell in range(indptr[row], indptr[row + 1]):
            scaled[cell] = data[cell] * scale


@loop(fastmath={"reassoc", "contract"})
def scale_dense_rows(rows, scaled):  # type: ignore[no-untyped-def]
    """Divide each row of an array by its length; rows of zeros stay."""
    for row in range(len(rows)):
        square = np.float32(0.0)
        for value in rows[row]:
            square += value * value
        factor = 1.0 / max(np.sqrt(square), _SHORTEST)
        for j in range(rows.shape[1]):
            scaled[row, j] = factor * rows[row, j]


@loop
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


@loop_part
def inverse_length(data, start, stop):  # type: ignore[no-untyped-def]
    """Return 1 / |row| of a row's values data[start:stop], 1 for zeros: `unit_rows` in a loop."""
    square = np.float32(0.0)
    for cell in range(start, stop):
        square += data[cell] * data[cell]
    return np.float32(1.0) / np.sqrt(square) if square > 0.0 else np.float32(1.0)


@loop
def count_columns(indptr, indices, start, stop, found):  # type: ignore[no-untyped-def]
    """Write the offsets of a matrix of the columns from `start` to below `stop`."""
    for row in range(len(indptr) - 1):
        count = 0
        for cell in range(indptr[row], indptr[row + 1]):
            count += start <= indices[cell] < stop
        found[row + 1] = found[row] + count


@loop
def copy_columns(  # type: ignore[no-untyped-def]
    indptr, indices, data, start, stop, own_indptr, own_indices, own_data
):
    """Write the cells of the columns from `start` to below `stop`."""
    for row in range(len(indptr) - 1):
        place = own_indptr[row]
        for cell in range(indptr[row], indptr[row + 1]):
            if start <= indices[cell] < stop:
                own_indices[place], own_data[place] = indices[cell] - start, data[cell]
                place += 1


@loop
def join_rows(  # type: ignore[no-untyped-def]
    indptr, indices, data, more_indptr, more_indices, more_data, width, own_indptr, own_indices,
    own_data,
):  # fmt: skip
    """Write the cells of two matrices side by side; the first has `width` columns."""
    for row in range(len(own_indptr) - 1):
        place = own_indptr[row]
        for cell in range(indptr[row], indptr[row + 1]):
            own_indices[place], own_data[place] = indices[cell], data[cell]
            place += 1
        for cell in range(more_indptr[row], more_indptr[row + 1]):
            own_indices[place], own_data[place] = width + more_indices[cell], more_data[cell]
            place += 1
