"""Numeric columns on one scale: each value by its rank among the training values.

A price in the thousands would dominate the row of a text, which has length 1. A value becomes its
rank among the training values of its column, from -1 (the lowest) to 1 (the highest), so that
neither units nor outliers matter. A missing value is 0, as the median is.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np

from labelspace.errors import InputError, ModelFormatError

logger = logging.getLogger(__name__)

WEIGHT = 0.3  # the length of the numbers of a row, at most; that of its text is 1
_KNOTS = 33  # quantiles per column, between which ranks are interpolated
_SAMPLE = 100_000  # rows that they are learned from


class Numbers:
    """Scale numeric columns by the ranks of the training data; made by `Numbers.fit`."""

    def __init__(self, quantiles: list[list[float]], names: Sequence[str], weight: float) -> None:
        self.names = list(names)
        self._quantiles, self._weight = quantiles, weight
        self._curves = [_curve(np.asarray(each, np.float64)) for each in quantiles]

    @classmethod
    def fit(cls, values: Any, names: Sequence[str], weight: float = WEIGHT) -> Self:
        """Learn the ranks from (n, columns) numbers; log how many are missing.

        Parameters
        ----------
        values : array-like of shape (n, columns)
            The numbers; NaN is missing.
        names : sequence of str
            The names of the columns.
        weight : float, default 0.3
            The largest length of a row of features.

        Examples
        --------
        >>> from labelspace.features.numbers import Numbers
        >>> prices = Numbers.fit([[10.0], [20.0], [4000.0]], ["price"], weight=1.0)
        >>> prices.transform([[10.0], [20.0], [9999.0]]).ravel().tolist()
        [-1.0, 0.0, 1.0]
        """
        values = _checked(values)
        missing = np.isnan(values)
        if missing.any():
            logger.warning(
                "%d of %d numbers are missing: they are taken as the median of their column",
                np.count_nonzero(missing),
                missing.size,
            )
        shares = np.linspace(0, 1, _KNOTS)
        every = max(1, len(values) // _SAMPLE)
        columns = (column[~np.isnan(column)] for column in values[::every].T.astype(np.float64))
        quantiles = [np.quantile(each, shares).tolist() if len(each) else [] for each in columns]
        return cls(quantiles, names, weight)

    def transform(self, values: Any) -> np.ndarray:
        """Return (n, columns) float32, rows no longer than the weight; missing values are 0."""
        values = _checked(values)
        ranks = np.zeros(values.shape, np.float32)
        for number, (knots, heights) in enumerate(self._curves):
            if len(knots):
                ranks[:, number] = np.interp(values[:, number], knots, heights)
        ranks[np.isnan(values)] = 0
        return ranks * np.float32(self._weight / np.sqrt(max(1, len(self._curves))))

    def state(self) -> dict[str, Any]:
        """Return what `from_state` needs, for JSON."""
        return {"names": self.names, "quantiles": self._quantiles, "weight": self._weight}

    @classmethod
    def from_state(cls, state: Any, n_columns: int) -> Self:
        """Return the scale whose `state` this is; raise ModelFormatError for anything else."""
        kept: Mapping[str, Any] = state if isinstance(state, Mapping) else {}
        names, quantiles, weight = (kept.get(each) for each in ("names", "quantiles", "weight"))
        if (
            isinstance(names, list)
            and all(isinstance(name, str) for name in names)
            and isinstance(quantiles, list)
            and len(names) == len(quantiles) == n_columns
            and all(isinstance(each, list) and _are_sorted(each) for each in quantiles)
            and isinstance(weight, float)
            and 0 < weight < np.inf
        ):
            return cls(quantiles, names, weight)
        raise ModelFormatError(f"not the scale of {n_columns} numbers: {str(state)[:60]}")


def _curve(quantiles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return values and their ranks from -1 to 1; tied values get their mean rank."""
    knots, which = np.unique(quantiles, return_inverse=True)
    ranks = np.linspace(-1, 1, len(quantiles)) if len(quantiles) > 1 else np.zeros(len(quantiles))
    heights = np.bincount(which, weights=ranks) / np.bincount(which) if len(knots) else ranks
    return knots, heights


def _are_sorted(values: list[Any]) -> bool:
    """Return whether these are finite numbers in ascending order."""
    if not all(type(value) in (int, float) and abs(value) < np.inf for value in values):
        return False
    return all(low <= high for low, high in pairwise(values))


def _checked(values: Any) -> np.ndarray:
    """Return (n, columns) float32 that may have NaN but no infinity."""
    try:
        numbers = np.asarray(values, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InputError(f"numeric features must be numbers: {error}") from None
    if numbers.ndim != 2:
        raise InputError(f"numeric features must have two dimensions, got shape {numbers.shape}")
    if np.isinf(numbers).any():
        raise InputError("the numeric features hold infinite values")
    return numbers
