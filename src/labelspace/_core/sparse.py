"""Tools for scipy's CSR matrices, the sparse format of all packages: float32, sorted indices."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from math import isfinite
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse

from labelspace.errors import InputError

_COUNTED = 1 << 22  # numbers counted at a time, to bound memory


def checked_features(X: Any, n_features: int | None = None) -> csr_matrix | np.ndarray:
    """Return X as CSR or C-ordered array of finite float32; raise InputError for anything else."""
    given = _matrix_of_numbers(X, "X")
    if issparse(given):
        # Rebuilding a matrix costs more than a small query: only where it is needed.
        ready = isinstance(given, csr_matrix) and given.dtype == np.float32
        matrix = given if ready else csr_matrix(given, dtype=np.float32)
        if not matrix.has_canonical_format:
            matrix = matrix.copy()  # the arrays may be the caller's
            matrix.sum_duplicates()
        values = matrix.data
    else:
        matrix = values = np.ascontiguousarray(given, dtype=np.float32)
    # The sum of squares is quick and shows them all, but may overflow where there are none.
    if not isfinite(np.vdot(values, values)) and not np.isfinite(values).all():
        raise InputError("X holds NaN or infinite values")
    if n_features is not None and matrix.shape[1] != n_features:
        raise InputError(f"X has {matrix.shape[1]} features; the model was fitted on {n_features}")
    return matrix


def checked_labels(Y: Any, n_rows: int) -> csr_matrix:
    """Return Y as CSR of float32 ones with sorted indices; stored zeros are no labels."""
    matrix = csr_matrix(_matrix_of_numbers(Y, "Y"), dtype=np.float32, copy=True)
    if not np.isfinite(matrix.data).all():
        raise InputError("Y holds NaN or infinite values")
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if matrix.shape[0] != n_rows:
        raise InputError(f"X has {n_rows} rows and Y has {matrix.shape[0]}")
    if matrix.shape[1] == 0:
        raise InputError("Y has no columns: there is no label to learn")
    matrix.data[:] = 1.0
    return matrix


def _matrix_of_numbers(given: Any, name: str) -> Any:
    """Return a sparse matrix as it is, or a 2-d array; raise InputError for anything else."""
    if np.ma.isMaskedArray(given):
        raise InputError(f"{name} is a masked array: fill its gaps first, as {name}.filled(0) does")
    if issparse(given):
        matrix = given
    else:
        try:
            matrix = np.asarray(given)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"{name} must be a CSR matrix or an array of numbers: {error}"
            ) from None
    if matrix.dtype.kind not in "biuf":
        raise InputError(
            f"{name} must be a CSR matrix or an array of numbers, got values of type {matrix.dtype}"
        )
    if matrix.ndim != 2:
        raise InputError(f"{name} must have two dimensions, got shape {matrix.shape}")
    if issparse(matrix):
        if matrix.format not in ("csr", "csc", "coo"):
            matrix = csr_matrix(matrix)
        _check_places(matrix, name)
    return matrix


def _check_places(matrix: Any, name: str) -> None:
    """Raise InputError for non-zeros outside of the matrix: scipy trusts its index arrays."""
    if matrix.format == "coo":
        inside = all(
            _all_within(places, size)
            for places, size in zip((matrix.row, matrix.col), matrix.shape, strict=True)
        )
    else:
        from labelspace._core.sparse_loops import (
            all_inside,  # numba, which reading data does without
        )

        shape = matrix.shape if matrix.format == "csr" else matrix.shape[::-1]
        inside = all_inside(matrix.indptr, matrix.indices, len(matrix.data), *shape)
    if not inside:
        raise InputError(
            f"{name} has non-zeros outside of its shape {matrix.shape}: build its index arrays anew"
        )


def _all_within(places: np.ndarray, size: int) -> bool:
    return len(places) == 0 or bool(places.min() >= 0 and places.max() < size)


def hits_of(Y: csr_matrix, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return whether Y has the label of each (row, label) pair, as a flat array."""
    if len(rows) == 0:  # scipy's answer would be a sparse matrix, not an array
        return np.zeros(0, np.bool_)
    return np.asarray(np.asarray(Y[rows, labels]).ravel() > 0)


def rows_of(matrix: csr_matrix) -> np.ndarray:
    """Return the row of each stored value, (nnz,) int64."""
    return np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))


