"""Regularisers of label vectors, on the labels of a batch (Guo et al. 2019, section 3.2).

V (labels, dim) holds the label vectors. U (labels, labels) holds their target similarities, is
symmetric, and is a dense or sparse tensor without gradient. No labels x labels Gram matrix is
formed: |V V^T| = |V^T V| in the Frobenius norm, and the right one is dim x dim. All regularisers of
a batch without labels are 0.

`counts` (labels,) states how often each label stands in the batch, once if None. The value and its
gradient are those of a V with as many copies of each row, at the cost of one.

Several workers of a training have the same V and U. Of `glas` and `graph_laplacian` each returns a
part, and the parts add up to the whole; what `glas` costs most, products of size labels x dim x
dim, is divided among the workers.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from labelspace.nn import exchange
from labelspace.nn.losses import with_gradient


def spread_out(V: Tensor, counts: Tensor | None = None) -> Tensor:
    """Return 1/m^2 sum_ij (v_i . v_j)^2: small if labels are apart (eq. 2)."""
    return (_repeated(V, counts).T @ V).square().sum(1).sum() / _size(V, counts) ** 2


def graph_laplacian(V: Tensor, U: Tensor, counts: Tensor | None = None) -> Tensor:
    """Return 1/m^2 sum_ij u_ij |v_i - v_j|^2: small if similar labels are close (eq. 4)."""
    v = V.detach()
    degrees = U @ _repeated(torch.ones_like(v[:, :1]), counts)
    # The sum is 2 tr(V^T L V) for the graph's Laplacian L = diag(degrees) - U.
    laplacian = _repeated(degrees * v - U @ _repeated(v, counts), counts)
    scale = 2.0 / _size(v, counts) ** 2 / exchange.current().size
    return with_gradient(V, scale * (v * laplacian).sum(1).sum(), 2.0 * scale * laplacian)


def glas(V: Tensor, U: Tensor, counts: Tensor | None = None) -> Tensor:
    """Return 1/m^2 |V V^T - U|^2: small if inner products of labels are near U (eq. 3).

    On unit vectors this is `graph_laplacian` + `spread_out` minus a constant.
    """
    v, together = V.detach(), exchange.current()
    copies = _repeated(v, counts)
    start = together.part(len(v)).start
    own = slice(start, start + together.counted(len(v)))
    gram, target = together.summed(copies[own].T @ v[own]), U @ copies
    squares = U * U
    constant = squares.sum() if counts is None else counts @ (squares @ counts[:, None])[:, 0]
    value = gram.square().sum(1).sum() - 2.0 * (copies * target).sum(1).sum() + constant
    pairs = _size(v, counts) ** 2
    gradient = torch.addmm(target[own], v[own], gram, beta=-1.0).mul_(4.0 / pairs)
    if together.size > 1:
        gradient = torch.zeros_like(v).index_add_(0, torch.arange(own.start, own.stop), gradient)
    # Rounding may make a perfect fit negative.
    value = value.clamp(min=0.0) / (pairs * together.size)
    return with_gradient(V, value, _repeated(gradient, counts))


def gravity(Z: Tensor, V: Tensor, counts: Tensor | None = None) -> Tensor:
    """Return the mean of (z . v)^2 over examples Z (n, dim) and labels.

    It lowers the scores of all pairs that are not positives, at the cost of two Gram matrices
    (Krichene et al. 2018).
    """
    gram = _repeated(V, counts).T @ V
    return ((Z.T @ Z) * gram).sum(1).sum() / (max(1, len(Z)) * _size(V, counts))


def _repeated(V: Tensor, counts: Tensor | None) -> Tensor:
    return V if counts is None else V * counts[:, None]


def _size(V: Tensor, counts: Tensor | None) -> int:
    """Return the number of labels, those that stand in the batch again included; at least 1."""
    return max(1, len(V) if counts is None else int(counts.sum()))


def sparse_tensor(matrix: csr_matrix) -> Tensor:
    """Return a CSR matrix as a sparse tensor, such as a `CooccurrenceTarget.sparse_submatrix`."""
    cells = matrix.tocoo()
    places = torch.from_numpy(np.stack([cells.row, cells.col]).astype(np.int64))
    return torch.sparse_coo_tensor(
        *(places, torch.from_numpy(cells.data), matrix.shape),
        is_coalesced=matrix.has_canonical_format,
        check_invariants=False,  # scipy's hold; torch warns if this is not given
    )
