"""Further examples and labels of a trained dual encoder, without training.

W stays. A label that had no examples in training gets the mean of its examples' points as its own
vector v; a label that had some keeps the trained one.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.sparse import with_rows
from labelspace.methods.dual_encoder.space import DualSpace

TRAINED = -1  # in place of a number of examples: the vector of the label was trained


def trained_labels(Y: csr_matrix) -> np.ndarray:
    """Return the counts of `with_examples` after training on these labels."""
    return np.where(np.bincount(Y.indices, minlength=Y.shape[1]) > 0, TRAINED, 0)


def with_examples(
    space: DualSpace, counts: np.ndarray, X: csr_matrix, Y: csr_matrix
) -> tuple[DualSpace, np.ndarray]:
    """Return a space and counts with further examples; Y may have more labels.

    Parameters
    ----------
    space : DualSpace
    counts : ndarray of shape (n_labels,)
        How many examples the vector of a label is the mean of, or `TRAINED`.
    X, Y : csr_matrix
        The further examples. Labels that `space` does not have are without text.
    """
    n_labels = Y.shape[1]
    counts = np.pad(counts, (0, n_labels - len(counts)))
    texts = with_rows(space.texts, np.empty(0, np.int64), space.texts[:0], n_labels)
    old = space.table.weight
    vectors = np.zeros((n_labels, old.shape[1]), np.float32)
    vectors[: len(old)] = old
    more = np.bincount(Y.indices, minlength=n_labels)
    grown = np.flatnonzero((more > 0) & (counts != TRAINED))
    sums = np.asarray(Y[:, grown].T @ space.embed(X), np.float32)
    before, after = counts[grown], counts[grown] + more[grown]
    vectors[grown] = (before[:, None] * vectors[grown] + sums) / after[:, None]
    counts[grown] = after
    return space.with_labels(vectors, texts), counts
