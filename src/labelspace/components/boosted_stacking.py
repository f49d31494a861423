"""Stacking by boosted trees: for rankings of which one finds labels by their names.

A member that finds labels by their names is right about other labels than members that learn from
examples, and the more so the fewer examples a label has. A sum of log odds cannot follow that;
trees on the members' log odds and the label's number of examples can. Some labels have no examples
when the trees are fitted (`unseen_labels.py`), so that they learn what a name alone is worth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Self

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.arrays import prefixed, with_prefix
from labelspace._core.compiled import loop
from labelspace._core.sorting import sort_first
from labelspace._core.sparse import hits_of
from labelspace._core.threads import parallel_blocks
from labelspace.components.boosted_trees import BoostedTrees, log_odds_of
from labelspace.components.stacking import COLUMNS as LINEAR_COLUMNS
from labelspace.components.stacking import EPS, Combiner, gather, keep_row, restored_numbers
from labelspace.ranking import Ranking

_TREES, _LEAVES, _RATE = 150, 15, 0.08
_ABSENT = -20.0  # log odds of a label that a member does not rank: below those of EPS


@dataclass
class BoostedCombiner(Combiner):
    """Combines the rankings of several members by boosted trees.

    Attributes
    ----------
    trees : BoostedTrees
        On the log odds of each member and the log of the label's number of examples.
    """

    trees: BoostedTrees = field(kw_only=True)

    @classmethod
    def fit(
        cls,
        rankings: Sequence[Ranking],
        Y: csr_matrix,
        Y_train: csr_matrix,
        sample_weight: np.ndarray | None = None,
        tail: bool = False,
        hidden: Sequence[int] | np.ndarray = (),
    ) -> Self:
        """Fit the trees on a hold-out.

        Parameters
        ----------
        rankings, Y, Y_train, sample_weight, tail
            As of `Combiner.fit`.
        hidden : sequence of int
            Labels that are ranked as if they had no examples.
        """
        counts = np.bincount(Y_train.indices, minlength=Y_train.shape[1])
        visible = counts.copy()
        visible[np.asarray(hidden, np.int64)] = 0
        found = gather(rankings, np.log1p(visible).astype(np.float32))
        features = np.empty((len(found.rows), len(rankings) + 1), np.float32)
        for member in range(len(rankings)):
            odds, listed = found.features[:, LINEAR_COLUMNS * member :][:, :2].T
            features[:, member] = np.where(listed > 0, odds, _ABSENT)
        features[:, -1] = found.features[:, -1]
        hits = hits_of(Y, found.rows, found.labels)
        weights = np.ones(len(hits)) if sample_weight is None else sample_weight[found.rows]
        nothing = np.zeros((1, 0))
        if tail and len(hits):
            plain = Combiner(nothing, counts, Y_train.shape[0])
            rarity = plain.inverse[found.labels]
            weights = weights * rarity * (weights.sum() / (weights @ rarity))
        trees = BoostedTrees.fit(features, hits, weights, trees=_TREES, leaves=_LEAVES, rate=_RATE)
        return cls(nothing, counts, Y_train.shape[0], trees=trees)

    def rank(self, rankings: Sequence[Ranking], k: int) -> Ranking:
        """Return the k best candidates per example; without a tail offset, scores are P(l | x)."""
        ends = np.array(list(accumulate(ranking.k for ranking in rankings)))
        labels = np.concatenate([ranking.labels for ranking in rankings], axis=1)
        scores = np.concatenate([ranking.scores for ranking in rankings], axis=1)
        best, trees = Ranking.empty(len(labels), k), self.trees.arrays()

        def block(start: int, stop: int) -> None:
            _rank_rows(
                *(ends, labels[start:stop], scores[start:stop]),
                *(self.log_counts, trees, self.factors),
                *(best.labels[start:stop], best.scores[start:stop]),
            )

        parallel_blocks(len(labels), block)
        return best

    def _scaled(self, slope: float, offset: float) -> BoostedCombiner:
        return replace(self, trees=self.trees.scaled(slope, offset))

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays that `restore` takes."""
        own = super().state()
        del own["combiner.weights"]
        return own | prefixed("combiner.trees.", self.trees.state())

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray], members: int, n_labels: int) -> Self:
        """Rebuild a combiner of so many members and labels; raise ModelFormatError if damaged."""
        trees = BoostedTrees.restore(with_prefix("combiner.trees.", arrays), members + 1)
        return cls(np.zeros((1, 0)), *restored_numbers(arrays, n_labels), trees=trees)


@loop
def _rank_rows(  # type: ignore[no-untyped-def]
    ends, labels, scores, log_counts, trees, factors, best_labels, best_scores
):
    """Rank the candidates of each row; see `stacking._rank_rows` for the arrays."""
    members, (n, width) = len(ends), labels.shape
    keys, odds, owner = np.empty(width, np.int64), np.empty(width), np.empty(width, np.int64)
    sample = np.empty(members + 1, np.float32)
    listed, chances = np.empty(width, np.int64), np.empty(width, np.float32)
    for row in range(n):
        count, place = np.int64(0), 0
        for member in range(members):
            while place < ends[member]:
                if labels[row, place] >= 0:
                    p = min(max(np.float64(scores[row, place]), EPS), 1.0 - EPS)
                    odds[place], owner[place] = np.log(p / (1.0 - p)), member
                    keys[count] = labels[row, place] * width + place
                    count += 1
                place += 1
        sort_first(keys, count)  # the entries of a label are next to each other
        position, n_listed = 0, np.int64(0)
        while position < count:
            label = keys[position] // width
            sample[:members], sample[members] = _ABSENT, log_counts[label]
            while position < count and keys[position] // width == label:
                entry = keys[position] % width
                sample[owner[entry]] = odds[entry]
                position += 1
            line = min(max(log_odds_of(sample, trees), -60.0), 60.0)
            listed[n_listed], chances[n_listed] = label, 1.0 / (1.0 + np.exp(-line))
            n_listed += 1
        keep_row(listed, chances, n_listed, factors, best_labels[row], best_scores[row])
