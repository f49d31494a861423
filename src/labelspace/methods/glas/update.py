"""Updates of a trained GLaS by further examples and new labels, without the old examples.

What is to be kept of a label space is its Gram matrix. While the new examples are trained on, the
labels known before keep theirs by the penalty

    l_Gram = 1/m^2 || V_b V_b^T - V'_b V'_b^T ||_F^2,    V' the vectors before the update,

and the learning rate of a feature or label is multiplied by the share of its examples that are new:
a label with a thousand examples hardly changes for one more, a new label is free. Old examples are
replayed beside each batch, as the points that the model stores of them for voting: they are the
negatives of the new labels.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch
from scipy.sparse import csr_matrix, vstack

from labelspace.components.training_counts import TrainingCounts
from labelspace.methods.glas.objective import BatchObjective
from labelspace.methods.glas.space import (
    LabelSpace,
    initial_vectors,
    trained_layer,
    trained_table,
)
from labelspace.nn.encoder import Encoder, unit, unit_array
from labelspace.nn.sampling import Candidates, CandidateSampler
from labelspace.search.neighbours.compressed import CompressedExamples

GRAM_WEIGHT = 10.0
MIN_STEPS = 100  # optimiser steps of an update
MIN_REPLAYED = 256  # old examples beside a batch
MAX_GRAM_LABELS = 512  # labels per batch whose Gram matrix is kept


def extended(
    space: LabelSpace,
    before: TrainingCounts,
    after: TrainingCounts,
    X: csr_matrix,
    Y: csr_matrix,
    params: SimpleNamespace,
    known: np.ndarray,
) -> LabelSpace:
    """Return a trainable space for these examples too; new labels start at their centroids.

    Parameters
    ----------
    space : LabelSpace
        The space so far. It may share tensors of hidden layers with the result.
    before, after : TrainingCounts
        Counts without and with the new examples.
    X, Y : csr_matrix
        The new examples; Y has the columns of new labels at its end.
    params : SimpleNamespace
        The parameters of the method.
    known : ndarray of shape (known labels, dim)
        The label vectors so far.
    """
    first = np.array(space.encoder.input_layer.weight)
    new_share = _new_share(before.features, after.features)
    encoder = Encoder(trained_layer(params.optimiser, first, new_share), space.encoder.hidden)
    for layer in encoder.hidden:
        for part, tensor in layer.items():
            tensor.requires_grad_(part != "bias" or params.hidden_bias)
    new = Y[:, len(before.labels) :]
    points = unit_array(space.embed(X)) if new.nnz else None
    rng = np.random.default_rng([params.seed, new.shape[1]])
    added = initial_vectors(new, points, encoder.dim, rng)
    return LabelSpace(
        encoder,
        trained_table(
            params.optimiser,
            np.concatenate([known, added]),
            _new_share(np.pad(before.labels, (0, len(added))), after.labels),
        ),
        _extended_bias(space.bias, before, after, params.prior),
        space.scale.clone().detach().requires_grad_(params.train_scale),
        unit_inputs=space.unit_inputs,
        unit_labels=space.unit_labels,
    )


def update_epochs(epochs: int, n_examples: int, batch_size: int) -> int:
    """Return half of the epochs of `fit`; more where these would be less than MIN_STEPS steps."""
    steps = -(-n_examples // batch_size)
    return max(1, epochs // 2, -(-MIN_STEPS // steps))


class UpdateObjective(BatchObjective):
    """The loss of a batch of new and replayed examples, and the penalty on the Gram matrix.

    Parameters
    ----------
    space, params, X, Y
        As for `BatchObjective`; X and Y are the new examples.
    known : ndarray of shape (known labels, dim)
        The label vectors before the update.
    old : CompressedExamples or None
        The old examples to replay.
    """

    def __init__(
        self,
        space: LabelSpace,
        params: SimpleNamespace,
        X: csr_matrix,
        Y: csr_matrix,
        known: np.ndarray,
        old: CompressedExamples | None,
    ) -> None:
        super().__init__(space, params, X, Y)
        self.known, self.old = known, old
        if old is not None:
            both = vstack([self._old_labels(slice(None)), Y], format="csr")
            self.sampler = CandidateSampler(both, params.negatives, params.n_negatives)

    def replayed(
        self, z: torch.Tensor, Y: csr_matrix, rng: np.random.Generator
    ) -> tuple[torch.Tensor, csr_matrix]:
        if self.old is None:
            return z, Y
        rows = rng.integers(0, len(self.old), max(len(z), MIN_REPLAYED))
        points = torch.from_numpy(self.old.points(rows))
        return torch.cat([z, points]), vstack([Y, self._old_labels(rows)], format="csr")

    def _old_labels(self, rows: np.ndarray | slice) -> csr_matrix:
        """Return the labels of old examples, with a column for every new label too."""
        assert self.old is not None
        known = self.old.Y[rows]
        return csr_matrix(
            (known.data, known.indices, known.indptr), (known.shape[0], self.Y.shape[1])
        )

    def penalty(
        self,
        z: torch.Tensor,
        vectors: torch.Tensor,
        Y: csr_matrix,
        candidates: Candidates,
        sampled: np.ndarray | None,
    ) -> torch.Tensor:
        penalty = super().penalty(z, vectors, Y, candidates, sampled)
        kept = np.flatnonzero(candidates.labels < len(self.known))
        if len(kept) == 0:  # a batch of new labels alone
            return penalty
        kept = kept[:: max(1, len(kept) // MAX_GRAM_LABELS)]
        before = torch.from_numpy(self.known[candidates.labels[kept]])
        before = unit(before) if self.space.unit_labels else before
        now = vectors[torch.from_numpy(kept)]
        change = ((now @ now.T - before @ before.T) ** 2).mean()
        return penalty + GRAM_WEIGHT * change


def _extended_bias(
    bias: torch.Tensor, before: TrainingCounts, after: TrainingCounts, prior: bool
) -> torch.Tensor:
    """Return the new log odds plus what training had added to the old ones; 0 without a prior.

    New labels get the mean of what training had added.
    """
    if not prior:
        return torch.zeros(len(after.labels))
    learned = bias.detach().numpy() - before.log_odds()
    n_new = len(after.labels) - len(learned)
    found = after.log_odds() + np.pad(learned, (0, n_new), constant_values=learned.mean())
    return torch.from_numpy(found.astype(np.float32)).requires_grad_()


def _new_share(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return the share of examples that are new, per feature or label."""
    return np.asarray((after - before) / np.maximum(after, 1), np.float32)
