"""Losses of DXML on the points of a batch, each a mean over examples."""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor
from torch.nn.functional import smooth_l1_loss

from labelspace._core.sparse import rows_of
from labelspace.nn.losses import with_gradient

EPS = 1e-4  # probabilities of labels are within [EPS, 1 - EPS], so that logarithms are finite


def votes(logits: Tensor, Y: csr_matrix, their_Y: csr_matrix) -> Tensor:
    """Return the cross-entropy of the labels that neighbours vote for, with its gradient.

    It is a smooth k-NN (neighbourhood components analysis, Goldberger et al. 2004) for many labels.
    Example i has neighbour j with probability p_ij = softmax_j(logits_ij), p_ii = 0, so that

        q_il = sum_j p_ij y_jl,    loss = -1/n sum_i sum_l y_il log q_il + (1 - y_il) log(1 - q_il)

    over the labels l that the neighbours have.

    Parameters
    ----------
    logits : Tensor of shape (n, m)
        Scaled similarities of examples and neighbours. The first n neighbours are the examples.
    Y : csr_matrix of shape (n, labels)
        Labels of the examples.
    their_Y : csr_matrix of shape (m, labels)
        Labels of the neighbours; its first n rows are those of Y.
    """
    n = len(logits)
    used = np.unique(their_Y.indices)
    place = np.searchsorted(used, their_Y.indices)
    neighbour_labels = csr_matrix(
        (their_Y.data, place, their_Y.indptr), (their_Y.shape[0], len(used))
    )
    p = torch.softmax(_without_self(logits), 1).nan_to_num_(0.0).numpy()
    q = np.ascontiguousarray((neighbour_labels.T @ p.T).T)
    q *= np.float32(1.0 - 2.0 * EPS)
    q += np.float32(EPS)
    own = rows_of(Y), place[: Y.nnz]
    complement = np.subtract(np.float32(1.0), q)
    value = np.log(complement[own]).sum() - np.log(q[own]).sum() - np.log(complement).sum()
    slope = np.reciprocal(complement)  # derivative of the loss by q
    slope[own] = -1.0 / q[own]
    slope *= np.float32((1.0 - 2.0 * EPS) / n)
    gradient = np.ascontiguousarray((neighbour_labels @ slope.T).T)  # by p, then by the logits
    gradient -= np.einsum("ij,ij->i", gradient, p)[:, None]
    gradient *= p
    loss = torch.tensor(value / n, dtype=logits.dtype)
    return with_gradient(logits, loss, torch.tensor(gradient))


def smooth_l1(z: Tensor, targets: Tensor) -> Tensor:
    """Return the smooth L1 distance, summed over dimensions: equation 3 of Zhang et al. 2018."""
    return smooth_l1_loss(z, targets, reduction="sum") / len(z)


def contrastive(z: Tensor, targets: Tensor, negatives: Tensor, margin: float) -> Tensor:
    """Return the contrastive loss of Chopra et al. 2005.

    The squared distance to the example's own target, and the squared amount by which targets of
    negatives are nearer than `margin`, mean over these.

    Parameters
    ----------
    z, targets : Tensor of shape (n, dim)
        Of length 1 per row.
    negatives : bool Tensor of shape (n, n)
        True where two examples share no label.
    margin : float
    """
    distance = _distances(z, targets)
    push = torch.relu(margin - distance) ** 2 * negatives
    pull = distance.diagonal() ** 2
    return (pull + push.sum(1) / negatives.sum(1).clamp(min=1)).mean()


def triplet(z: Tensor, targets: Tensor, negatives: Tensor, margin: float) -> Tensor:
    """Return the triplet loss of Schroff et al. 2015 with the hardest negative of the batch.

    The own target should be nearer by `margin`, in squared distance, than the nearest target of a
    negative. The parameters are those of `contrastive`.
    """
    squared = _distances(z, targets) ** 2
    nearest = squared.masked_fill(~negatives, torch.inf).amin(1)
    return torch.relu(squared.diagonal() - nearest + margin).mean()


def _distances(z: Tensor, targets: Tensor) -> Tensor:
    """Return the (n, n) distances of unit vectors, above 0, where the root has no derivative."""
    return torch.sqrt((2.0 - 2.0 * z @ targets.T).clamp(min=1e-6))


def _without_self(logits: Tensor) -> Tensor:
    """Return a copy in which no example is its own neighbour."""
    scores = logits.detach().clone()
    scores.diagonal().fill_(-torch.inf)
    return scores
