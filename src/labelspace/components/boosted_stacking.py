"""Stacking by boosted trees: for rankings of which one finds labels by their names.

A member that finds labels by their names is right about other labels than members that learn from
examples, and the more so the fewer examples a label has. A sum of log odds cannot follow that;
trees on the members' log odds, the label's number of examples and the properties of the match of
its names (`name_matches.py`) can. Some labels have no examples when the trees are fitted
(`unseen_labels.py`), so that they learn what a name alone is worth.

Trees need more held-out examples than weights do. The log odds are therefore a mean of both, in
which the trees count the more, the more examples there are:

    log odds = (1 - s) weights . f + s trees(f),    s = n / (n + n_0)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.arrays import prefixed, with_prefix
from labelspace._core.checks import expect
from labelspace._core.schema import Schema, optional, sizes_of
from labelspace._core.sparse import hits_of
from labelspace.components.boosted_trees import BoostedTrees
from labelspace.components.candidate_ranking import ABSENT
from labelspace.components.candidates import COLUMNS, gather
from labelspace.components.name_matches import N_FEATURES, Matches
from labelspace.components.stacking import (
    BANDS,
    Combiner,
    certainty,
    counted_as,
    fitted_weights,
    restored_numbers,
    restored_weights,
)
from labelspace.ranking import Ranking

# Trees and leaves of each, by few and by many held-out examples. Both, and the number with which
# trees and weights count alike, were chosen on cuts of debtags and tib-gnd.
_FEW, _MANY, _MANY_EXAMPLES = (100, 8), (150, 15), 2000
_RATE = 0.08
_MATCHES = "combiner.match_features"
_EQUAL_EXAMPLES = 500


@dataclass
class BoostedCombiner(Combiner):
    """Combines the rankings of several members by weights and boosted trees.

    Attributes
    ----------
    trees : BoostedTrees
        On the log odds of each member, the log of the label's number of examples and, with
        `uses_matches`, the features of the match of its names.
    tail_trees : BoostedTrees or None
        Those by which labels rank below the first; None: the same.
    uses_matches : bool
    """

    trees: BoostedTrees = field(kw_only=True)
    tail_trees: BoostedTrees | None = None
    uses_matches: bool = False

    @classmethod
    def fit(
        cls,
        rankings: Sequence[Ranking],
        Y: csr_matrix,
        Y_train: csr_matrix,
        sample_weight: np.ndarray | None = None,
        tail: bool = False,
        hidden: Sequence[int] | np.ndarray = (),
        matches: Matches | None = None,
    ) -> Self:
        """Fit the weights and the trees on a hold-out.

        Parameters
        ----------
        rankings, Y, Y_train, sample_weight, tail
            As of `Combiner.fit`.
        hidden : sequence of int
            Labels that are ranked as if they had no examples.
        matches : Matches, optional
            Matches of label names in the hold-out, with the statistics of hidden labels as if they
            had no examples.
        """
        counts = np.bincount(Y_train.indices, minlength=Y_train.shape[1])
        visible = counts.copy()
        visible[np.asarray(hidden, np.int64)] = 0
        found = gather(rankings, np.log1p(visible).astype(np.float32))
        band = np.digitize(visible, BANDS)
        per_example = Y_train.nnz / max(1, Y_train.shape[0])
        features = np.empty((len(found.rows), len(rankings) + 1), np.float32)
        for member in range(len(rankings)):
            odds, listed = found.features[:, COLUMNS * member :][:, :2].T
            features[:, member] = np.where(listed > 0, odds, ABSENT)
        features[:, -1] = found.features[:, -1]
        if matches is not None:
            features = np.hstack([features, matches.features(found.rows, found.labels)])
        hits = hits_of(Y, found.rows, found.labels)
        share = Y.shape[0] / (Y.shape[0] + _EQUAL_EXAMPLES)
        n_trees, leaves = _FEW if Y.shape[0] < _MANY_EXAMPLES else _MANY

        def fitted(rarity: np.ndarray | None) -> tuple[np.ndarray, BoostedTrees]:
            weights = fitted_weights(found, band, Y, per_example, sample_weight, rarity)
            counted = counted_as(found, sample_weight, rarity)
            trees = BoostedTrees.fit(
                features, hits, counted, trees=n_trees, leaves=leaves, rate=_RATE
            )
            return (1.0 - share) * weights, trees.scaled(share, 0.0)

        weights, trees = fitted(None)
        certain = certainty(Y.shape[0])
        uses = matches is not None
        combiner = cls(
            *(weights, counts, Y_train.shape[0]), certain=certain, trees=trees, uses_matches=uses
        )
        if tail:
            combiner.tail_weights, combiner.tail_trees = fitted(combiner.inverse)
        return combiner

    def rank(self, rankings: Sequence[Ranking], k: int, matches: Matches | None = None) -> Ranking:
        if not self.uses_matches:
            matches = None
        elif matches is None or len(matches.statistics) < len(self.counts):
            raise ValueError("the combination was fitted with matches of all labels: pass them")
        return super().rank(rankings, k, matches)

    def _all_trees(self) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
        trees = self.trees.arrays()
        return trees, trees if self.tail_trees is None else self.tail_trees.arrays()

    def _scaled(self, slope: float, offset: float) -> BoostedCombiner:
        linear = super()._scaled(slope, offset)
        return replace(
            self,
            weights=linear.weights,
            tail_weights=linear.tail_weights,
            certain=linear.certain,
            trees=self.trees.scaled(slope, 0.0),
            tail_trees=self.tail_trees and self.tail_trees.scaled(slope, 0.0),
        )

    def drop_tail(self) -> None:
        """Rank by the same weights and trees on all ranks."""
        self.tail_weights = self.tail_trees = None

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays that `restore` takes."""
        found = super().state() | prefixed("combiner.trees.", self.trees.state())
        if self.tail_trees is not None:
            found |= prefixed("combiner.tail_trees.", self.tail_trees.state())
        if self.uses_matches:
            found[_MATCHES] = np.array([N_FEATURES], np.int64)
        return found

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Rebuild a combiner of what `state` returned."""
        trees: dict[str, Any] = {
            name: BoostedTrees.restore(with_prefix(f"combiner.{name}.", arrays))
            for name in ("trees", "tail_trees")
            if f"combiner.{name}.start" in arrays
        }
        weights, uses = restored_weights(arrays), _MATCHES in arrays
        # Where the loop takes one of two, both must be there.
        expect(("tail_trees" in trees) == ("tail_weights" in weights), "the trees do not fit")
        return cls(**weights, **trees, uses_matches=uses, **restored_numbers(arrays))

    @classmethod
    def schema(cls, arrays: Mapping[str, np.ndarray], members: int) -> Schema:
        # Trees of earlier versions take no features of matches.
        width = members + 1 + (_MATCHES in arrays) * N_FEATURES
        return [
            *super().schema(arrays, members),
            *BoostedTrees.schema("combiner.trees.", width),
            *optional(BoostedTrees.schema("combiner.tail_trees.", width), arrays),
            *optional([sizes_of(_MATCHES, N_FEATURES)], arrays),
        ]


def with_all_weights(arrays: Mapping[str, np.ndarray], members: int) -> Mapping[str, np.ndarray]:
    """Return the arrays with weights of zeros for models of earlier versions, of trees alone."""
    if "combiner.trees.start" not in arrays or "combiner.weights" in arrays:
        return arrays
    return {**arrays, "combiner.weights": np.zeros((len(BANDS) + 1, COLUMNS * members + 2))}
