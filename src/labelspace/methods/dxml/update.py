"""`partial_fit` of DXML: further examples and labels for a trained space.

The encoders are trained on the new examples. Examples known before keep their points, and are
neighbours in every batch, so that the space stays where it is; with losses on targets the label
vectors do that. The new examples then join those that vote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.dense import unit_array
from labelspace._core.sparse import as_csr, with_columns
from labelspace.components.training_data import TrainingData
from labelspace.methods.dxml.objective import FixedExamples
from labelspace.methods.dxml.training import train, trainable

if TYPE_CHECKING:
    from labelspace.methods.dxml.method import DXML


def update(model: DXML, data: TrainingData) -> None:
    """Train the model on further examples and let them vote; the labels may be more."""
    labelled = np.flatnonzero(np.diff(data.Y.indptr))
    X, Y = as_csr(data.X)[labelled], data.Y[labelled]
    if model.graph_vectors_ is not None:
        model.graph_vectors_ = with_new_labels(
            model.graph_vectors_, Y, model.points(X)[0], unit=model.params_.unit_targets
        )
    if model.params_.update_epochs > 0 and len(labelled):
        points = [np.asarray(index.vectors) for index in model.vote_.indexes]
        fixed = FixedExamples(points, with_columns(model.vote_.Y, Y.shape[1]))
        model.encoders_ = [
            trainable(encoder.trainable(), model.params_) for encoder in model.encoders_
        ]
        train(model, data, X, Y, model.params_.update_epochs, fixed=fixed)
    model.vote_ = model.vote_.extended(model.points(X), X, Y, labelled, data.Y.shape[0])


def with_new_labels(
    vectors: np.ndarray, Y: csr_matrix, points: np.ndarray, *, unit: bool = True
) -> np.ndarray:
    """Return the label vectors with those of new labels appended.

    The vector of a new label has the direction of the mean of the known labels that it occurs with,
    or else of its examples' points; a label without examples gets zeros.

    Parameters
    ----------
    vectors : ndarray of shape (known labels, dim)
    Y : csr_matrix of shape (n, labels)
        Labels of the new examples, new labels in the last columns.
    points : ndarray of shape (n, dim)
        Points of the new examples.
    unit : bool
        Whether vectors have length 1; if not, new ones get the mean length of the known ones.
    """
    known, new = len(vectors), Y[:, len(vectors) :]
    cooccurrences = csr_matrix(new.T) @ Y[:, :known]
    added = np.asarray(cooccurrences @ vectors, np.float32)
    alone = np.diff(cooccurrences.indptr) == 0
    added[alone] = np.asarray(new.T @ points)[alone]
    added = unit_array(added)
    if not unit:
        added *= np.linalg.norm(vectors, axis=1).mean()
    return np.vstack([vectors, added])
