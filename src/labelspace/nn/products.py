"""Matrix products in which a row's result does not depend on the rows beside it.

BLAS blocks a product by its shape, so that it rounds a batch and a single row differently. Here
every row is summed up in the order of its columns, whatever the batch is: predictions for one
example have the bits that they have in a batch.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.compiled import loop
from labelspace._core.threads import cores, parallel_blocks


def sparse_times_dense(X: csr_matrix, weight: np.ndarray) -> np.ndarray:
    """Return X @ weight, computed on all cores.

    Parameters
    ----------
    X : csr_matrix of shape (n, m)
    weight : ndarray of shape (m, width)

    Returns
    -------
    ndarray of shape (n, width), float32

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_matrix
    >>> sparse_times_dense(csr_matrix([[0.0, 2.0]]), np.ones((2, 3), np.float32))
    array([[2., 2., 2.]], dtype=float32)
    """
    out = np.zeros((X.shape[0], weight.shape[1]), np.float32)

    def block(start: int, stop: int) -> None:
        _multiply_sparse(X.indptr[start : stop + 1], X.indices, X.data, weight, out[start:stop])

    parallel_blocks(X.shape[0], block, block=rows_per_block(X.shape[0]))
    return out


def dense_times_dense(
    h: np.ndarray, weight: np.ndarray, bias: np.ndarray | None = None
) -> np.ndarray:
    """Return h @ weight, or bias + h @ weight, summed up from the bias on; zeros of h are skipped.

    Parameters
    ----------
    h : ndarray of shape (n, m)
    weight : ndarray of shape (m, width)
    bias : ndarray of shape (width,), optional

    Returns
    -------
    ndarray of shape (n, width), float32

    Examples
    --------
    >>> import numpy as np
    >>> h, weight = np.array([[0.0, 2.0]], np.float32), np.ones((2, 3), np.float32)
    >>> dense_times_dense(h, weight, bias=np.array([0.0, 1.0, 2.0], np.float32))
    array([[2., 3., 4.]], dtype=float32)
    """
    out = np.empty((len(h), weight.shape[1]), np.float32)
    out[:] = 0.0 if bias is None else bias

    def block(start: int, stop: int) -> None:
        _multiply_dense(h[start:stop], weight, out[start:stop])

    parallel_blocks(len(h), block, block=rows_per_block(len(h)))
    return out


def rows_per_block(n: int) -> int:
    """Return a block size with which each core gets a few blocks of n rows."""
    return max(16, -(-n // (4 * cores())))


@loop(fastmath={"contract"})
def _multiply_sparse(indptr, indices, data, weight, out):  # type: ignore[no-untyped-def]
    width = weight.shape[1]
    for row in range(len(out)):
        target = out[row]
        for cell in range(indptr[row], indptr[row + 1]):
            value, source = data[cell], weight[indices[cell]]
            for j in range(width):
                target[j] += value * source[j]


@loop(fastmath={"contract"})
def _multiply_dense(h, weight, out):  # type: ignore[no-untyped-def]
    width = weight.shape[1]
    for row in range(len(out)):
        target = out[row]
        for column in range(h.shape[1]):
            value = h[row, column]
            if value != 0.0:  # about half of what a ReLU passes on are zeros
                source = weight[column]
                for j in range(width):
                    target[j] += value * source[j]
