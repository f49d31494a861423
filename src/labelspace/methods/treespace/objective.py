"""The loss of TreeSpace on a batch: prediction at every level, consistency, regularisation.

    prediction * sum_s w_s / B sum_x sum_{c child of a node of x} BCE(h_c(x), is c a node of x)
        + consistency * mean_c parent_distance(e_c, e_p P_p)
        + regularisation * (sum_(a,b) mean_p mean P_p^2 + mean_c |offset_c|^2)
        + dimensionality * sum_s sum_j sqrt(mean_c e_cj^2)

where (a, b) are the pairs of spaces that the parents p of a batch are projected from and to; the
two parts of a low-rank P_p, the matrix of its level and its own, count separately. h_c(x) = scale_s
similarity(z_s(x), e_c) + b_c, where s is the space of c. `similarity` and `parent_distance` are
those of the geometry.

The last term is a group penalty: the norm of each dimension j of a space over the nodes c of the
batch in it, summed over dimensions. Nodes have a fixed length, or one that the prediction needs, so
the sum is small if few dimensions hold it all. It is a penalty on the rank as well: a rotation of a
space changes no score, and the smallest sum over all rotations is the sum of the singular values.

A node is trained on the examples of its parents only: its siblings are the hard negatives, and it
need not be separated from other nodes.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from labelspace._core.sparse import rows_of
from labelspace.methods.treespace.vectors import Step
from labelspace.nn import exchange
from labelspace.nn.encoder import times_scalar
from labelspace.nn.losses import sigmoid_of, softplus_of, with_gradient
from labelspace.nn.sampling import inclusion_chance, own_features
from labelspace.nn.trainer import Batch

if TYPE_CHECKING:
    from labelspace.methods.treespace.method import TreeSpace

SMALLEST = 1e-6  # root mean square of a dimension that counts as none


class TreeObjective:
    """The loss of a batch.

    Parameters
    ----------
    model : TreeSpace
        Its encoder, vectors, biases and scales are trained.
    X : csr_matrix of shape (examples, features)
    node_indicator : csr_matrix of shape (examples, nodes)
        The nodes of each example, the root included.
    """

    def __init__(self, model: TreeSpace, X: csr_matrix, node_indicator: csr_matrix) -> None:
        self.model, self.X, self.node_indicator = model, X, node_indicator
        self.geometry = model.vectors_.geometry
        nodes = model.nodes_
        counts = np.bincount(node_indicator.indices, minlength=len(nodes))
        self.frequency = counts / node_indicator.shape[0]
        self.n_children = np.diff(nodes.children.indptr)
        self.is_sampled = self.n_children > model.params_.n_negatives
        self.weights = _level_weights(model.params_, len(model.layout_.dims))
        several = np.flatnonzero(np.diff(nodes.parents.indptr) > 1)
        extra = np.isin(nodes.edges[:, 0], several)
        extra &= nodes.edges[:, 1] != nodes.main_parent[nodes.edges[:, 0]]
        self.other_edges = nodes.edges[extra]  # edges to parents that are not the main parent

    def __call__(self, batch: Batch) -> Tensor:
        model, together = self.model, exchange.current()
        own = together.part(len(batch.rows))
        X = own_features(self.X, batch.rows, own, model.params_.keep, batch.rng)
        points = model.encoder_(X)
        truth = _Truth(self.node_indicator[batch.rows], own)
        chosen, inclusion = self._candidates(truth.nodes, len(batch.rows), batch.rng)
        steps = model.vectors_.steps(chosen)
        vectors, projected, offsets, mean_squares = model.vectors_.batch(steps)
        # There are no steps if no child of the root was sampled: the loss still needs a graph.
        loss = torch.zeros(()) if steps else 0.0 * points[0].sum()
        for step, vector in zip(steps, vectors, strict=True):
            space = step.pair[1]
            ids = torch.from_numpy(step.nodes)
            similarity = self.geometry.similarity(points[space], vector)
            logits = times_scalar(model.scale_[space], similarity) + model.bias_[ids]
            chance = inclusion[np.searchsorted(chosen, step.nodes)]
            mask = truth.indicator(model.nodes_.main_parent[step.nodes])
            self._add_other_parents(mask, step, truth)
            bce = _masked_bce(logits, truth.indicator(step.nodes), mask, chance)
            loss = loss + model.params_.prediction * float(self.weights[space]) * bce
        loss = loss + self._penalty(vectors, projected, offsets, mean_squares)
        if model.params_.dimensionality > 0:
            loss = loss + model.params_.dimensionality * _column_norms(steps, vectors)
        return together.weighted(loss, len(batch.rows))

    def _candidates(
        self, positive: np.ndarray, n: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the nodes to score, which are the children of the batch's nodes or, of nodes with
        many children, a sample of these, and the probability of each to be included."""
        children = self.model.nodes_.children
        complete = positive[~self.is_sampled[positive]]
        pieces = [positive[positive > 0], children[complete].indices]
        chance = np.ones(len(self.frequency), np.float32)
        for node in positive[self.is_sampled[positive]]:
            below = children.indices[children.indptr[node] : children.indptr[node + 1]]
            rate = self.model.params_.n_negatives / self.n_children[node]
            pieces.append(below[rng.random(len(below)) < rate])
            chance[below] = inclusion_chance(self.frequency[below], n, rate)
        chosen = self.model.vectors_.with_ancestors(np.unique(np.concatenate(pieces)))
        return chosen, chance[chosen]

    def _add_other_parents(self, mask: Tensor, step: Step, truth: _Truth) -> None:
        """Add the examples of a node's other parents to the mask of those it is trained on."""
        if not len(self.other_edges):
            return
        order = np.argsort(step.nodes)
        place = np.searchsorted(step.nodes, self.other_edges[:, 0], sorter=order)
        place = order[np.minimum(place, len(order) - 1)]
        here = np.flatnonzero(step.nodes[place] == self.other_edges[:, 0])
        for edge in here:
            column = truth.indicator(self.other_edges[edge, 1:])[:, 0]
            mask[:, place[edge]] = torch.maximum(mask[:, place[edge]], column)

    def _penalty(
        self,
        vectors: list[Tensor],
        projected: list[Tensor | None],
        offsets: list[Tensor],
        mean_squares: Tensor,
    ) -> Tensor:
        """Return the weighted consistency loss and regulariser."""
        model, loss = self.model, torch.zeros(())
        pairs = [(v, e) for v, e in zip(vectors, projected, strict=True) if e is not None]
        count = max(1, sum(len(v) for v, _ in pairs))
        if model.params_.consistency > 0 and pairs:
            distance = sum(self.geometry.parent_distance(v, e).sum() for v, e in pairs)
            loss = loss + model.params_.consistency * distance / count
        if model.params_.regularisation > 0:
            total = max(1, sum(len(part) for part in offsets))
            squares = sum(part.square().sum(1).sum() for part in offsets) / total
            loss = loss + model.params_.regularisation * (mean_squares + squares)
        return loss


