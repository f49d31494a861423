"""Stacking by boosted trees: for rankings of which one finds labels by their names.

A member that finds labels by their names is right about other labels than members that learn from
examples, and the more so the fewer examples a label has. A sum of log odds cannot follow that;
trees on the members' log odds and the label's number of examples can. Some labels have no examples
when the trees are fitted (`unseen_labels.py`), so that they learn what a name alone is worth.

Trees need more held-out examples than weights do. The log odds are therefore a mean of both, in
which the trees count the more, the more examples there are:

    log odds = (1 - s) weights . f + s trees(f),    s = n / (n + n_0)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.arrays import prefixed, with_prefix
from labelspace._core.checks import expect
from labelspace._core.compiled import loop
from labelspace._core.sorting import sort_first
from labelspace._core.sparse import hits_of
from labelspace._core.threads import parallel_blocks
from labelspace.components.boosted_trees import BoostedTrees, log_odds_of
from labelspace.components.stacking import (
    BANDS,
    COLUMNS,
    EPS,
    Combiner,
    certainty,
    chance_of,
    counted_as,
    fitted_weights,
    gather,
    keep_row,
    line_of,
    restored_numbers,
    restored_weights,
)
from labelspace.ranking import Ranking

# Trees and leaves of each, by few and by many held-out examples. Both, and the number with which
# trees and weights count alike, were chosen on cuts of debtags and tib-gnd.
_FEW, _MANY, _MANY_EXAMPLES = (100, 8), (150, 15), 2000
_RATE = 0.08
_EQUAL_EXAMPLES = 500
_ABSENT = -20.0  # log odds of a label that a member does not rank: below those of EPS


@dataclass
class BoostedCombiner(Combiner):
    """Combines the rankings of several members by weights and boosted trees.

    Attributes
    ----------
    trees : BoostedTrees
        On the log odds of each member and the log of the label's number of examples.
    tail_trees : BoostedTrees or None
        Those by which labels rank below the first; None: the same.
    """

    trees: BoostedTrees = field(kw_only=True)
    tail_trees: BoostedTrees | None = None

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
        """Fit the weights and the trees on a hold-out.

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
        band = np.digitize(visible, BANDS)
        per_example = Y_train.nnz / max(1, Y_train.shape[0])
        features = np.empty((len(found.rows), len(rankings) + 1), np.float32)
        for member in range(len(rankings)):
            odds, listed = found.features[:, COLUMNS * member :][:, :2].T
            features[:, member] = np.where(listed > 0, odds, _ABSENT)
        features[:, -1] = found.features[:, -1]
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
        combiner = cls(weights, counts, Y_train.shape[0], certain=certain, trees=trees)
        if tail:
            combiner.tail_weights, combiner.tail_trees = fitted(combiner.inverse)
        return combiner

    def rank(self, rankings: Sequence[Ranking], k: int) -> Ranking:
        """Return the k best candidates per example; `weighted` tells what their scores are."""
        ends = np.array(list(accumulate(ranking.k for ranking in rankings)))
        labels = np.concatenate([ranking.labels for ranking in rankings], axis=1)
        scores = np.concatenate([ranking.scores for ranking in rankings], axis=1)
        best, weights = Ranking.empty(len(labels), k), self._all_weights()
        trees = self.trees.arrays()
        tail_trees = trees if self.tail_trees is None else self.tail_trees.arrays()

        def block(start: int, stop: int) -> None:
            _rank_rows(
                *(ends, labels[start:stop], scores[start:stop]),
                *(self.log_counts, self.band, weights, trees, tail_trees),
                *(self.certain, self.factors, self.weighted),
                *(best.labels[start:stop], best.scores[start:stop]),
            )

        parallel_blocks(len(labels), block)
        return self._calibrated(best)

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
        return found

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray], members: int, n_labels: int) -> Self:
        """Rebuild a combiner of so many members and labels; raise ModelFormatError if damaged."""
        trees: dict[str, Any] = {
            name: BoostedTrees.restore(with_prefix(f"combiner.{name}.", arrays), members + 1)
            for name in ("trees", "tail_trees")
            if f"combiner.{name}.start" in arrays
        }
        if "combiner.weights" not in arrays:  # models of earlier versions have trees alone
            none = np.zeros((len(BANDS) + 1, COLUMNS * members + 2))
            arrays = {**arrays, "combiner.weights": none}
        weights = restored_weights(arrays, members)
        # Where the loop takes one of two, both must be there.
        expect(("tail_trees" in trees) == ("tail_weights" in weights), "the trees do not fit")
        return cls(**weights, **trees, **restored_numbers(arrays, n_labels))


@loop
def _rank_rows(  # type: ignore[no-untyped-def]
    ends,
    labels,
    scores,
    log_counts,
    band,
    weights,
    trees,
    tail_trees,
    certain,
    factors,
    weighted,
    best_labels,
    best_scores,
):
    """Rank the candidates of each row; see `stacking._rank_rows` for the arrays."""
    members, (n, width) = len(ends), labels.shape
    keys, odds, owner = np.empty(width, np.int64), np.empty(width), np.empty(width, np.int64)
    lowest, member_log_odds = np.empty(members), np.empty(members)
    sample = np.empty(members + 1, np.float32)
    listed, chances = np.empty(width, np.int64), np.empty((2, width), np.float32)
    is_listed = np.empty(members, np.bool_)
    for row in range(n):
        count, place = np.int64(0), 0
        for member in range(members):
            lowest[member] = 0.0
            while place < ends[member]:
                if labels[row, place] >= 0:
                    p = min(max(np.float64(scores[row, place]), EPS), 1.0 - EPS)
                    odds[place], owner[place] = np.log(p / (1.0 - p)), member
                    lowest[member] = min(lowest[member], odds[place])
                    keys[count] = labels[row, place] * width + place
                    count += 1
                place += 1
        sort_first(keys, count)  # the entries of a label are next to each other
        position, n_listed = 0, np.int64(0)
        while position < count:
            label = keys[position] // width
            for member in range(members):
                member_log_odds[member], is_listed[member] = lowest[member], False
                sample[member] = _ABSENT
            sample[members] = log_counts[label]
            while position < count and keys[position] // width == label:
                entry = keys[position] % width
                sample[owner[entry]] = member_log_odds[owner[entry]] = odds[entry]
                is_listed[owner[entry]] = True
                position += 1
            listed[n_listed] = label
            for number in range(len(weights)):
                own = weights[number, band[label]]
                line = line_of(member_log_odds, is_listed, log_counts[label], own)
                line += log_odds_of(sample, trees if number == 0 else tail_trees)
                chances[number, n_listed] = chance_of(line, certain, log_counts[label])
            if len(weights) == 1:
                chances[1, n_listed] = chances[0, n_listed]
            n_listed += 1
        keep_row(listed, chances, n_listed, factors, weighted, best_labels[row], best_scores[row])
