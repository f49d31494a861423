"""AnnexML's loss (Tagami 2017), the flat rival of Gerald & Baskiotis 2019 in their Table 4.

For an example j and one of its neighbours v by the cosine of label vectors, section 2.4 has

    -log ( e(v) / (e(v) + sum_{k not a neighbour of j} e(k)) ),    e(i) = exp(alpha cos(r_j, r_i))

Labels have no vectors. As in AnnexML, the neighbours of all examples are searched before training.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from labelspace._core.dense import unit_array
from labelspace.methods.hyperbolic.space import Space
from labelspace.nn import exchange, losses
from labelspace.nn.sampling import drop_features
from labelspace.nn.trainer import Batch
from labelspace.search.neighbours.sparse import SparseNeighbours

if TYPE_CHECKING:
    from labelspace.methods.hyperbolic.method import Hyperbolic


def label_neighbours(Y: csr_matrix, k: int) -> np.ndarray:
    """Return the k other examples with the largest cosine of labels, (examples, k); -1 pads.

    Examples that share no label are no neighbours.
    """
    found, _ = SparseNeighbours.of(Y).search(Y, k + 1)
    # The example itself goes last, or the farthest of many that are equal to it.
    found[found == np.arange(len(found))[:, None]] = -1
    order = np.argsort(found < 0, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(found, order, axis=1)


class NeighbourObjective:
    """AnnexML's loss of a batch for one learner.

    Each example of the batch is paired with one of its neighbours, drawn evenly. Its negatives are
    the other examples of the batch that are no neighbours of it: a uniform sample of all.
    """

    def __init__(
        self, model: Hyperbolic, space: Space, X: csr_matrix, neighbours: np.ndarray
    ) -> None:
        self.params, self.space, self.X, self.near = model.params_, space, X, neighbours

    def __call__(self, batch: Batch) -> Tensor:
        near = self.near[batch.rows]
        counts = (near >= 0).sum(axis=1)
        drawn = (batch.rng.random(len(near)) * counts).astype(np.int64)
        partners = near[np.arange(len(near)), drawn]
        paired = np.flatnonzero(counts)  # the other rows share no label with any example
        rows = np.concatenate([batch.rows, partners[paired]])
        X = drop_features(self.X[rows], self.params.keep, batch.rng)
        points = self.space.examples(self.space.encoder(X))
        examples, others = points[: len(near)], points[len(near) :]
        if len(paired) == 0:
            return 0.0 * points.sum()
        left = examples.index_select(0, torch.from_numpy(paired))
        own = (left * others).sum(dim=1, keepdim=True)
        left_out = torch.from_numpy(self._left_out(batch.rows[paired], batch.rows))
        cosines = (left @ examples.T).masked_fill(left_out, -torch.inf)
        loss = losses.softmax_loss(
            self.params.alpha * torch.cat([own, cosines], dim=1),
            torch.arange(len(paired)),
            torch.zeros(len(paired), dtype=torch.int64),
            exclude_positives=True,
        )
        return exchange.current().weighted(loss, len(batch.rows))  # all workers compute it whole

    def _left_out(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return where a column is the row itself or a neighbour of it, (rows, columns)."""
        place = np.full(self.X.shape[0], -1)
        place[columns] = np.arange(len(columns))
        kept = np.column_stack([rows, self.near[rows]])
        at = np.where(kept >= 0, place[kept], -1)
        found = np.zeros((len(rows), len(columns)), np.bool_)
        where = np.nonzero(at >= 0)
        found[where[0], at[where]] = True
        return found


def label_centroids(points: np.ndarray, Y: csr_matrix) -> np.ndarray:
    """Return the mean direction of each label's examples, (labels, dim) float32 of length 1."""
    return unit_array(np.asarray(Y.T @ points, np.float32))
