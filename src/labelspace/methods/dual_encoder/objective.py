"""The objective of the dual encoder on a batch: cross-entropy over the labels of the batch.

    - 1/B sum_i sum_{p positive} log (exp s z_i . u_p / sum_c exp s z_i . u_c)

The sum over c is over the labels of all examples of the batch and, with negatives "uniform", over
labels drawn at random, of which some have no examples.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch
from scipy.sparse import csr_matrix

from labelspace._core.sparse import rows_of, unit_rows
from labelspace.methods.dual_encoder.space import DualSpace
from labelspace.nn.encoder import times_scalar
from labelspace.nn.losses import softmax_loss
from labelspace.nn.sampling import CandidateSampler, drop_features
from labelspace.nn.trainer import Batch


class BatchObjective:
    """The loss of a batch.

    Parameters
    ----------
    space : DualSpace
        The weights to train.
    params : SimpleNamespace
        The parameters of the method.
    X, Y : csr_matrix
        The training examples.
    """

    def __init__(
        self, space: DualSpace, params: SimpleNamespace, X: csr_matrix, Y: csr_matrix
    ) -> None:
        self.space, self.params, self.X, self.Y = space, params, unit_rows(X), Y
        self.sampler = CandidateSampler(Y, params.negatives, params.n_negatives)
        # A label without text has nothing but its own vector, which is then always kept.
        self.without_text = np.diff(space.texts.indptr) == 0

    def __call__(self, batch: Batch) -> torch.Tensor:
        """Return the loss of a batch, with gradient."""
        X = drop_features(self.X[batch.rows], self.params.keep, batch.rng)
        Y = self.Y[batch.rows]
        candidates = self.sampler.draw(Y, batch.rng)
        drawn = batch.rng.random(len(candidates.labels)) >= self.params.label_dropout
        z, u = self.space.pair(X, candidates.labels, drawn | self.without_text[candidates.labels])
        return softmax_loss(
            times_scalar(self.space.scale, z @ u.T),
            torch.from_numpy(rows_of(Y)),
            torch.from_numpy(candidates.columns(Y.indices)),
        )
