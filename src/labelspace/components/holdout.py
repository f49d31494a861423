"""The hold-out: training examples that a method is validated and calibrated on.

Every method splits its training data by `HoldOut.of`, unless the caller of `fit` passes `valid`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.sparse import as_csr
from labelspace.components.near_duplicates import cut_by_group
from labelspace.components.training_data import TrainingData

# Below MIN_HELD_OUT examples a validation score is noise, above MAX_HELD_OUT it gains nothing.
MIN_HELD_OUT, MAX_HELD_OUT = 1000, 4000
# Up to this number of examples, a model that trains in seconds is fitted again on all once it is
# calibrated; above, the hold-out is a small part, and a second fit takes as long as the first.
FEW_EXAMPLES = 20_000


@dataclass(frozen=True, eq=False)
class HoldOut:
    """Training examples, and those that are held out.

    Attributes
    ----------
    X, Y : csr_matrix
        Examples to train on.
    valid : pair of csr_matrix or None
        Examples to validate on, with labels; None if there are none.
    train_rows : ndarray
        Which rows of the training data X and Y are, sorted.
    held_rows : ndarray
        Which rows of the training data `valid` is, sorted; empty if the caller gave it.
    """

    X: csr_matrix
    Y: csr_matrix
    valid: tuple[csr_matrix, csr_matrix] | None
    train_rows: np.ndarray
    held_rows: np.ndarray

    @classmethod
    def of(
        cls,
        data: TrainingData,
        share: float | None,
        seed: int,
        *,
        cap: int | None = None,
        groups: bool = False,
        max_work: float | None = None,
    ) -> Self:
        """Split training data.

        Where the caller passed examples to validate on, those are taken and nothing is held out.
        Where either side would be without labels, there is no validation.

        Parameters
        ----------
        data : TrainingData
            What `fit` was given.
        share : float or None
            Share of the examples to hold out; None: `held_out_share`.
        seed : int
            Seed of the permutation that rows are taken by.
        cap : int, optional
            Examples to hold out at most; MAX_HELD_OUT by default.
        groups : bool
            Whether half of the hold-out is to have no near duplicates in training.
        max_work : float, optional
            Limit of the search for near duplicates, see `near_duplicates`.
        """
        X, Y = as_csr(data.X), data.Y
        n_rows = X.shape[0]
        everything, nothing = np.arange(n_rows), np.arange(0)
        if data.valid is not None:
            held = (as_csr(data.valid[0]), data.valid[1])
            return cls(X, Y, held if held[1].nnz else None, everything, nothing)
        share = held_out_share(share, n_rows, cap)
        if groups:
            train, cut = cut_by_group(X, held_out_size(share, n_rows), seed, max_work)
        else:
            train, cut = split_rows(n_rows, share, seed)
        if Y[cut].nnz == 0 or Y[train].nnz == 0:
            return cls(X, Y, None, everything, nothing)
        return cls(X[train], Y[train], (X[cut], Y[cut]), train, cut)

    @classmethod
    def without(cls, data: TrainingData) -> Self:
        """Return all examples to train on, and none to validate on."""
        return cls(as_csr(data.X), data.Y, None, np.arange(data.Y.shape[0]), np.arange(0))

    @property
    def refits(self) -> bool:
        """Return whether to fit a calibrated model again on all examples, with the hold-out."""
        n_held = len(self.held_rows)
        return n_held > 0 and len(self.train_rows) + n_held <= FEW_EXAMPLES


def held_out_share(share: float | None, n_examples: int, cap: int | None = None) -> float:
    """Return the share of the examples to hold out.

    If `share` is None it is 2 %, raised to at most 10 % until it makes MIN_HELD_OUT examples. It
    never makes more than `cap` examples, by default MAX_HELD_OUT.
    """
    if share is None:
        share = max(0.02, min(0.1, MIN_HELD_OUT / n_examples))
    return min(share, (cap or MAX_HELD_OUT) / max(1, n_examples))


def held_out_size(share: float, n_rows: int) -> int:
    """Return how many rows a hold-out of this share has: never all of them."""
    return max(0, min(round(share * n_rows), n_rows - 1))


def split_rows(n_rows: int, share: float = 0.05, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return sorted training rows and sorted held-out rows, by a seeded permutation."""
    order = np.random.default_rng([seed, n_rows]).permutation(n_rows)
    size = held_out_size(share, n_rows)
    return np.sort(order[size:]), np.sort(order[:size])
