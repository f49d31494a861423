"""More examples and new labels for a trained GLaS, without forgetting the shape of the space.

The shape of a space of labels is its Gram matrix. While the new examples are learned, the labels
known before keep theirs,

    l_shape = 1/m^2 || V_b V_b^T - V'_b V'_b^T ||_F^2,    V' the vectors before,

and a row of features or labels moves by the share of its examples that are new: a label with a
thousand examples hardly moves for one more, a new one is free. Beside each batch stand old
examples, as the points that the model keeps of them to vote: they tell new labels where they do not
belong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.sparse import csr_matrix, vstack

from labelspace.methods.glas.objective import BatchObjective
from labelspace.nn.encoder import unit, unit_array
from labelspace.nn.row_tables import RowTable, SparseLinear
from labelspace.nn.sampling import Candidates, CandidateSampler

if TYPE_CHECKING:
    from labelspace.methods.glas.method import GLaS

SHAPE_WEIGHT = 10.0
LEAST_STEPS = 100
LEAST_REMEMBERED = 256  # old examples beside a batch
MOST_HELD = 512  # labels of a batch whose shape is held


def grow(model: GLaS, X: csr_matrix, Y: csr_matrix) -> ShapeKeeper:
    """Make room in the model for new labels, and ready it to learn: what it then minimises."""
    before, after = model.counts_, model.counts_.plus(X, Y)
    n_known = len(before.labels)
    first = np.array(model.encoder_.input_layer.weight)
    model.encoder_.input_layer = SparseLinear(first, _new_share(before.features, after.features))
    for tensor in model.encoder_.dense_parameters():
        tensor.requires_grad_()
    known = np.array(model.table_.weight)
    added = _placed(model, X, Y[:, n_known:])
    row_lr_scale = _new_share(np.pad(before.labels, (0, len(added))), after.labels)
    model.table_ = RowTable(np.concatenate([known, added]), row_lr_scale)
    bias = model.bias_.detach().numpy()
    if model.params_.prior:  # what training added to the log odds stays; new labels get its mean
        learned = bias - before.log_odds()
        bias = after.log_odds() + np.pad(learned, (0, len(added)), constant_values=learned.mean())
    else:
        bias = np.zeros(len(after.labels), np.float32)
    model.bias_ = torch.from_numpy(bias.astype(np.float32)).requires_grad_(model.params_.prior)
    model.scale_ = model.scale_.clone().detach().requires_grad_()
    model.counts_ = after
    return ShapeKeeper(model, X, Y, known)


def passes_to_grow(epochs: int, n_examples: int, batch_size: int) -> int:
    """Half of the passes of a first training; more where they would be a few steps in all."""
    steps = -(-n_examples // batch_size)
    return max(1, epochs // 2, -(-LEAST_STEPS // steps))


class ShapeKeeper(BatchObjective):
    """The loss of a batch of new examples, and how far the known labels' shape has changed."""

    def __init__(self, model: GLaS, X: csr_matrix, Y: csr_matrix, known: np.ndarray) -> None:
        super().__init__(model, X, Y)
        self.known = known
        # Points in the space say nothing of an example's length before it was made 1.
        self.old = model.blend_.voters if model.params_.unit_inputs else None
        if self.old is not None:
            both = vstack([self._old_labels(slice(None)), Y], format="csr")
            self.sampler = CandidateSampler(
                both, model.params_.negatives, model.params_.n_negatives
            )

    def beside(
        self, z: torch.Tensor, Y: csr_matrix, rng: np.random.Generator
    ) -> tuple[torch.Tensor, csr_matrix]:
        if self.old is None:
            return z, Y
        rows = rng.integers(0, len(self.old), max(len(z), LEAST_REMEMBERED))
        points = torch.from_numpy(self.old.points(rows))
        return torch.cat([z, points]), vstack([Y, self._old_labels(rows)], format="csr")

    def _old_labels(self, rows: np.ndarray | slice) -> csr_matrix:
        assert self.old is not None
        known = self.old.Y[rows]
        return csr_matrix(
            (known.data, known.indices, known.indptr), (known.shape[0], self.Y.shape[1])
        )

    def penalty(
        self, z: torch.Tensor, vectors: torch.Tensor, Y: csr_matrix, candidates: Candidates
    ) -> torch.Tensor:
        penalty = super().penalty(z, vectors, Y, candidates)
        held = np.flatnonzero(candidates.labels < len(self.known))
        if len(held) == 0:  # a batch of new labels alone
            return penalty
        held = held[:: max(1, len(held) // MOST_HELD)]
        before = torch.from_numpy(self.known[candidates.labels[held]])
        before = unit(before) if self.model.params_.unit_labels else before
        now = vectors[torch.from_numpy(held)]
        change = ((now @ now.T - before @ before.T) ** 2).mean()
        return penalty + SHAPE_WEIGHT * change


def _placed(model: GLaS, X: csr_matrix, Y: csr_matrix) -> np.ndarray:
    """New labels at the centroids of their examples; at random where they have none."""
    drawn = np.random.default_rng([model.params_.seed, Y.shape[1]]).standard_normal(
        (Y.shape[1], model.params_.dim), np.float32
    )
    vectors = unit_array(drawn)
    if Y.nnz:
        centroids = np.asarray(Y.T @ unit_array(model.embed(X)), np.float32)
        found = np.abs(centroids).max(axis=1) > 0
        vectors[found] = unit_array(centroids[found])
    return vectors


def _new_share(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    return np.asarray((after - before) / np.maximum(after, 1), np.float32)