def unit_rows(matrix: csr_matrix) -> csr_matrix:
    """Return the matrix with each row divided by its length; rows of zeros stay.

    scikit-learn's `normalize` refuses a matrix without rows, and its checks alone take longer than
    a single query.
    """
    from labelspace._core.sparse_loops import scale_rows  # numba, which reading data does without

    data = np.empty(len(matrix.data), np.float32)
    scale_rows(matrix.indptr, matrix.data, data)
    return csr_matrix((data, matrix.indices, matrix.indptr), shape=matrix.shape, copy=False)


def bounded_rows(matrix: csr_matrix, longest: float) -> csr_matrix:
    """Return the matrix with rows of which an entry exceeds `longest` scaled down to it.

    Products of such rows would overflow. If there are none, the matrix itself is returned.
    """
    sizes = np.abs(matrix.data)
    if sizes.max(initial=0.0) <= longest:
        return matrix
    largest = np.zeros(matrix.shape[0], np.float64)
    np.maximum.at(largest, rows_of(matrix), sizes)
    scale = longest / np.maximum(largest, longest)
    data = (matrix.data * np.repeat(scale, np.diff(matrix.indptr))).astype(np.float32)
    return csr_matrix((data, matrix.indices, matrix.indptr), shape=matrix.shape, copy=False)


def with_columns(matrix: csr_matrix, n_columns: int) -> csr_matrix:
    """Return the matrix with so many columns, at least its own; the arrays are shared."""
    parts = (matrix.data, matrix.indices, matrix.indptr)
    return csr_matrix(parts, shape=(matrix.shape[0], n_columns), copy=False)


def without_columns(matrix: csr_matrix, columns: np.ndarray) -> csr_matrix:
    """Return the matrix with its shape, without the entries of these columns."""
    if len(columns) == 0:
        return matrix
    gone = np.zeros(matrix.shape[1], np.bool_)
    gone[columns] = True
    kept = matrix.copy()
    kept.data[gone[kept.indices]] = 0.0
    kept.eliminate_zeros()
    return kept


def with_rows(matrix: csr_matrix, rows: np.ndarray, found: csr_matrix, n_rows: int) -> csr_matrix:
    """Return a matrix of `n_rows` rows: those of `found` in the places `rows`, else its own.

    Rows are sorted, without repeats. Rows behind those of the matrix that are not in `rows` are
    empty.
    """
    counts = np.zeros(n_rows, np.int64)
    counts[: matrix.shape[0]] = np.diff(matrix.indptr)
    counts[rows] = np.diff(found.indptr)
    indptr = np.concatenate([[0], counts.cumsum()])
    indices, data = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], matrix.dtype)
    last = matrix.shape[0]
    # Between two of the rows, those of the matrix are copied as one piece.
    starts, stops = np.append(0, rows + 1), np.append(rows, n_rows)
    for start, stop in zip(np.minimum(starts, last), np.minimum(stops, last), strict=True):
        old = slice(matrix.indptr[start], matrix.indptr[stop])
        new = slice(indptr[start], indptr[start] + old.stop - old.start)
        indices[new], data[new] = matrix.indices[old], matrix.data[old]
    replaced = np.repeat(np.isin(np.arange(n_rows), rows), counts)
    indices[replaced], data[replaced] = found.indices, found.data
    return csr_matrix((data, indices, indptr), shape=(n_rows, matrix.shape[1]), copy=False)


def with_values(matrix: csr_matrix, values: np.ndarray) -> csr_matrix:
    """Return a matrix with other values in the same places; the places are shared."""
    return csr_matrix((values, matrix.indices, matrix.indptr), shape=matrix.shape, copy=False)


def rows_with(matrix: csr_matrix, columns: np.ndarray) -> np.ndarray:
    """Return the rows that have a stored value in one of the columns, sorted.

    Examples
    --------
    >>> import numpy as np
    >>> rows_with(csr_matrix(np.eye(4)), np.array([1, 3]))
    array([1, 3])
    """
    wanted = np.zeros(matrix.shape[1] + 1, np.bool_)
    wanted[columns] = True
    found = np.concatenate([[0], wanted[matrix.indices].cumsum()])
    return np.flatnonzero(found[matrix.indptr[1:]] > found[matrix.indptr[:-1]])


