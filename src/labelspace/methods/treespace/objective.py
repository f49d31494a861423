"""What TreeSpace minimises on a batch: predictions at every level, consistency, regularisation.

    prediction * sum_s w_s / B sum_x sum_{c below a node of x} BCE(h_c(x), is c a node of x)
        + consistency * mean_c apart(e_c, e_p P_p)
        + regularisation * (sum_(a,b) mean_p mean P_p^2 + mean_c |own_c|^2)

where (a, b) are the pairs of spaces that the parents p of a batch are projected from and to; the
two parts of a low-rank P_p, its level's matrix and its own, count each by itself. h_c(x) = scale_s
nearness(z_s(x), e_c) + b_c and s is the space of c. Nearness is the inner product and apart one
less the cosine, or both are by distance in a ball: see the geometries.

A child is trained on the examples of its parents alone: it has to be told from its siblings, which
are the hard negatives of every example below their parent, and from nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from labelspace._core.sparse import rows_of
from labelspace.methods.treespace.vectors import Step
from labelspace.nn.encoder import times_scalar
from labelspace.nn.losses import sigmoid_of, softplus_of, with_gradient
from labelspace.nn.sampling import drop_features, inclusion_chance
from labelspace.nn.trainer import Batch

if TYPE_CHECKING:
    from labelspace.methods.treespace.method import TreeSpace


class TreeObjective:
    """The loss of a batch.

    above  (examples, nodes) the nodes of each example, the root included
    """

    def __init__(self, model: TreeSpace, X: csr_matrix, above: csr_matrix) -> None:
        self.model, self.X, self.above = model, X, above
        self.geometry = model.vectors_.geometry
        nodes = model.nodes_
        self.share = np.bincount(above.indices, minlength=len(nodes)) / above.shape[0]
        fans = np.diff(nodes.down.indptr)
        self.is_wide = fans > model.params_.n_negatives
        self.fan = fans
        self.weights = model.params_.level_weight ** np.arange(len(model.layout_.dims))
        several = np.flatnonzero(np.diff(nodes.up.indptr) > 1)
        extra = np.isin(nodes.edges[:, 0], several)
        extra &= nodes.edges[:, 1] != nodes.main[nodes.edges[:, 0]]
        self.extra = nodes.edges[extra]  # edges beside those to main parents

    def __call__(self, batch: Batch) -> Tensor:
        model = self.model
        X = drop_features(self.X[batch.rows], model.params_.keep, batch.rng)
        above = self.above[batch.rows]
        points = model.encoder_(X)
        truth = _Truth(above)
        chosen, inclusion = self._candidates(truth.nodes, len(batch.rows), batch.rng)
        steps = model.vectors_.steps(chosen)
        vectors, expected, own, projections = model.vectors_.batch(steps)
        loss = torch.zeros(()) if steps else 0.0 * points[0].sum()  # no child of the root was drawn
        for step, vector in zip(steps, vectors, strict=True):
            space = step.pair[1]
            ids = torch.from_numpy(step.nodes)
            near = self.geometry.nearness(points[space], vector)
            logits = times_scalar(model.scale_[space], near) + model.bias_[ids]
            weight = inclusion[np.searchsorted(chosen, step.nodes)]
            asked = truth.has_any(model.nodes_.main[step.nodes])
            self._ask_other_parents(asked, step, truth)
            told = self._told(logits, truth.has_any(step.nodes), asked, weight)
            loss = loss + model.params_.prediction * float(self.weights[space]) * told
        return loss + self._penalty(vectors, expected, own, projections)

    def _candidates(
        self, positive: np.ndarray, n: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Children of the batch's nodes, some of those of wide ones; and the odds they had."""
        down = self.model.nodes_.down
        narrow = positive[~self.is_wide[positive]]
        pieces = [positive[positive > 0], _columns(down, narrow)]
        odds = np.ones(len(self.share), np.float32)
        for node in positive[self.is_wide[positive]]:
            below = down.indices[down.indptr[node] : down.indptr[node + 1]]
            drawn = self.model.params_.n_negatives / self.fan[node]
            pieces.append(below[rng.random(len(below)) < drawn])
            odds[below] = inclusion_chance(self.share[below], n, drawn)
        chosen = self.model.vectors_.with_ancestors(np.unique(np.concatenate(pieces)))
        return chosen, odds[chosen]

    def _ask_other_parents(self, asked: Tensor, step: Step, truth: _Truth) -> None:
        """A node is asked of the examples of all its parents."""
        if not len(self.extra):
            return
        order = np.argsort(step.nodes)
        place = np.searchsorted(step.nodes, self.extra[:, 0], sorter=order)
        place = order[np.minimum(place, len(order) - 1)]
        here = np.flatnonzero(step.nodes[place] == self.extra[:, 0])
        for edge in here:
            column = truth.has_any(self.extra[edge, 1:])[:, 0]
            asked[:, place[edge]] = torch.maximum(asked[:, place[edge]], column)

    def _told(self, logits: Tensor, truth: Tensor, asked: Tensor, odds: np.ndarray) -> Tensor:
        """Weighted binary cross-entropy with its gradient by hand, averaged over examples."""
        values = logits.detach()
        weight = torch.from_numpy(1.0 / odds).expand_as(values)
        weight = torch.where(truth > 0, torch.ones(()), weight) * asked / len(values)
        value = (weight * (softplus_of(values) - truth * values)).sum(1).sum()
        return with_gradient(logits, value, weight * (sigmoid_of(values) - truth))

    def _penalty(
        self,
        vectors: list[Tensor],
        expected: list[Tensor | None],
        own: list[Tensor],
        projections: Tensor,
    ) -> Tensor:
        model, loss = self.model, torch.zeros(())
        pairs = [(v, e) for v, e in zip(vectors, expected, strict=True) if e is not None]
        count = max(1, sum(len(v) for v, _ in pairs))
        if model.params_.consistency > 0 and pairs:
            apart = sum(self.geometry.apart(v, e).sum() for v, e in pairs)
            loss = loss + model.params_.consistency * apart / count
        if model.params_.regularisation > 0:
            total = max(1, sum(len(part) for part in own))
            lengths = sum(part.square().sum(1).sum() for part in own) / total
            loss = loss + model.params_.regularisation * (projections + lengths)
        return loss


class _Truth:
    """Which of a batch's nodes each example has, dense: a batch has few of them."""

    def __init__(self, above: csr_matrix) -> None:
        self.nodes = np.unique(above.indices)
        dense = np.zeros((above.shape[0], len(self.nodes) + 1), np.float32)
        rows = rows_of(above)
        dense[rows, np.searchsorted(self.nodes, above.indices)] = 1.0
        self.dense = torch.from_numpy(dense)  # the last column is empty

    def has_any(self, nodes: np.ndarray) -> Tensor:
        """(examples, nodes) 1 where the example has the node."""
        place = np.minimum(np.searchsorted(self.nodes, nodes), len(self.nodes) - 1)
        place = np.where(self.nodes[place] == nodes, place, len(self.nodes))
        return self.dense[:, torch.from_numpy(place)]


def _columns(matrix: csr_matrix, rows: np.ndarray) -> np.ndarray:
    return np.asarray(matrix[rows].indices)
