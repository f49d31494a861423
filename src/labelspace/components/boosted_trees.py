"""Gradient-boosted trees for probabilities of candidates: fitted by scikit-learn, kept as arrays.

The trees are read out of `HistGradientBoostingClassifier` after fitting, so that a saved model
holds numbers alone and a compiled loop evaluates them, a few microseconds per candidate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from labelspace._core.compiled import loop, loop_part
from labelspace._core.schema import Schema, Together, floats, ints, offsets

_MIN_LEAF, _MAX_LEAF = 5, 40  # least samples of a leaf, of few samples and of many
_L2 = 1.0
_LARGEST = 1e30  # beyond it, thresholds are those of all samples


@dataclass(frozen=True)
class BoostedTrees:
    """A sum of regression trees: the log odds of a sample.

    Attributes
    ----------
    start : ndarray of shape (1,)
        The log odds before the first tree.
    roots : ndarray of shape (n_trees + 1,)
        Where the nodes of each tree begin; its root is the first.
    feature, threshold : ndarray of shape (n_nodes,)
        A sample goes to the left where its feature is at most the threshold.
    left, right : ndarray of shape (n_nodes,)
        The children, which come after their parent; -1 in leaves.
    value : ndarray of shape (n_nodes,)
        What a leaf adds to the log odds.
    """

    start: np.ndarray
    roots: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray

    @classmethod
    def fit(
        cls,
        features: np.ndarray,
        hits: np.ndarray,
        weights: np.ndarray | None = None,
        *,
        trees: int,
        leaves: int,
        rate: float,
    ) -> Self:
        """Fit trees to samples; with only hits, only misses or no samples there is no tree.

        Parameters
        ----------
        features : ndarray of shape (n, n_features)
        hits : ndarray of bool of shape (n,)
        weights : ndarray of shape (n,), optional
        trees, leaves : int
            Number of trees, and of leaves per tree.
        rate : float
            Learning rate.
        """
        from sklearn.ensemble import HistGradientBoostingClassifier
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # it has no types

        if not 0 < hits.sum() < len(hits):
            share = (hits.sum() + 0.5) / (len(hits) + 1.0)
            return cls._of([], np.log(share / (1.0 - share)))
        model = HistGradientBoostingClassifier(
            max_iter=trees,
            learning_rate=rate,
            max_leaf_nodes=leaves,
            min_samples_leaf=min(max(len(hits) // 200, _MIN_LEAF), _MAX_LEAF),
            l2_regularization=_L2,
            early_stopping=False,
            random_state=0,
        )
        # On one thread: its sums depend on the number of threads.
        with threadpool_limits(limits=1, user_api="openmp"):
            model.fit(features, hits, weights)
        nodes = [predictors[0].nodes for predictors in model._predictors]
        return cls._of(nodes, float(model._baseline_prediction.ravel()[0]))

    def scaled(self, slope: float, offset: float) -> BoostedTrees:
        """Return trees whose log odds are slope * log odds + offset."""
        return replace(self, start=slope * self.start + offset, value=slope * self.value)

    @classmethod
    def _of(cls, trees: list[np.ndarray], start: float) -> Self:
        """Return the trees of scikit-learn's arrays of nodes."""
        roots = np.cumsum([0, *map(len, trees)], dtype=np.int64)
        first = np.repeat(roots[:-1], np.diff(roots))

        def column(name: str, dtype: type) -> np.ndarray:
            return np.concatenate(
                [np.empty(0, dtype), *(tree[name] for tree in trees)], dtype=dtype
            )

        is_leaf = column("is_leaf", np.int64) > 0
        threshold = np.clip(column("num_threshold", np.float64), -_LARGEST, _LARGEST)
        return cls(
            np.array([start]),
            roots,
            np.where(is_leaf, 0, column("feature_idx", np.int64)),
            np.where(is_leaf, 0.0, threshold),
            np.where(is_leaf, -1, first + column("left", np.int64)),
            np.where(is_leaf, -1, first + column("right", np.int64)),
            np.where(is_leaf, column("value", np.float64), 0.0),
        )

    def arrays(self) -> tuple[np.ndarray, ...]:
        """Return the arrays as `log_odds_of` takes them."""
        return (
            *(self.start, self.roots, self.feature, self.threshold),
            *(self.left, self.right, self.value),
        )

    def log_odds(self, features: np.ndarray) -> np.ndarray:
        """Return the log odds of each row of features."""
        found = np.empty(len(features))
        _log_odds_of_rows(features, self.arrays(), found)
        return found

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays by name, which `restore` takes."""
        return dict(vars(self))

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Rebuild the trees of what `state` returned."""
        names = cls.__dataclass_fields__
        return cls(**{name: np.ascontiguousarray(arrays[name]) for name in names})

    @staticmethod
    def schema(prefix: str, n_features: int) -> Schema:
        """Declare the arrays of `state`, for samples of so many features."""
        nodes, left, right = f"{prefix}nodes", f"{prefix}left", f"{prefix}right"
        child: dict[str, Any] = {"low": -1, "limit": nodes, "types": "i8"}
        return [
            floats(f"{prefix}start", 1, types="f8"),
            ints(f"{prefix}feature", nodes, limit=n_features, types="i8"),
            offsets(f"{prefix}roots", f"{prefix}trees", nodes, filled=True),
            ints(left, nodes, **child),
            ints(right, nodes, **child),
            Together(left, right, _go_down),
            floats(f"{prefix}threshold", nodes, low=-_LARGEST, high=_LARGEST, types="f8"),
            floats(f"{prefix}value", nodes, types="f8"),
        ]


def _go_down(left: np.ndarray, right: np.ndarray) -> bool:
    """Return whether children come after their parents, so that every path ends in a leaf."""
    numbers = np.arange(len(left))
    return bool(((left == -1) | ((left > numbers) & (right > numbers))).all())


NO_TREES = BoostedTrees._of([], 0.0)


@loop_part
def log_odds_of(sample, trees):  # type: ignore[no-untyped-def]
    """Return the log odds of one sample."""
    start, roots, feature, threshold, left, right, value = trees
    total = start[0]
    for tree in range(len(roots) - 1):
        node = roots[tree]
        while left[node] >= 0:
            node = left[node] if sample[feature[node]] <= threshold[node] else right[node]
        total += value[node]
    return total


@loop
def _log_odds_of_rows(features, trees, found):  # type: ignore[no-untyped-def]
    for row in range(len(features)):
        found[row] = log_odds_of(features[row], trees)
