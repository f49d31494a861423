"""Training examples that a model keeps, so that it can be fitted again in parts.

A classifier is fitted again, from scratch, once its label has a quarter more examples than when it
was fitted last. In between it stays as it is. So a label with few examples learns from every
further one, one with many costs little, and a sequence of updates ends near the classifiers of one
training on all examples. Descent that continues from the old weights on the new examples alone was
tried: on debtags, ten portions of it ranked worse than no update at all, with the losses at half
their weight as well as no update.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.sparse import csr_matrix, vstack

from labelspace._core.arrays import prefixed, with_prefix
from labelspace._core.schema import Schema, csr, optional
from labelspace._core.sparse import pack_csr, unit_rows, unpack_csr, with_columns
from labelspace.errors import UnsupportedError

# Growth of a label's examples from which on it is fitted again. It differs by label, so that the
# frequent ones, which grow alike, are not all fitted again by the same update.
_LEAST_GROWTH, _MOST_GROWTH = 1.15, 1.35
_GOLDEN = 0.6180339887498949


@dataclass(frozen=True, eq=False)
class Examples:
    """Features of length 1, their values rounded to 16 bits, and labels.

    Attributes
    ----------
    X : csr_matrix of shape (examples, features)
    Y : csr_matrix of shape (examples, labels)
    index : csr_matrix of shape (features, examples), optional
        X by feature, where it is at hand; the entries of a row may have any order.
    """

    X: csr_matrix
    Y: csr_matrix
    index: csr_matrix | None = None

    def rows(self, chosen: np.ndarray | None = None) -> csr_matrix:
        """Return the features of some examples, all by default; the numbers are sorted."""
        return self.X if chosen is None else self.X[chosen]

    def by_feature(self) -> csr_matrix:
        """Return the features of all examples, (features, examples)."""
        return csr_matrix(self.X.T) if self.index is None else self.index

    @classmethod
    def of(cls, X: csr_matrix, Y: csr_matrix) -> Self:
        """Return the examples in the form in which they are kept."""
        unit = unit_rows(X)
        unit.data = unit.data.astype(np.float16).astype(np.float32)
        return cls(unit, Y)

    def plus(self, X: csr_matrix, Y: csr_matrix) -> Self:
        """Return these examples and further ones behind them; Y may have more labels."""
        more, known = self.of(X, Y), with_columns(self.Y, Y.shape[1])
        return type(self)(vstack([self.X, more.X], "csr"), vstack([known, more.Y], "csr"))

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays that `restore` takes."""
        X = {**pack_csr("X", self.X), "X.data": self.X.data.astype(np.float16)}
        return prefixed("examples.", {**X, **pack_csr("Y", self.Y)})

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray]) -> Self | None:
        """Return the examples of these arrays, None if there are none."""
        own = with_prefix("examples.", arrays)
        if not own:
            return None
        X = unpack_csr("X", {**own, "X.data": own["X.data"].astype(np.float32)})
        return cls(X, unpack_csr("Y", own))


def examples_schema(arrays: Mapping[str, np.ndarray], features: str = "features") -> Schema:
    """Declare kept examples, if there are any."""
    X = csr("examples.X", "kept examples", features, types="f2 f4", sets=True)
    return optional([*X, *csr("examples.Y", "kept examples", "labels", sets=True)], arrays)


def check_kept(examples: Examples | None, method: str) -> None:
    """Raise UnsupportedError if a model does not keep its examples."""
    if examples is None:
        raise UnsupportedError(
            f"this {method} model does not keep its training examples, which an update needs: "
            "train it with keep_examples=true"
        )


def restored_counts(arrays: Mapping[str, np.ndarray], count: int) -> np.ndarray:
    """Return the numbers of examples at the last fit, zeros for models that have none."""
    return np.asarray(arrays.get("fitted_counts", np.zeros(count, np.int64)), np.int64)


def due_for_fit(counts: np.ndarray, fitted: np.ndarray) -> np.ndarray:
    """Return the numbers of what has grown enough since it was fitted to be fitted again, sorted.

    Parameters
    ----------
    counts : ndarray of shape (n,)
        Examples now.
    fitted : ndarray of shape (n,)
        Examples at the last fit; 0 for what is new.

    Examples
    --------
    >>> import numpy as np
    >>> due_for_fit(np.array([2, 101, 140, 1, 0]), np.array([1, 100, 100, 0, 0]))
    array([0, 2, 3])
    """
    spread = np.arange(len(counts)) * _GOLDEN % 1.0
    limit = _LEAST_GROWTH + (_MOST_GROWTH - _LEAST_GROWTH) * spread
    return np.flatnonzero((counts > fitted) & (counts >= limit * fitted))
