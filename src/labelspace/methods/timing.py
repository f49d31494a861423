"""How long a method takes to fit, measured on a sample of the training data."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.methods.registry import method_class

SAMPLE = 1000  # examples on which a method is fitted to measure its speed on the data
HELD = 100  # further examples, which methods that calibrate themselves need
WARM_UP = 50  # examples of a fit before it, if a method has epochs
MORE_EPOCHS = 3  # of a second fit, if a method has epochs: it takes so many epochs longer


class TimingSample:
    """Some examples of the training data, and how to scale what they take to all of them.

    Parameters
    ----------
    X, Y : csr_matrix
        The training data.
    seed : int
        Seed of the choice of examples.
    columns_of : callable, optional
        Returns the features of a method, given its name and the rows of X. Default: all columns.
    arguments_of : callable, optional
        Returns the further arguments of `fit`, given the name of a method. Default: none.
    """

    def __init__(
        self,
        X: csr_matrix,
        Y: csr_matrix,
        seed: int,
        columns_of: Callable[[str, csr_matrix], csr_matrix] | None = None,
        arguments_of: Callable[[str], dict[str, Any]] | None = None,
    ) -> None:
        self.X, self.Y = X, Y
        self.columns_of, self.arguments_of = columns_of, arguments_of
        labelled = np.flatnonzero(np.diff(Y.indptr))
        self.rows = np.random.default_rng([seed, X.shape[0]]).permutation(labelled)

    def seconds_of(
        self, name: str, parameters: dict[str, Any], epochs: bool
    ) -> tuple[float, float]:
        """Return the seconds that a method takes on all examples, and those that an epoch adds."""
        rows, held = self.rows[:SAMPLE], self.rows[-HELD:]
        share = len(self.rows) / max(1, len(rows))
        # Compiled loops are loaded before the clock starts: a moment times `share` would be long.
        if epochs:
            self._fit(name, parameters | {"epochs": 1}, rows[:WARM_UP], held)
            short = self._fit(name, parameters | {"epochs": 1}, rows, held)
            longer = self._fit(name, parameters | {"epochs": 1 + MORE_EPOCHS}, rows, held)
            per_epoch = max(0.0, longer - short) / MORE_EPOCHS
            return share * max(0.0, short - per_epoch), share * per_epoch
        self._fit(name, parameters, rows, held)  # all of them: few labels would need fewer loops
        short = self._fit(name, parameters, rows, held)
        if parameters.get("negatives") == "all":  # one classifier per label, of all examples
            in_all, in_sample = (len(np.unique(Y.indices)) for Y in (self.Y, self.Y[rows]))
            return short * share * in_all / max(1, in_sample), 0.0
        return short * share, 0.0

    def _fit(
        self, name: str, parameters: dict[str, Any], rows: np.ndarray, held: np.ndarray
    ) -> float:
        """Return the seconds that a method takes to fit on these rows."""
        rows, held = np.sort(rows), np.sort(held)
        X, valid = self.X[rows], self.X[held]
        if self.columns_of is not None:
            X, valid = self.columns_of(name, X), self.columns_of(name, valid)
        further = {} if self.arguments_of is None else self.arguments_of(name)
        start = time.monotonic()
        method_class(name)(**parameters).fit(
            *(X, self.Y[rows]), valid=(valid, self.Y[held]), **further
        )
        return time.monotonic() - start
