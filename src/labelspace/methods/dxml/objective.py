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
        self.partners = Partners(Y) if model.params_.partners else None
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
        model, X = self.model, self.X[rows]
        if model.params_.keep < 1:
            kept = rng.random(X.nnz, np.float32) < model.params_.keep
            X.data = np.where(kept, X.data / np.float32(model.params_.keep), np.float32(0.0))
            X.eliminate_zeros()
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


class Partners:
    """Draws for each example another that shares a label with it, most likely a rare one.

    A batch drawn evenly from many examples holds none that share a rare label: nothing would be
    learned of it.
    """

    def __init__(self, Y: csr_matrix) -> None:
        self.Y, self.examples = Y, csr_matrix(Y.T)
        self.counts = np.diff(self.examples.indptr)
        # Running sums over all cells of Y: a uniform draw between a row's ends picks a label.
        self.sums = np.concatenate([[0.0], np.cumsum(1.0 / self.counts[Y.indices])])

    def draw(self, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A partner of each row that has labels; it may be the row itself."""
        starts, stops = self.Y.indptr[rows], self.Y.indptr[rows + 1]
        starts, stops = starts[stops > starts], stops[stops > starts]
        low, high = self.sums[starts], self.sums[stops]
        drawn = low + rng.random(len(starts)) * (high - low)
        cells = np.searchsorted(self.sums, drawn, side="right") - 1
        labels = self.Y.indices[np.clip(cells, starts, stops - 1)]
        place = (rng.random(len(labels)) * self.counts[labels]).astype(np.int64)
        return np.asarray(self.examples.indices[self.examples.indptr[labels] + place])


def targets(Y: csr_matrix, vectors: np.ndarray) -> np.ndarray:
    """f_y = V y / nnz(y), brought to length 1 as the encoder's output is."""
    return unit_array(np.asarray(Y @ vectors, np.float32))
