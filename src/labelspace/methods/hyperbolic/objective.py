"""What `hyperbolic` minimises on a batch: the loss of Gerald & Baskiotis 2019, and a second term.

The first term is that of section 2.4: an example should be nearer to each of its labels than to
labels that it does not have. The second follows the outlook of the paper's conclusion: an example
should be nearer to one that shares many of its labels than to the others of the batch. AnnexML's
loss, which the paper compares with, has a module of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from labelspace._core.sparse import rows_of, unit_rows
from labelspace.methods.hyperbolic.space import Space
from labelspace.nn import exchange, losses
from labelspace.nn.pair_distances import pair_distances
from labelspace.nn.sampling import CandidateSampler, Partners, negatives_per_row, own_features
from labelspace.nn.trainer import Batch
from labelspace.search.geometry.points import ExactNeighbours

if TYPE_CHECKING:
    from labelspace.methods.hyperbolic.method import Hyperbolic

HARD_LABELS = 8  # nearest labels of each example that are hard negatives


class BatchObjective:
    """The loss of a batch for one learner."""

    def __init__(self, model: Hyperbolic, space: Space, X: csr_matrix, Y: csr_matrix) -> None:
        self.params, self.space, self.X, self.Y = model.params_, space, X, Y
        if self.params.negatives != "per-example":
            self.sampler = CandidateSampler(Y, self.params.negatives, self.params.n_negatives)
        self.partners = None
        if self.params.examples_weight > 0:
            counts = np.maximum(np.bincount(Y.indices, minlength=Y.shape[1]), 1)
            self.partners = Partners(Y, 1.0 / np.sqrt(counts), self.params.partners)
            self.unit_labels = unit_rows(Y)

    def __call__(self, batch: Batch) -> Tensor:
        together, rows, n = exchange.current(), batch.rows, len(batch.rows)
        own = np.arange(n)[together.part(n)]
        mine = len(own)
        if self.partners is not None:
            rows = np.concatenate([rows, self.partners.draw(rows, batch.rng)])
            own = np.concatenate([own, n + own])
        X = own_features(self.X, rows, own, self.params.keep, batch.rng)
        points = self.space.examples(self.space.encoder(X))
        examples, others = points[:mine], points[mine:]
        loss = self._label_loss(examples, self.Y[batch.rows], batch.rng)
        if self.partners is not None:
            shared = self._similarities(batch.rows[own[:mine]], rows[n:], own[:mine])
            others = together.gathered(others, n)  # partners of all are negatives of each
            places = torch.from_numpy(own[:mine])
            second = self._example_loss(examples, others, shared, places)
            loss = loss + self.params.examples_weight * second
        return together.weighted(loss, n)

    def _similarities(self, rows: np.ndarray, partners: np.ndarray, places: np.ndarray) -> Tensor:
        """Return the (rows, partners) cosines of labels, 0 where a row is its own partner.

        `places` are the numbers of the rows' own partners.
        """
        cosines = (self.unit_labels[rows] @ self.unit_labels[partners].T).toarray()
        alone = np.flatnonzero(rows == partners[places])
        cosines[alone, places[alone]] = 0.0
        return torch.from_numpy(cosines)

    def _label_loss(self, examples: Tensor, Y: csr_matrix, rng: np.random.Generator) -> Tensor:
        """Return the mean of -log (e(l) / (e(l) + sum of e over negatives)), l a label.

        e(l) is exp(-alpha d(r, l)), r the point of the example.
        """
        sizes = np.diff(Y.indptr)
        if self.params.weighting == "examples":
            weights = np.repeat(1.0 / np.maximum(sizes, 1), sizes)
        else:  # the loss divides by the examples, of which there are fewer than pairs
            weights = np.full(Y.nnz, len(sizes) / max(1, Y.nnz))
        own = exchange.current().part(len(sizes))
        weights = weights[Y.indptr[own.start] : Y.indptr[own.stop]]
        logits, columns = (
            self._own_negatives(examples, Y, rng)
            if self.params.negatives == "per-example"
            else self._shared_negatives(examples, Y, rng)
        )
        return losses.softmax_loss(
            logits,
            torch.from_numpy(rows_of(exchange.current().own(Y))),
            torch.from_numpy(columns),
            weights=torch.from_numpy(weights),
            exclude_positives=True,
        )

    def _shared_negatives(
        self, examples: Tensor, Y: csr_matrix, rng: np.random.Generator
    ) -> tuple[Tensor, np.ndarray]:
        """Return logits against labels drawn for the batch, and the columns of its own labels.

        Y has the labels of the whole batch, the logits the rows of `examples`.
        """
        candidates = self.sampler.draw(Y, rng, self._hard(examples))
        labels = self.space.label_rows(self.space.labels.rows(candidates.labels))
        logits = -self.params.alpha * self.space.distances(examples, labels)
        Y = exchange.current().own(Y)
        columns = candidates.columns(Y.indices)
        if not self.params.batch_negatives:
            not_drawn = ~np.isin(candidates.labels, candidates.drawn)
            left_out = np.repeat(not_drawn[None], len(examples), axis=0)
            left_out[rows_of(Y), columns] = False
            logits = logits.masked_fill(torch.from_numpy(left_out), -torch.inf)
        return logits, columns

    def _own_negatives(
        self, examples: Tensor, Y: csr_matrix, rng: np.random.Generator
    ) -> tuple[Tensor, np.ndarray]:
        """Return logits against labels drawn for each example, and the columns of its own labels.

        A row of the logits has the negatives first, then the example's labels, then nothing.
        Y has the labels of the whole batch, the logits the rows of `examples`.
        """
        in_batch, together = np.unique(Y.indices), exchange.current()
        drawn = together.own(negatives_per_row(Y, self.params.n_negatives, rng))
        Y = together.own(Y)
        seen = in_batch if self.params.batch_negatives else Y.indices
        used = np.unique(np.concatenate([seen, drawn[drawn >= 0]])).astype(np.int64)
        labels = self.space.label_rows(self.space.labels.rows(used))
        sizes, own_rows = np.diff(Y.indptr), rows_of(Y)
        columns = drawn.shape[1] + np.arange(Y.nnz) - np.repeat(Y.indptr[:-1], sizes)
        there = np.nonzero(drawn >= 0)
        rows = np.concatenate([there[0], own_rows])
        distances = pair_distances(
            examples,
            labels,
            rows,
            np.searchsorted(used, np.concatenate([drawn[there], Y.indices])),
            self.space.geometry,
        )
        width = drawn.shape[1] + max(1, sizes.max(initial=0))
        logits = torch.full((len(examples), width), -torch.inf, dtype=torch.float64)
        places = np.concatenate([there[1], columns])
        logits = logits.index_put(
            (torch.from_numpy(rows), torch.from_numpy(places)), -self.params.alpha * distances
        )
        if self.params.batch_negatives:
            mine = torch.zeros((len(examples), len(in_batch)), dtype=torch.bool)
            mine[own_rows, np.searchsorted(in_batch, Y.indices)] = True
            theirs = labels.index_select(0, torch.from_numpy(np.searchsorted(used, in_batch)))
            shared = -self.params.alpha * self.space.distances(examples, theirs)
            logits = torch.cat([logits, shared.masked_fill(mine, -torch.inf)], dim=1)
        return logits, columns

    def _hard(self, examples: Tensor) -> np.ndarray | None:
        """Return the labels that are nearest to the examples now, their own among them."""
        if self.params.negatives != "hard":
            return None
        index = ExactNeighbours(self.space.label_points(), self.space.geometry)
        nearest = min(HARD_LABELS, len(index.points))
        found = index.search(examples.detach().float().numpy(), nearest)[0]
        return exchange.current().joined(found)

    def _example_loss(
        self, examples: Tensor, others: Tensor, shared: Tensor, places: Tensor
    ) -> Tensor:
        """Return the loss of the same form between an example and its partner.

        Negatives are the partners of the other examples whose labels are less similar; `places`
        are the numbers of the examples' own partners.
        """
        n = len(examples)
        own = torch.arange(n)
        partnered = shared[own, places] > 0
        as_similar = shared >= shared[own, places][:, None]
        as_similar[own, places] = False
        logits = -self.params.alpha * self.space.distances(examples, others)
        logits = logits.masked_fill(as_similar, -torch.inf)
        gaps = torch.logsumexp(logits, dim=1) - logits[own, places]
        loss: Tensor = gaps[partnered].sum() / n
        return loss
