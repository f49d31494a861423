"""Losses of DXML on the points of a batch, each a mean over examples."""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_matrix, vstack
from torch import Tensor
from torch.nn.functional import smooth_l1_loss

from labelspace._core.compiled import loop
from labelspace._core.threads import parallel_blocks
from labelspace.nn.losses import with_gradient

EPS = 1e-4  # probabilities of labels are within [EPS, 1 - EPS], so that logarithms are finite
_ROWS = 128  # examples per task of a thread


def votes(
    z: Tensor,
    scale: float,
    Y: csr_matrix,
    fixed: tuple[np.ndarray, csr_matrix] | None = None,
    part: slice | None = None,
) -> Tensor:
    """Return the cross-entropy of the labels that neighbours vote for, with its gradient.

    It is a smooth k-NN (neighbourhood components analysis, Goldberger et al. 2004) for many labels.
    Example i has neighbour j with probability p_ij = softmax_j(scale <z_i, z_j>), p_ii = 0, so that

        q_il = sum_j p_ij y_jl,    loss = -1/n sum_i sum_l y_il log q_il + (1 - y_il) log(1 - q_il)

    over the labels l that the neighbours have. The loss is computed by blocks of examples, each of
    which is one task of a thread; torch's own operations would pass several times over n x n
    and n x labels numbers.

    Parameters
    ----------
    z : Tensor of shape (n, dim)
        Points of the examples, which are each other's neighbours.
    scale : float
        Inverse temperature of the similarities.
    Y : csr_matrix of shape (n, labels)
        Labels of the examples.
    fixed : pair of ndarray (m, dim) and csr_matrix (m, labels), optional
        Points and labels of further neighbours, which are not trained.
    part : slice, optional
        The examples i whose loss is returned, as a mean over these; by default all.
    """
    points, n = z.detach().numpy(), len(z)
    first, last, _ = (part or slice(None)).indices(n)
    whole, counted = last - first == n, max(1, last - first)
    near, their_Y = points, Y
    if fixed is not None:
        near, their_Y = np.concatenate([points, fixed[0]]), vstack([Y, fixed[1]], "csr")
    used = np.unique(their_Y.indices)
    place = np.searchsorted(used, their_Y.indices).astype(np.int32)
    # The derivative by the similarities, transposed.
    slopes = (np.empty if whole else np.zeros)((len(near), n), np.float32)
    gradient = np.empty_like(points)
    values = np.zeros(-(-counted // _ROWS))

    def vote(start: int, stop: int) -> None:
        block, start, stop = start // _ROWS, first + start, first + stop
        p = near @ (np.float32(scale) * points[start:stop]).T
        own = np.arange(stop - start)
        p[start + own, own] = -np.inf
        highest = p.max(axis=0)
        highest[highest == -np.inf] = 0.0  # of a single example, which has no neighbours
        p -= highest
        np.exp(p, out=p)
        p /= np.maximum(p.sum(axis=0), np.float32(1e-30))
        values[block] = _vote_slopes(
            p, their_Y.indptr, place, len(used), start, scale / counted, slopes
        )

    def derive(start: int, stop: int) -> None:
        both = slopes[start:stop] + slopes[:n, start:stop].T  # z_i is a neighbour of others, too
        np.matmul(both, points, out=gradient[start:stop])
        if fixed is not None:
            gradient[start:stop] += slopes[n:, start:stop].T @ fixed[0]

    parallel_blocks(last - first, vote, block=_ROWS)
    parallel_blocks(n, derive, block=_ROWS)
    loss = torch.tensor(values.sum() / counted, dtype=z.dtype)
    return with_gradient(z, loss, torch.from_numpy(gradient))


@loop(fastmath={"contract"})
def _vote_slopes(p, indptr, place, n_labels, first, factor, slopes):  # type: ignore[no-untyped-def]
    """Write the derivative of the loss by the similarities; return the loss, for a block of rows.

    `p` (neighbours, rows) holds the probabilities of neighbours, the first of the rows is number
    `first` of the neighbours, and labels are numbered by `place` among those that are used.
    """
    n, width = p.shape
    inner = np.float32(1.0 - 2.0 * EPS)
    q = np.full((n_labels, width), np.float32(EPS))
    for j in range(n):
        source = p[j]
        for cell in range(indptr[j], indptr[j + 1]):
            target = q[place[cell]]
            for i in range(width):
                target[i] += inner * source[i]
    value, known = 0.0, np.empty(indptr[first + width] - indptr[first], np.float32)
    for i in range(width):
        for cell in range(indptr[first + i], indptr[first + i + 1]):
            chance = q[place[cell], i]
            known[cell - indptr[first]] = chance
            value += np.log((1.0 - chance) / chance)
    # One logarithm of a product of many factors; each is at least EPS, so that 64 do not underflow.
    product = np.ones(width)
    for label in range(n_labels):
        row = q[label]
        for i in range(width):
            rest = np.float32(1.0) - row[i]
            product[i] *= rest
            row[i] = np.float32(1.0) / rest
        if label % 64 == 63 or label == n_labels - 1:
            for i in range(width):
                value -= np.log(product[i])
                product[i] = 1.0
    for i in range(width):
        for cell in range(indptr[first + i], indptr[first + i + 1]):
            q[place[cell], i] = np.float32(-1.0) / known[cell - indptr[first]]
    mean = np.zeros(width, np.float32)
    by_p = np.zeros((n, width), np.float32)
    for j in range(n):
        target, source = by_p[j], p[j]
        for cell in range(indptr[j], indptr[j + 1]):
            row = q[place[cell]]
            for i in range(width):
                target[i] += row[i]
        for i in range(width):
            mean[i] += target[i] * source[i]
    scaled = np.float32(factor) * inner
    for j in range(n):
        target, source, out = by_p[j], p[j], slopes[j]
        for i in range(width):
            out[first + i] = scaled * (target[i] - mean[i]) * source[i]
    return value


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
