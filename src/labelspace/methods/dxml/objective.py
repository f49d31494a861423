"""What DXML minimises on a batch.

With the loss on votes, examples that share labels should be each other's nearest neighbours in the
batch. With the losses on targets, as in the paper, an example should be near the target that the
vectors of its labels make.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.sparse import csr_matrix

from labelspace.methods.dxml import losses
from labelspace.methods.dxml.targets import targets
from labelspace.nn import exchange
from labelspace.nn.encoder import Encoder, unit
from labelspace.nn.sampling import Partners, own_features
from labelspace.nn.trainer import Batch

if TYPE_CHECKING:
    from labelspace.methods.dxml.method import DXML

MIN_NORM = 1e-3  # of an encoder's output; scaling shorter ones to length 1 has a huge gradient


@dataclass(frozen=True)
class FixedExamples:
    """Neighbours that are not trained: the examples known before an update.

    Attributes
    ----------
    points : list of ndarray of shape (n, dim)
        One array per learner.
    Y : csr_matrix of shape (n, labels)
    """

    points: list[np.ndarray]
    Y: csr_matrix


class BatchObjective:
    """The loss of a batch, summed over the learners of an ensemble.

    Each learner has its own permutation of the rows, so that no two are trained on the same
    batches.
    """

    def __init__(
        self,
        model: DXML,
        encoders: list[Encoder],
        X: csr_matrix,
        Y: csr_matrix,
        fixed: FixedExamples | None = None,
    ) -> None:
        self.params, self.encoders = model.params_, encoders
        self.X, self.Y, self.fixed = X, Y, fixed
        self.orders = [
            np.random.default_rng([self.params.seed, learner, 1]).permutation(X.shape[0])
            for learner in range(len(encoders))
        ]
        counts = np.maximum(np.bincount(Y.indices, minlength=Y.shape[1]), 1)
        self.partners = Partners(Y, 1.0 / counts) if self.params.partners else None
        self.targets = (
            None
            if model.graph_vectors_ is None
            else targets(Y, model.graph_vectors_, unit=self.params.unit_targets)
        )

    def __call__(self, batch: Batch) -> torch.Tensor:
        parts = [
            self._learner_loss(learner, order[batch.rows], batch.rng)
            for learner, order in enumerate(self.orders)
        ]
        return torch.stack(parts).sum()

    def _learner_loss(
        self, learner: int, rows: np.ndarray, rng: np.random.Generator
    ) -> torch.Tensor:
        if self.targets is not None:
            loss = self._target_loss(self._points(learner, rows, rng), rows)
        else:
            if self.partners is not None:
                rows = np.unique(np.concatenate([rows, self.partners.draw(rows, rng)]))
            loss = self._vote_loss(self._points(learner, rows, rng), learner, rows, rng)
        loss = exchange.current().weighted(loss, len(rows))
        return loss if self.params.reduction == "mean" else len(rows) * loss

    def _points(self, learner: int, rows: np.ndarray, rng: np.random.Generator) -> torch.Tensor:
        """Return z of this worker's part of the rows, with dropout of features and outputs."""
        together = exchange.current()
        own = together.part(len(rows))
        z = self.encoders[learner](own_features(self.X, rows, own, self.params.keep, rng))
        if self.params.dropout > 0:
            kept = rng.random((len(rows), z.shape[1]), np.float32) >= self.params.dropout
            z = z * torch.from_numpy(together.own(kept))
        # Where dropout left nothing, z has no direction: zeros, without a gradient.
        norms: torch.Tensor = z.detach().norm(dim=1, keepdim=True)
        return unit(z) * (norms > MIN_NORM)

    def _vote_loss(
        self, z: torch.Tensor, learner: int, rows: np.ndarray, rng: np.random.Generator
    ) -> torch.Tensor:
        known = None
        if self.fixed is not None:
            n_known = self.fixed.Y.shape[0]
            drawn = np.sort(rng.choice(n_known, min(len(rows), n_known), replace=False))
            known = self.fixed.points[learner][drawn], self.fixed.Y[drawn]
        together = exchange.current()
        z = together.gathered(z, len(rows))  # examples of all workers are neighbours of its own
        own = together.part(len(rows))
        return losses.votes(z, self.params.scale, self.Y[rows], known, own)

    def _target_loss(self, z: torch.Tensor, rows: np.ndarray) -> torch.Tensor:
        assert self.targets is not None
        together = exchange.current()
        if self.params.loss == "smooth-l1":
            return losses.smooth_l1(z, torch.from_numpy(self.targets[together.own(rows)]))
        # All targets of the batch are negatives: each worker computes the loss of the whole.
        z, f_y, Y = (
            together.gathered(z, len(rows)),
            torch.from_numpy(self.targets[rows]),
            self.Y[rows],
        )
        negatives = torch.from_numpy((Y @ Y.T).toarray() == 0)
        negatives.fill_diagonal_(False)
        loss = losses.contrastive if self.params.loss == "contrastive" else losses.triplet
        return loss(z, f_y, negatives, self.params.margin)
