"""Regularisers of label vectors, on the labels of a batch (Guo et al. 2019, section 3.2).

V (labels, dim) holds the vectors. U (labels, labels) is symmetric, says how alike the labels
should be, and is a dense or sparse tensor without a gradient of its own. No labels x labels Gram
matrix is formed: |V V^T| = |V^T V| in the Frobenius norm, and the right one is dim x dim. A batch
without labels has no penalty: all are 0.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from labelspace.nn.losses import with_gradient


def spread_out(V: Tensor) -> Tensor:
    """Labels stand apart: 1/m^2 sum_ij (v_i . v_j)^2 (eq. 2)."""
    return (V.T @ V).square().sum(1).sum() / max(1, len(V)) ** 2


def graph_laplacian(V: Tensor, U: Tensor) -> Tensor:
    """Alike labels stand close: 1/m^2 sum_ij u_ij |v_i - v_j|^2 (eq. 4)."""
    v = V.detach()
    degrees = U @ torch.ones_like(v[:, :1])
    # The sum is 2 tr(V^T L V) for the graph's Laplacian L = diag(degrees) - U.
    laplacian = degrees * v - U @ v
    scale = 2.0 / max(1, len(v)) ** 2
    return with_gradient(V, scale * (v * laplacian).sum(1).sum(), 2.0 * scale * laplacian)


def glas(V: Tensor, U: Tensor) -> Tensor:
    """Inner products of labels match U: 1/m^2 |V V^T - U|^2 (eq. 3).

    On unit vectors this is `graph_laplacian` + `spread_out` less a constant.
    """
    v = V.detach()
    gram, wanted = v.T @ v, U @ v
    value = gram.square().sum(1).sum() - 2.0 * (v * wanted).sum(1).sum() + (U * U).sum()
    pairs = max(1, len(v)) ** 2
    gradient = torch.addmm(wanted, v, gram, beta=-1.0).mul_(4.0 / pairs)
    # Rounding may take a perfect fit below zero.
    return with_gradient(V, value.clamp(min=0.0) / pairs, gradient)


def gravity(Z: Tensor, V: Tensor) -> Tensor:
    """Examples Z (n, dim) score all labels near zero unless told otherwise: mean of (z . v)^2.

    Krichene et al. (2018): pulls down the scores of the pairs that no loss term mentions, at the
    price of two Gram matrices.
    """
    return ((Z.T @ Z) * (V.T @ V)).sum(1).sum() / max(1, len(Z) * len(V))


def sparse_tensor(matrix: csr_matrix) -> Tensor:
    """A CSR matrix as torch's sparse tensor, such as a `CooccurrenceTarget.sparse_submatrix`."""
    cells = matrix.tocoo()
    places = torch.from_numpy(np.stack([cells.row, cells.col]).astype(np.int64))
    return torch.sparse_coo_tensor(
        *(places, torch.from_numpy(cells.data), matrix.shape),
        is_coalesced=matrix.has_canonical_format,
        check_invariants=False,  # scipy's already hold; saying nothing makes torch warn
    )
