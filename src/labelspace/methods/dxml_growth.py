"""What DXML needs to learn more: places for new labels, and encoders that can be trained again."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.nn.encoder import Encoder, unit_array
from labelspace.nn.rows import SparseLinear


def place_labels(vectors: np.ndarray, Y: csr_matrix, points: np.ndarray) -> np.ndarray:
    """Label vectors with the new labels' behind them, as many as Y has columns.

    A new label goes to the mean of the known labels it occurs with in Y, or else to the mean of
    its examples' points; without examples it has none, and stays at zero.
    """
    known, new = len(vectors), Y[:, len(vectors) :]
    beside = csr_matrix(new.T) @ Y[:, :known]
    placed = np.asarray(beside @ vectors, np.float32)
    alone = np.diff(beside.indptr) == 0
    placed[alone] = np.asarray(new.T @ points)[alone]
    return np.vstack([vectors, unit_array(placed)])


def trainable(encoder: Encoder) -> Encoder:
    """A copy that can be trained, with no memory of earlier steps: a loaded one has none either."""
    hidden = [
        {part: tensor.detach().clone().requires_grad_() for part, tensor in layer.items()}
        for layer in encoder.hidden
    ]
    return Encoder(SparseLinear(np.array(encoder.first.weight)), hidden)
