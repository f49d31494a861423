"""What `hyperbolic` minimises on a batch: the loss of Gerald & Baskiotis 2019, and a second term.

The first term is that of section 2.4: an example should be nearer to each of its labels than to
labels that it does not have. The second follows the outlook of the paper's conclusion: an example
should be nearer to one that shares many of its labels than to the others of the batch.
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

HARD_LABELS = 8  # nearest labels of each example that are hard negatives


class BatchObjective:
    """The loss of a batch for one learner."""

    def __init__(self, model: Hyperbolic, space: Space, X: csr_matrix, Y: csr_matrix) -> None:
        self.params, self.space, self.X, self.Y = model.params_, space, X, Y
        self.sampler = CandidateSampler(Y, self.params.negatives, self.params.n_negatives)
        self.partners = None
        if self.params.examples_weight > 0:
            counts = np.maximum(np.bincount(Y.indices, minlength=Y.shape[1]), 1)
            self.partners = Partners(Y, 1.0 / np.sqrt(counts), self.params.partners)
            self.unit_labels = unit_rows(Y)

    def __call__(self, batch: Batch) -> Tensor:
        rows = batch.rows
        if self.partners is not None:
            rows = np.concatenate([rows, self.partners.draw(rows, batch.rng)])
        X = drop_features(self.X[rows], self.params.keep, batch.rng)
        points = self.space.examples(self.space.encoder(X))
        examples, others = points[: len(batch.rows)], points[len(batch.rows) :]
        loss = self._label_loss(examples, self.Y[batch.rows], batch.rng)
        if self.partners is not None:
            shared = self._similarities(batch.rows, rows[len(batch.rows) :])
            loss = loss + self.params.examples_weight * self._example_loss(examples, others, shared)
        return loss

    def _similarities(self, rows: np.ndarray, partners: np.ndarray) -> Tensor:
        """Return the (rows, partners) cosines of labels, 0 where a row is its own partner."""
        cosines = (self.unit_labels[rows] @ self.unit_labels[partners].T).toarray()
        alone = np.flatnonzero(rows == partners)
        cosines[alone, alone] = 0.0
        return torch.from_numpy(cosines)

    def _label_loss(self, examples: Tensor, Y: csr_matrix, rng: np.random.Generator) -> Tensor:
        """Return the mean over labels l of -log (e(l) / (e(l) + sum of e over negatives)).

        e(l) is exp(-alpha d(r, l)), r the point of the example.
        """
        candidates = self.sampler.draw(Y, rng, self._hard(examples))
        labels = self.space.label_rows(self.space.labels.rows(candidates.labels))
        sizes = np.diff(Y.indptr)
        return losses.softmax_loss(
            -self.params.alpha * self.space.distances(examples, labels),
            torch.from_numpy(rows_of(Y)),
            torch.from_numpy(candidates.columns(Y.indices)),
            weights=torch.from_numpy(np.repeat(1.0 / np.maximum(sizes, 1), sizes)),
            exclude_positives=True,
        )

    def _hard(self, examples: Tensor) -> np.ndarray | None:
        """Return the labels that are nearest to the examples now, their own among them."""
        if self.params.negatives != "hard":
            return None
        index = ExactNeighbours(self.space.label_points(), self.space.geometry)
        nearest = min(HARD_LABELS, len(index.points))
        return index.search(examples.detach().float().numpy(), nearest)[0]

    def _example_loss(self, examples: Tensor, others: Tensor, shared: Tensor) -> Tensor:
        """Return the loss of the same form between an example and its partner.

        Negatives are the partners of the other examples whose labels are less similar.
        """
        n = len(examples)
        own = torch.arange(n)
        partnered = shared[own, own] > 0
        as_similar = shared >= shared[own, own][:, None]
        as_similar[own, own] = False
        logits = -self.params.alpha * self.space.distances(examples, others)
        logits = logits.masked_fill(as_similar, -torch.inf)
        gaps = torch.logsumexp(logits, dim=1) - logits[own, own]
        loss: Tensor = gaps[partnered].sum() / n
        return loss