def _level_weights(params: SimpleNamespace, n_spaces: int) -> np.ndarray:
    """Return the weight of the prediction loss of each space; the last one given repeats."""
    if params.level_weights is None:
        return np.asarray(params.level_weight ** np.arange(n_spaces))
    given = np.array(params.level_weights)
    return np.asarray(given[np.minimum(np.arange(n_spaces), len(given) - 1)])


def _column_norms(steps: list[Step], vectors: list[Tensor]) -> Tensor:
    """Return the root mean square of each dimension over the nodes of its space, all summed."""
    total = torch.zeros(())
    for space in sorted({step.pair[1] for step in steps}):
        here = [v for step, v in zip(steps, vectors, strict=True) if step.pair[1] == space]
        vector = here[0] if len(here) == 1 else torch.cat(here)
        # The root has no derivative at 0; below this, a dimension has no effect on a score.
        total = total + torch.sqrt(vector.square().mean(0) + SMALLEST**2).sum()
    return total


class _Truth:
    """The nodes of a batch and which example has which, dense, since a batch has few of them.

    The examples are those of `own`, this worker's part of the batch.
    """

    def __init__(self, node_indicator: csr_matrix, own: slice) -> None:
        self.nodes = np.unique(node_indicator.indices)
        node_indicator = node_indicator[own]
        dense = np.zeros((node_indicator.shape[0], len(self.nodes) + 1), np.float32)
        rows = rows_of(node_indicator)
        dense[rows, np.searchsorted(self.nodes, node_indicator.indices)] = 1.0
        self.dense = torch.from_numpy(dense)  # the last column is empty, for nodes of no example

    def indicator(self, nodes: np.ndarray) -> Tensor:
        """Return the (examples, nodes) matrix, 1 where the example has the node."""
        place = np.minimum(np.searchsorted(self.nodes, nodes), len(self.nodes) - 1)
        place = np.where(self.nodes[place] == nodes, place, len(self.nodes))
        return self.dense[:, torch.from_numpy(place)]


def _masked_bce(logits: Tensor, truth: Tensor, mask: Tensor, chance: np.ndarray) -> Tensor:
    """Return the binary cross-entropy where the mask is 1, averaged over examples.

    Negatives are weighted by the inverse of their chance to be included. The gradient is computed
    by hand, which takes less memory.
    """
    values = logits.detach()
    weight = torch.from_numpy(1.0 / chance).expand_as(values)
    weight = torch.where(truth > 0, torch.ones(()), weight) * mask / len(values)
    value = (weight * (softplus_of(values) - truth * values)).sum(1).sum()
    return with_gradient(logits, value, weight * (sigmoid_of(values) - truth))
