"""What `hyperbolic` minimises on a batch: section 2.4 of Gerald & Baskiotis 2019, and more.

The first term is the paper's: an example should be nearer to each of its labels than to labels it
does not have. The second is what its conclusion asks for: an example should be nearer to one that
shares many of its labels than to the others of the batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from labelspace._core.sparse import rows_of, unit_rows
from labelspace.methods.hyperbolic.space import Space
from labelspace.nn import losses
from labelspace.nn.sampling import CandidateSampler, Partners, drop_features
from labelspace.nn.trainer import Batch
from labelspace.search.geometry.points import ExactNeighbours

if TYPE_CHECKING:
    from labelspace.methods.hyperbolic.method import Hyperbolic

HARD_LABELS = 8  # nearest labels of each example that are taken as hard negatives


class BatchObjective:
    """The loss of a batch for one learner."""

    def __init__(self, model: Hyperbolic, space: Space, X: csr_matrix, Y: csr_matrix) -> None:
        self.model, self.space, self.X, self.Y = model, space, X, Y
        self.sampler = CandidateSampler(Y, model.params_.negatives, model.params_.n_negatives)
        self.partners = None
        if model.params_.examples_weight > 0:
            counts = np.maximum(np.bincount(Y.indices, minlength=Y.shape[1]), 1)
            self.partners = Partners(Y, 1.0 / np.sqrt(counts), model.params_.partners)
            self.unit_labels = unit_rows(Y)

    def __call__(self, batch: Batch) -> Tensor:
        model, rows = self.model, batch.rows
        if self.partners is not None:
            rows = np.concatenate([rows, self.partners.draw(rows, batch.rng)])
        X = drop_features(self.X[rows], model.params_.keep, batch.rng)
        points = self.space.examples(self.space.encoder(X))
        examples, others = points[: len(batch.rows)], points[len(batch.rows) :]
        loss = self._to_labels(examples, self.Y[batch.rows], batch.rng)
        if self.partners is not None:
            shared = self._similarities(batch.rows, rows[len(batch.rows) :])
            apart = self._to_examples(examples, others, shared)
            loss = loss + model.params_.examples_weight * apart
        return loss

    def _similarities(self, rows: np.ndarray, partners: np.ndarray) -> Tensor:
        """(rows, partners) cosines of labels; 0 between a row and itself as its partner."""
        cosines = (self.unit_labels[rows] @ self.unit_labels[partners].T).toarray()
        alone = np.flatnonzero(rows == partners)
        cosines[alone, alone] = 0.0
        return torch.from_numpy(cosines)

    def _to_labels(self, examples: Tensor, Y: csr_matrix, rng: np.random.Generator) -> Tensor:
        """-log of exp(-alpha d(r, l)) over the sum of it and the negatives, mean over labels l."""
        candidates = self.sampler.draw(Y, rng, self._hard(examples))
        labels = self.space.label_rows(self.space.labels.rows(candidates.labels))
        sizes = np.diff(Y.indptr)
        return losses.softmax_loss(
            -self.model.params_.alpha * self.space.distances(examples, labels),
            torch.from_numpy(rows_of(Y)),
            torch.from_numpy(candidates.columns(Y.indices)),
            weights=torch.from_numpy(np.repeat(1.0 / np.maximum(sizes, 1), sizes)),
            exclude_positives=True,
        )

    def _hard(self, examples: Tensor) -> np.ndarray | None:
        """Labels that lie nearest to the examples now, their own among them."""
        if self.model.params_.negatives != "hard":
            return None
        index = ExactNeighbours(self.space.label_points(), self.space.geometry)
        nearest = min(HARD_LABELS, len(index.points))
        return index.search(examples.detach().float().numpy(), nearest)[0]

    def _to_examples(self, examples: Tensor, others: Tensor, shared: Tensor) -> Tensor:
        """-log of exp(-alpha d(r, its partner)) over the sum of it and less similar ones."""
        n = len(examples)
        own = torch.arange(n)
        partnered = shared[own, own] > 0
        as_similar = shared >= shared[own, own][:, None]
        as_similar[own, own] = False
        logits = -self.model.params_.alpha * self.space.distances(examples, others)
        logits = logits.masked_fill(as_similar, -torch.inf)
        gaps = torch.logsumexp(logits, dim=1) - logits[own, own]
        loss: Tensor = gaps[partnered].sum() / n
        return loss
