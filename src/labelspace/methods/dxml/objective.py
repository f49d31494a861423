"""What DXML minimises on a batch.

By neighbours: examples that share labels should be each other's nearest in the batch. By targets:
an example should be near the point of its label set on the label graph, as in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.sparse import csr_matrix, vstack

from labelspace.methods.dxml import losses
from labelspace.nn.encoder import Encoder, unit, unit_array
from labelspace.nn.sampling import Partners, drop_features
from labelspace.nn.trainer import Batch

if TYPE_CHECKING:
    from labelspace.methods.dxml.method import DXML

SHORTEST = 1e-3


@dataclass(frozen=True)
class Anchors:
    """Examples that stay where they are: points (n, dim) a learner, and their labels."""

    points: list[np.ndarray]
    Y: csr_matrix


class BatchObjective:
    """The loss of a batch, summed over the learners of an ensemble.

    Every learner numbers the rows in an order of its own, so that no two see the same batches.
    """

    def __init__(
        self,
        model: DXML,
        encoders: list[Encoder],
        X: csr_matrix,
        Y: csr_matrix,
        anchors: Anchors | None = None,
    ) -> None:
        self.model, self.encoders, self.X, self.Y, self.anchors = model, encoders, X, Y, anchors
        self.orders = [
            np.random.default_rng([model.params_.seed, learner, 1]).permutation(X.shape[0])
            for learner in range(len(encoders))
        ]
        counts = np.maximum(np.bincount(Y.indices, minlength=Y.shape[1]), 1)
        self.partners = Partners(Y, 1.0 / counts) if model.params_.partners else None
        self.targets = None if model.graph_vectors_ is None else targets(Y, model.graph_vectors_)

    def __call__(self, batch: Batch) -> torch.Tensor:
        parts = [
            self._learner(learner, order[batch.rows], batch.rng)
            for learner, order in enumerate(self.orders)
        ]
        return torch.stack(parts).sum()

    def _learner(self, learner: int, rows: np.ndarray, rng: np.random.Generator) -> torch.Tensor:
        if self.targets is not None:
            return self._to_targets(self._points(learner, rows, rng), rows)
        if self.partners is not None:
            rows = np.unique(np.concatenate([rows, self.partners.draw(rows, rng)]))
        return self._by_neighbours(self._points(learner, rows, rng), learner, rows, rng)

    def _points(self, learner: int, rows: np.ndarray, rng: np.random.Generator) -> torch.Tensor:
        """z of the rows, with dropout of features and of the last layer."""
        model = self.model
        X = drop_features(self.X[rows], model.params_.keep, rng)
        z = self.encoders[learner](X)
        if model.params_.dropout > 0:
            kept = rng.random(tuple(z.shape), np.float32) >= model.params_.dropout
            z = z * torch.from_numpy(kept)
        # A point all of whose features were dropped has no direction, and an endless slope.
        lengths: torch.Tensor = z.detach().norm(dim=1, keepdim=True)
        return unit(z) * (lengths > SHORTEST)

    def _by_neighbours(
        self, z: torch.Tensor, learner: int, rows: np.ndarray, rng: np.random.Generator
    ) -> torch.Tensor:
        Y, others = self.Y[rows], z
        their_Y = Y
        if self.anchors is not None:
            known = self.anchors.Y.shape[0]
            drawn = np.sort(rng.choice(known, min(len(rows), known), replace=False))
            fixed = torch.from_numpy(self.anchors.points[learner][drawn])
            others, their_Y = torch.cat([z, fixed]), vstack([Y, self.anchors.Y[drawn]], "csr")
        logits = self.model.params_.scale * (z @ others.T)
        return losses.votes(logits, Y, their_Y)

    def _to_targets(self, z: torch.Tensor, rows: np.ndarray) -> torch.Tensor:
        assert self.targets is not None
        f_y = torch.from_numpy(self.targets[rows])
        if self.model.params_.loss == "smooth-l1":
            return losses.smooth_l1(z, f_y)
        Y = self.Y[rows]
        strangers = torch.from_numpy((Y @ Y.T).toarray() == 0)
        strangers.fill_diagonal_(False)
        measure = losses.contrastive if self.model.params_.loss == "contrastive" else losses.triplet
        return measure(z, f_y, strangers, self.model.params_.margin)


def targets(Y: csr_matrix, vectors: np.ndarray) -> np.ndarray:
    """f_y = V y / nnz(y), brought to length 1 as the encoder's output is."""
    return unit_array(np.asarray(Y @ vectors, np.float32))
