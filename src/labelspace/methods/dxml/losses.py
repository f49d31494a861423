"""Losses of DXML: what a batch's points should be like. All are means over examples."""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor
from torch.nn.functional import smooth_l1_loss

from labelspace._core.sparse import rows_of
from labelspace.nn.losses import with_gradient

FLOOR = 1e-4  # the least chance that votes leave to any label, so that logarithms stay finite


def votes(logits: Tensor, Y: csr_matrix, their_Y: csr_matrix) -> Tensor:
    """Cross-entropy of the labels that neighbours vote for: k-NN made smooth.

    Example i has neighbour j with chance p_ij = softmax_j(logits_ij), never itself, and so

        q_il = sum_j p_ij y_jl,    loss = -1/n sum_i sum_l y_il log q_il + (1 - y_il) log(1 - q_il)

    over the labels l that occur (neighbourhood components, Goldberger et al. 2005, for many
    labels). logits is (n, m); its first columns, and rows of their_Y, are the rows' own examples.
    """
    n = len(logits)
    used = np.unique(their_Y.indices)
    place = np.searchsorted(used, their_Y.indices)
    carried = csr_matrix((their_Y.data, place, their_Y.indptr), (their_Y.shape[0], len(used)))
    p = torch.softmax(_without_self(logits), 1).nan_to_num_(0.0).numpy()
    q = np.ascontiguousarray((carried.T @ p.T).T)
    q *= np.float32(1.0 - 2.0 * FLOOR)
    q += np.float32(FLOOR)
    own = rows_of(Y), place[: Y.nnz]
    missed = np.subtract(np.float32(1.0), q)
    value = np.log(missed[own]).sum() - np.log(q[own]).sum() - np.log(missed).sum()
    slope = np.reciprocal(missed)
    slope[own] = -1.0 / q[own]
    slope *= np.float32((1.0 - 2.0 * FLOOR) / n)
    pull = np.ascontiguousarray((carried @ slope.T).T)
    pull -= np.einsum("ij,ij->i", pull, p)[:, None]
    pull *= p
    return with_gradient(logits, torch.tensor(value / n, dtype=logits.dtype), torch.tensor(pull))


def smooth_l1(z: Tensor, targets: Tensor) -> Tensor:
    """Equation 3 of Zhang et al. 2018: the robust distance, summed over dimensions."""
    return smooth_l1_loss(z, targets, reduction="sum") / len(z)


def contrastive(z: Tensor, targets: Tensor, strangers: Tensor, margin: float) -> Tensor:
    """Chopra et al. 2005: near the own target, `margin` away from those that share no label.

    strangers  (n, n) true where two examples share none
    """
    distance = _distances(z, targets)
    push = torch.relu(margin - distance) ** 2 * strangers
    pull = distance.diagonal() ** 2
    return (pull + push.sum(1) / strangers.sum(1).clamp(min=1)).mean()


def triplet(z: Tensor, targets: Tensor, strangers: Tensor, margin: float) -> Tensor:
    """Schroff et al. 2015: the own target nearer by `margin` than the nearest of a stranger."""
    squared = _distances(z, targets) ** 2
    nearest = squared.masked_fill(~strangers, torch.inf).amin(1)
    return torch.relu(squared.diagonal() - nearest + margin).mean()


def _distances(z: Tensor, targets: Tensor) -> Tensor:
    """(n, n) between points of length 1; never quite 0, where the root has no slope."""
    return torch.sqrt((2.0 - 2.0 * z @ targets.T).clamp(min=1e-6))


def _without_self(logits: Tensor) -> Tensor:
    scores = logits.detach().clone()
    scores.diagonal().fill_(-torch.inf)
    return scores