def pack_csr(prefix: str, matrix: csr_matrix) -> dict[str, np.ndarray]:
    """Return a CSR matrix as flat arrays, for a method's state."""
    return {
        f"{prefix}.data": matrix.data,
        f"{prefix}.indices": matrix.indices,
        f"{prefix}.indptr": matrix.indptr,
        f"{prefix}.shape": np.array(matrix.shape, np.int64),
    }


def unpack_csr(prefix: str, arrays: Mapping[str, np.ndarray]) -> csr_matrix:
    """Return the matrix that `pack_csr` packed; memory maps are not copied.

    Arrays of a file are checked before, by a schema that declares them as `csr`: compiled loops
    trust all of them, and what does not fit would have them read and write anywhere.
    """
    data, indices, indptr = (arrays[f"{prefix}.{part}"] for part in ("data", "indices", "indptr"))
    rows, columns = (int(size) for size in arrays[f"{prefix}.shape"])
    return csr_matrix((data, indices, indptr), shape=(rows, columns), copy=False)


def digest(*items: Any) -> str:
    """Return a fingerprint of matrices, arrays and plain values, of types and shapes too."""
    sha = hashlib.blake2b(digest_size=16)
    for item in items:
        if issparse(item):
            arrays = [item.indptr, item.indices, item.data]
        elif isinstance(item, np.ndarray):
            arrays = [item]
        else:
            sha.update(repr(item).encode())
            continue
        sha.update(repr((item.shape, *(array.dtype.str for array in arrays))).encode())
        for array in arrays:
            sha.update(np.ascontiguousarray(array).data)
    return sha.hexdigest()


def as_csr(X: csr_matrix | np.ndarray) -> csr_matrix:
    """Return features as CSR, for methods that work on non-zeros alone."""
    return X if issparse(X) else csr_matrix(X)


def left_columns(matrix: csr_matrix, width: int) -> csr_matrix:
    """Return the first `width` columns of a matrix with sorted indices.

    Written by hand since scipy's own slice takes longer than a single prediction.
    """
    return _column_range(matrix, 0, width)


def right_columns(matrix: csr_matrix, start: int) -> csr_matrix:
    """Return the columns from `start` on of a matrix with sorted indices."""
    return matrix if start == 0 else _column_range(matrix, start, matrix.shape[1])


def _column_range(matrix: csr_matrix, start: int, stop: int) -> csr_matrix:
    from labelspace._core.sparse_loops import copy_columns, count_columns

    indptr = np.zeros(matrix.shape[0] + 1, matrix.indptr.dtype)
    count_columns(matrix.indptr, matrix.indices, start, stop, indptr)
    indices = np.empty(indptr[-1], matrix.indices.dtype)
    data = np.empty(indptr[-1], matrix.data.dtype)
    copy_columns(*(matrix.indptr, matrix.indices, matrix.data, start, stop, indptr, indices, data))
    return csr_matrix((data, indices, indptr), shape=(matrix.shape[0], stop - start), copy=False)


def beside(left: csr_matrix, right: csr_matrix) -> csr_matrix:
    """Return two matrices of float32 side by side; scipy's own takes longer than a prediction."""
    from labelspace._core.sparse_loops import join_rows

    size, shape = left.nnz + right.nnz, (left.shape[0], left.shape[1] + right.shape[1])
    index = np.int64 if max(size, shape[1]) > np.iinfo(np.int32).max else np.int32
    indptr = (left.indptr.astype(index) + right.indptr).astype(index)
    indices, data = np.empty(size, index), np.empty(size, np.float32)
    join_rows(
        *(left.indptr, left.indices, left.data, right.indptr, right.indices, right.data),
        *(left.shape[1], indptr, indices, data),
    )
    return csr_matrix((data, indices, indptr), shape=shape, copy=False)


def counts_of(indices: np.ndarray, size: int) -> np.ndarray:
    """Return how often each number below `size` occurs, int64.

    `np.bincount` would first copy all of them to 64 bits.
    """
    found: np.ndarray = np.zeros(size, np.int64)
    step = max(_COUNTED, size)  # in steps much shorter than `found` it would be quadratic
    for start in range(0, len(indices), step):
        found += np.bincount(indices[start : start + step], minlength=size)
    return found
