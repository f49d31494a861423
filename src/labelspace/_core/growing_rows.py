"""Sparse matrices that rows are appended to, one update after another, without copying the rest."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix


class GrowingRows:
    """The rows of a CSR matrix, with room for more behind them.

    `plus` returns the longer matrix and leaves this one as it is: both share their arrays, which
    are copied only when they are full, or when another matrix was made of this one before. So n
    appended rows cost in proportion to n.

    Examples
    --------
    >>> from scipy.sparse import csr_matrix
    >>> rows = GrowingRows.of(csr_matrix([[0, 1], [2, 0]]))
    >>> longer = rows.plus(csr_matrix([[0, 3]]))
    >>> longer.matrix(3).toarray().tolist(), len(rows)
    ([[0, 1, 0], [2, 0, 0], [0, 3, 0]], 2)
    """

    def __init__(self, arrays: _Arrays, n_rows: int) -> None:
        self._arrays, self._n_rows = arrays, n_rows

    @classmethod
    def of(cls, matrix: csr_matrix) -> GrowingRows:
        """Return the rows of a matrix, whose arrays are not copied until rows are appended."""
        return cls(_Arrays(matrix.indptr, matrix.indices, matrix.data), matrix.shape[0])

    def __len__(self) -> int:
        return self._n_rows

    @property
    def nnz(self) -> int:
        """The number of entries."""
        return int(self._arrays.indptr[self._n_rows])

    def matrix(self, n_columns: int) -> csr_matrix:
        """Return the rows as a matrix that shares their memory."""
        used = self.nnz
        parts = (
            self._arrays.data[:used],
            self._arrays.indices[:used],
            self._arrays.indptr[: self._n_rows + 1],
        )
        return csr_matrix(parts, shape=(self._n_rows, n_columns), copy=False)

    def plus(self, more: csr_matrix) -> GrowingRows:
        """Return these rows and further ones behind them."""
        arrays, first, used = self._arrays, self._n_rows, self.nnz
        if arrays.n_rows != first or not arrays.has_room(more):
            arrays = arrays.copied(first, more)
        end = used + more.nnz
        arrays.indices[used:end], arrays.data[used:end] = more.indices, more.data
        arrays.indptr[first + 1 : first + 1 + more.shape[0]] = used + more.indptr[1:]
        arrays.n_rows = first + more.shape[0]
        return GrowingRows(arrays, arrays.n_rows)


class _Arrays:
    """Arrays of which the first `n_rows` rows are used."""

    def __init__(self, indptr: np.ndarray, indices: np.ndarray, data: np.ndarray) -> None:
        self.indptr, self.indices, self.data = indptr, indices, data
        self.n_rows = len(indptr) - 1

    def has_room(self, more: csr_matrix) -> bool:
        rows, entries = self.n_rows + more.shape[0], int(self.indptr[self.n_rows]) + more.nnz
        return bool(rows < len(self.indptr) and entries <= len(self.data))

    def copied(self, n_rows: int, more: csr_matrix) -> _Arrays:
        """Return a copy of the first rows with room for as many again, and for `more`."""
        used = int(self.indptr[n_rows])
        rows, entries = 2 * (n_rows + more.shape[0]) + 1, 2 * (used + more.nnz)
        wide = np.int64 if entries > np.iinfo(np.int32).max else self.indptr.dtype
        copied = _Arrays(
            np.zeros(rows, wide),
            np.empty(entries, self.indices.dtype),
            np.empty(entries, self.data.dtype),
        )
        copied.indptr[: n_rows + 1] = self.indptr[: n_rows + 1]
        copied.indices[:used], copied.data[:used] = self.indices[:used], self.data[:used]
        copied.n_rows = n_rows
        return copied
