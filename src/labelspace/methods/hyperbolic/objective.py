"""What `hyperbolic` minimises on a batch: section 2.4 of Gerald & Baskiotis 2019, and more.

The first term is the paper's: an example should be nearer to each of its labels than to labels it
does not have. The second is what its conclusion asks for: an example should be nearer to one that
shares many of its labels than to the others of the batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numba import njit
from scipy.sparse import csr_matrix
from torch import Tensor

from labelspace._core.sparse import rows_of, unit_rows
from labelspace.methods.hyperbolic.space import Space
from labelspace.nn import losses
from labelspace.nn.sampling import CandidateSampler
from labelspace.nn.trainer import Batch
from labelspace.search.points import ExactNeighbours

if TYPE_CHECKING:
    from labelspace.methods.hyperbolic.method import Hyperbolic

HARD_LABELS = 8  # nearest labels of each example that are taken as hard negatives


class BatchObjective:
    """The loss of a batch for one learner."""

    def __init__(self, model: Hyperbolic, space: Space, X: csr_matrix, Y: csr_matrix) -> None:
        self.model, self.space, self.X, self.Y = model, space, X, Y
        self.sampler = CandidateSampler(Y, model.negatives, model.n_negatives)  # type: ignore[arg-type]
        self.partners = Partners(Y, model.partners) if model.examples_weight > 0 else None

    def __call__(self, batch: Batch) -> Tensor:
        model, rows = self.model, batch.rows
        if self.partners is not None:
            rows = np.concatenate([rows, self.partners.draw(rows, batch.rng)])
        X = self.X[rows]
        if model.keep < 1:
            kept = batch.rng.random(X.nnz, np.float32) < model.keep
            X.data = np.where(kept, X.data / np.float32(model.keep), np.float32(0.0))
            X.eliminate_zeros()
        points = self.space.examples(self.space.encoder(X))
        examples, others = points[: len(batch.rows)], points[len(batch.rows) :]
        loss = self._to_labels(examples, self.Y[batch.rows], batch.rng)
        if self.partners is not None:
            shared = self.partners.similarities(batch.rows, rows[len(batch.rows) :])
            loss = loss + model.examples_weight * self._to_examples(examples, others, shared)
        return loss

    def _to_labels(self, examples: Tensor, Y: csr_matrix, rng: np.random.Generator) -> Tensor:
        """-log of exp(-alpha d(r, l)) over the sum of it and the negatives, mean over labels l."""
        candidates = self.sampler.draw(Y, rng, self._hard(examples))
        labels = self.space.label_rows(self.space.labels.rows(candidates.labels))
        sizes = np.diff(Y.indptr)
        return losses.softmax_loss(
            -self.model.alpha * self.space.distances(examples, labels),
            torch.from_numpy(rows_of(Y)),
            torch.from_numpy(candidates.columns(Y.indices)),
            weights=torch.from_numpy(np.repeat(1.0 / np.maximum(sizes, 1), sizes)),
            exclude_positives=True,
        )

    def _hard(self, examples: Tensor) -> np.ndarray | None:
        """Labels that lie nearest to the examples now, their own among them."""
        if self.model.negatives != "hard":
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
        logits = -self.model.alpha * self.space.distances(examples, others)
        logits = logits.masked_fill(as_similar, -torch.inf)
        gaps = torch.logsumexp(logits, dim=1) - logits[own, own]
        return gaps[partnered].sum() / n


class Partners:
    """For an example, another that shares labels with it: the most similar of a few drawn.

    A draw takes a label of the example, rare ones sooner, and an example that has it. The best of
    many draws comes near to the nearest neighbour by label cosine, at no cost before training.
    """

    def __init__(self, Y: csr_matrix, draws: int) -> None:
        self.Y, self.draws = Y, draws
        self.with_label = csr_matrix(Y.T)
        self.unit = unit_rows(Y)
        counts = np.maximum(np.diff(self.with_label.indptr), 1)
        self.rarity = 1.0 / np.sqrt(counts)

    def draw(self, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A partner for each row; the row itself where no other was found."""
        found = rows.copy()
        chances = rng.random((len(rows), self.draws, 2))
        _draw(
            *(rows, self.Y.indptr, self.Y.indices),
            *(self.with_label.indptr, self.with_label.indices, self.rarity, chances, found),
        )
        return found

    def similarities(self, rows: np.ndarray, others: np.ndarray) -> Tensor:
        """(rows, others) cosines of label vectors; 0 between a row and itself as its partner."""
        cosines = (self.unit[rows] @ self.unit[others].T).toarray()
        alone = np.flatnonzero(rows == others)
        cosines[alone, alone] = 0.0
        return torch.from_numpy(cosines)


@njit(cache=True, nogil=True)
def _draw(rows, indptr, indices, t_indptr, t_indices, rarity, chances, found):  # type: ignore[no-untyped-def]
    for place in range(len(rows)):
        row, best = rows[place], 0.0
        start, stop = indptr[row], indptr[row + 1]
        total = 0.0
        for cell in range(start, stop):
            total += rarity[indices[cell]]
        for draw in range(chances.shape[1] if stop > start else 0):
            left, cell = chances[place, draw, 0] * total, start
            while cell < stop - 1 and left >= rarity[indices[cell]]:
                left -= rarity[indices[cell]]
                cell += 1
            label = indices[cell]
            having = t_indptr[label + 1] - t_indptr[label]
            other = t_indices[t_indptr[label] + int(chances[place, draw, 1] * having)]
            similarity = _overlap(indices[start:stop], indices[indptr[other] : indptr[other + 1]])
            if other != row and similarity > best:
                best, found[place] = similarity, other


@njit(cache=True, nogil=True)
def _overlap(one, other):  # type: ignore[no-untyped-def]
    """Cosine of two sorted sets."""
    a, b, shared = 0, 0, 0
    while a < len(one) and b < len(other):
        if one[a] == other[b]:
            shared += 1
            a += 1
            b += 1
        elif one[a] < other[b]:
            a += 1
        else:
            b += 1
    return shared / np.sqrt(len(one) * len(other))
