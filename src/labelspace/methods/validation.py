"""The cut of the training data that methods validate on: how large it is, and which rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.methods.base import TrainingData, as_csr

LEAST_VALIDATED, MOST_VALIDATED = 1000, 4000


def validation_share(wanted: float | None, n_examples: int) -> float:
    """2 % of the examples, up to 10 % where these are fewer than 1,000, and 4,000 at most."""
    if wanted is None:
        wanted = max(0.02, min(0.1, LEAST_VALIDATED / n_examples))
    return min(wanted, MOST_VALIDATED / n_examples)


def cut_validation(
    n_rows: int, fraction: float = 0.05, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """(training rows, validation rows): a seeded cut of the given share, both sorted."""
    order = np.random.default_rng([seed, n_rows]).permutation(n_rows)
    size = min(round(fraction * n_rows), n_rows - 1)
    return np.sort(order[size:]), np.sort(order[:size])


class Parts(NamedTuple):
    """Examples to train on, those to validate on, if any, and which rows of the data both are."""

    X: csr_matrix
    Y: csr_matrix
    valid: tuple[csr_matrix, csr_matrix] | None
    rows: np.ndarray


def parts_of(data: TrainingData, wanted: float | None, seed: int) -> Parts:
    """What the caller holds out is taken for validation, else a cut of the share that is wanted.

    Where either side would be without labels, there is no validation.
    """
    X, Y = as_csr(data.X), data.Y
    everything = np.arange(X.shape[0])
    if data.valid is not None:
        held = (as_csr(data.valid[0]), data.valid[1])
        return Parts(X, Y, held if held[1].nnz else None, everything)
    rows, cut = cut_validation(X.shape[0], validation_share(wanted, X.shape[0]), seed)
    if Y[cut].nnz == 0 or Y[rows].nnz == 0:
        return Parts(X, Y, None, everything)
    return Parts(X[rows], Y[rows], (X[cut], Y[cut]), np.concatenate([rows, cut]))
