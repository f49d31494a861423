"""Stacking: the rankings of several members, combined into one calibrated probability.

A candidate is a label that any member ranks for an example. Its features are, for each member, the
log odds (those of the member's last label if it did not rank this one), whether the member ranked
it, and how far the log odds are above each of a few knots; and the log of the label's frequency. A
logistic regression combines them. Rare, medium and frequent labels each have weights of their own,
shrunk towards those of all labels:

    P(l | x) = sigmoid( w_band(l) . f(x, l) + b_band(l) )

It is fitted on the likeliest candidates of each example alone: unlikely ones are many more, and
weights that fit those order the first ranks badly. So do weights without knots. For the tail
objective more candidates are used, since rare labels rank lower, each is weighted by its inverse
propensity, as in the metric, and bands are shrunk less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Self

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.checks import all_within, are_numbers, expect
from labelspace._core.compiled import loop, loop_part
from labelspace._core.sorting import sort_first
from labelspace._core.sparse import hits_of
from labelspace._core.threads import parallel_blocks
from labelspace._core.top_k import keep_best
from labelspace.components.calibration import Calibration, log_odds
from labelspace.labels.propensity import LabelCounts, inverse_propensities
from labelspace.metrics.ranking import measure
from labelspace.metrics.thresholds import MACRO_F1, choose_threshold
from labelspace.ranking import Ranking

BANDS = (10, 100)  # labels with fewer examples than the first are rare, than the second medium
# Values of e tried in P (w + e): inf ignores rarity, 0 weights by it in full.
TAIL_OFFSETS = (np.inf, *(10.0 ** np.arange(3.0, -1.1, -0.1)).tolist(), 0.0)
SET_SIZE = 20  # labels per example among which a threshold selects
# Largest drop in P@1, as a share, that the tail objective may cost: measured on the hold-out, plus
# one standard error; or as expected by the probabilities, which are less certain of rare labels.
MAX_P1_LOSS, MAX_EXPECTED_P1_LOSS = 0.008, 0.005
_C = 0.1  # inverse regularisation strength of the logistic regression
# Scale of a band's own features: the smaller, the more its weights are shrunk towards the others'.
_BAND_SCALE, _TAIL_BAND_SCALE = 0.05, 0.2
# Candidates per example to fit on, at least; more if examples have more labels on average.
_MIN_CANDIDATES, _MIN_TAIL_CANDIDATES = 8, 20
KNOTS = np.array([0.0, 2.0, 4.0])  # log odds at which a member's weight may change
COLUMNS = 2 + len(KNOTS)  # features per member
EPS = 1e-5  # members' probabilities are clipped to [EPS, 1 - EPS]: beyond it they are not reliable


@dataclass(frozen=True)
class Candidates:
    """Candidates in the order of examples.

    Attributes
    ----------
    rows, labels : ndarray of shape (n_candidates,)
        Example and label of each candidate.
    features : ndarray of shape (n_candidates, COLUMNS * n_members + 1)
    n_examples : int
    """

    rows: np.ndarray
    labels: np.ndarray
    features: np.ndarray
    n_examples: int


def listed_by_any(rankings: Sequence[Ranking]) -> np.ndarray:
    """Return the labels that any ranking holds for each example, once each; -1 pads at the end."""
    if len(rankings) == 1:
        return rankings[0].labels
    together = np.concatenate([ranking.labels for ranking in rankings], axis=1)
    labels = np.full_like(together, -1)
    width = _union_rows(together, labels)
    return np.ascontiguousarray(labels[:, :width])  # loops are compiled for this layout alone


def gather(rankings: Sequence[Ranking], log_counts: np.ndarray) -> Candidates:
    """Return all labels that the members rank, with their features."""
    n_labels, n_examples = len(log_counts), len(rankings[0])
    keys, odds, lowest = [], [], []
    for ranking in rankings:
        listed = ranking.labels >= 0
        rows = np.nonzero(listed)[0]
        keys.append(rows * n_labels + ranking.labels[listed])
        values = log_odds(ranking.scores, EPS).astype(np.float32)
        odds.append(values[listed])
        lowest.append(np.where(listed, values, np.inf).min(axis=1, initial=0.0))
    union = np.unique(np.concatenate(keys))
    rows, labels = np.divmod(union, n_labels)
    features = np.zeros((len(union), COLUMNS * len(rankings) + 1), np.float32)
    for number, (mine, values, last) in enumerate(zip(keys, odds, lowest, strict=True)):
        places, own = np.searchsorted(union, mine), features[:, COLUMNS * number :]
        own[:, 0] = last[rows]
        own[places, 0] = values
        own[places, 1] = 1.0
        own[:, 2:COLUMNS] = np.maximum(own[:, :1] - KNOTS, 0.0)
    features[:, -1] = log_counts[labels]
    return Candidates(rows, labels, features, n_examples)


def _likeliest(found: Candidates, count: int) -> Candidates:
    """Return the `count` candidates per example with the largest mean log odds of the members."""
    mean = found.features[:, :-1:COLUMNS].mean(axis=1)
    order = np.lexsort((-mean, found.rows))
    place = np.arange(len(order)) - np.searchsorted(found.rows, found.rows)
    kept = np.sort(order[place < count])
    labels, features = found.labels[kept], found.features[kept]
    return Candidates(found.rows[kept], labels, features, found.n_examples)


def _by_band(features: np.ndarray, band: np.ndarray, scale: float) -> np.ndarray:
    """Return the features, and beside them a scaled copy per band that is 0 outside of it."""
    own = scale * np.hstack([features, np.ones((len(features), 1), np.float32)])
    return np.hstack([features, *(own * (band == b)[:, None] for b in range(len(BANDS) + 1))])


def _default_weights(members: int) -> np.ndarray:
    """Return the weights without data to fit them on: the sum of the members' log odds."""
    weights = np.zeros(COLUMNS * members + 2)
    weights[:-2:COLUMNS] = 1.0
    return weights


@dataclass
class Combiner:
    """Combines the rankings of several members.

    Labels rank by P(l | x) (w_l + e), where w_l is the inverse propensity of the label and e the
    tail offset. For a given sum of P this order has the largest sum of P w: the most PSP for what
    is lost in precision. Small e favours rare labels; e = inf ranks by probability. The first rank
    has an offset of its own, no smaller than that of the others, since it alone decides P@1.

    Attributes
    ----------
    weights : ndarray of shape (n_bands, COLUMNS * n_members + 2)
        Per band of label frequency: weights of the features, the intercept last.
    counts : ndarray of shape (n_labels,)
        Training examples per label.
    n_points : int
        Training examples.
    tail_offset : pair of float
        e of the first rank, and of the others.
    """

    weights: np.ndarray
    counts: np.ndarray
    n_points: int
    tail_offset: tuple[float, float] = (np.inf, np.inf)
    inverse: np.ndarray = field(init=False)
    log_counts: np.ndarray = field(init=False)
    band: np.ndarray = field(init=False)
    factors: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.log_counts = np.log1p(self.counts).astype(np.float32)
        self.band = np.digitize(self.counts, BANDS)
        self.inverse = inverse_propensities(self.counts, self.n_points)
        self.set_tail_offset(*self.tail_offset)

    @classmethod
    def fit(
        cls,
        rankings: Sequence[Ranking],
        Y: csr_matrix,
        Y_train: csr_matrix,
        sample_weight: np.ndarray | None = None,
        tail: bool = False,
    ) -> Self:
        """Fit the weights on a hold-out.

        Parameters
        ----------
        rankings : sequence of Ranking
            The members' rankings of the hold-out.
        Y, Y_train : csr_matrix
            Labels of the hold-out, and of training.
        sample_weight : ndarray, optional
            Weight per held-out example; 1 by default.
        tail : bool
            Whether to fit for the tail objective.
        """
        from sklearn.linear_model import LogisticRegression

        start = np.zeros((len(BANDS) + 1, COLUMNS * len(rankings) + 2))
        counts = np.bincount(Y_train.indices, minlength=Y_train.shape[1])
        combiner = cls(start, counts, Y_train.shape[0])
        at_least, scale = _MIN_CANDIDATES, _BAND_SCALE
        if tail:
            at_least, scale = _MIN_TAIL_CANDIDATES, _TAIL_BAND_SCALE
        count = max(at_least, round(Y_train.nnz / max(1, Y_train.shape[0])))
        found = _likeliest(gather(rankings, combiner.log_counts), count)
        hits = hits_of(Y, found.rows, found.labels)
        if 0 < hits.sum() < len(hits):
            weights = np.ones(len(hits)) if sample_weight is None else sample_weight[found.rows]
            if tail:
                rarity = combiner.inverse[found.labels]
                weights = weights * rarity * (weights.sum() / (weights @ rarity))
            model = LogisticRegression(C=_C, max_iter=1000)
            model.fit(_by_band(found.features, combiner.band[found.labels], scale), hits, weights)
            of_all, own = np.split(model.coef_[0], [start.shape[1] - 1])
            start[:] = np.append(of_all, model.intercept_[0]) + scale * own.reshape(start.shape)
        else:
            start[:] = _default_weights(len(rankings))
        return combiner

    def rank(self, rankings: Sequence[Ranking], k: int) -> Ranking:
        """Return the k best candidates per example; without a tail offset, scores are P(l | x)."""
        ends = np.array(list(accumulate(ranking.k for ranking in rankings)))
        labels = np.concatenate([ranking.labels for ranking in rankings], axis=1)
        scores = np.concatenate([ranking.scores for ranking in rankings], axis=1)
        best = Ranking.empty(len(labels), k)

        def block(start: int, stop: int) -> None:
            _rank_rows(
                *(ends, labels[start:stop], scores[start:stop]),
                *(self.log_counts, self.band, self.weights, self.factors),
                *(best.labels[start:stop], best.scores[start:stop]),
            )

        parallel_blocks(len(labels), block)
        return best

    def recalibrated(self, rankings: Sequence[Ranking], Y: csr_matrix, share: float) -> Combiner:
        """Return a combiner whose probabilities fit further held-out examples better.

        Slope and intercept are corrected alike for all members, so that the order of an example's
        labels stays.

        Parameters
        ----------
        rankings : sequence of Ranking
            The members' rankings of the examples.
        Y : csr_matrix
            Their labels; it may have more columns than there are labels.
        share : float
            Share of the correction that is made, from 0 to 1.
        """
        plain = replace(self, tail_offset=(np.inf, np.inf))
        best = plain.rank(rankings, _MIN_CANDIDATES)
        line = Calibration.fit(best.labels, best.scores, Y, EPS)
        return self._scaled(1.0 + share * (line.slope - 1.0), share * line.offset)

    def _scaled(self, slope: float, offset: float) -> Combiner:
        """Return a combiner whose log odds are slope * log odds + offset."""
        weights = slope * self.weights
        weights[:, -1] += offset
        return replace(self, weights=weights)

    def plus(self, Y: csr_matrix) -> Combiner:
        """Return the combiner with further training examples counted; Y may have more labels."""
        counts = np.bincount(Y.indices, minlength=Y.shape[1])
        counts[: len(self.counts)] += self.counts
        return replace(self, counts=counts, n_points=self.n_points + Y.shape[0])

    def set_tail_offset(self, first: float, others: float) -> None:
        """Set the tail offset of the first rank and of the others."""
        self.tail_offset = first, others
        most = self.inverse.max(initial=1.0)
        self.factors = np.array(
            [
                np.ones_like(self.inverse) if np.isinf(e) else (self.inverse + e) / (most + e)
                for e in self.tail_offset
            ],
            np.float32,
        )

    def choose_tail_offset(
        self,
        objective: str,
        rankings: Sequence[Ranking],
        Y: csr_matrix,
        Y_train: csr_matrix,
        sample_weight: np.ndarray | None = None,
        precise: Combiner | None = None,
    ) -> None:
        """Choose the tail offset on a hold-out; without labels there it stays as it is.

        Parameters
        ----------
        objective : {"psp", "f1"}
            "psp": the offset of the first rank is the one of best PSP@1 among those that cost
            little P@1, compared with the first ranks of `precise`; that of the others is the one of
            best PSP@3 + PSP@5. "f1": macro-F1 of the sets that the best threshold selects.
        rankings, Y, Y_train, sample_weight
            As in `fit`.
        precise : Combiner, optional
            One fitted without `tail`; this one by default.
        """
        if Y.nnz == 0:
            return
        counts = LabelCounts.of(Y_train)

        def macro_f1(offset: float) -> float:
            self.set_tail_offset(offset, offset)
            return choose_threshold(self.rank(rankings, SET_SIZE), Y, MACRO_F1).macro_f1

        def psp(first: float, others: float, ranks: Sequence[int]) -> float:
            self.set_tail_offset(first, others)
            best = self.rank(rankings, max(ranks))
            return sum(measure(f"PSP@{k}", best, Y, counts) for k in ranks)

        if objective == "f1":
            offset = max(TAIL_OFFSETS, key=macro_f1)
            self.set_tail_offset(offset, offset)
            return
        weights = np.ones(Y.shape[0]) if sample_weight is None else sample_weight
        plain = (precise or self)._first_rank(np.inf, rankings, Y)
        cheap = [
            e for e in TAIL_OFFSETS if _cheap(plain, self._first_rank(e, rankings, Y), weights)
        ]
        first = max(cheap, key=lambda e: psp(e, e, [1]), default=np.inf)
        allowed = [e for e in TAIL_OFFSETS if e <= first]
        self.set_tail_offset(first, max(allowed, key=lambda e: psp(first, e, [3, 5])))

    def _first_rank(
        self, offset: float, rankings: Sequence[Ranking], Y: csr_matrix
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return whether each example's first label is true, and its probability."""
        self.set_tail_offset(offset, offset)
        best = self.rank(rankings, 1)
        labels, listed = best.labels[:, 0], best.labels[:, 0] >= 0
        right = hits_of(Y, np.arange(len(labels)), labels)
        chance = best.scores[:, 0] / self.factors[0, labels]
        return (right & listed).astype(np.float64), np.where(listed, chance, 0.0)

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays that `restore` takes; an infinite offset is stored as -1."""
        finite = [-1.0 if np.isinf(offset) else offset for offset in self.tail_offset]
        return {
            "combiner.weights": self.weights,
            "combiner.counts": self.counts,
            "combiner.numbers": np.array([self.n_points, *finite], np.float64),
        }

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray], members: int, n_labels: int) -> Self:
        """Rebuild a combiner of so many members and labels; raise ModelFormatError if damaged."""
        weights = np.array(arrays["combiner.weights"])
        holds = members > 0 and are_numbers(weights, len(BANDS) + 1, COLUMNS * members + 2)
        expect(holds, "the weights of the members do not fit")
        return cls(weights, *restored_numbers(arrays, n_labels))


def restored_numbers(
    arrays: Mapping[str, np.ndarray], n_labels: int
) -> tuple[np.ndarray, int, tuple[float, float]]:
    """Return the counts, the number of examples and the tail offset of a combiner, checked."""
    n_points, *finite = arrays["combiner.numbers"].tolist()
    first, others = (np.inf if offset < 0 else offset for offset in finite)
    counts = np.array(arrays["combiner.counts"])
    holds = counts.shape == (n_labels,) and all_within(counts, 0, int(n_points) + 1)
    expect(holds, "the counts of labels do not fit")
    return counts, int(n_points), (first, others)


def _cheap(
    plain: tuple[np.ndarray, np.ndarray],
    shifted: tuple[np.ndarray, np.ndarray],
    weights: np.ndarray,
) -> bool:
    """Return whether other first labels cost little P@1, as measured or as expected.

    A loss measured on few examples is uncertain, so its standard error is added. The loss expected
    by the probabilities varies little, but these may be biased.
    """
    (right, chance), (right_then, chance_then) = plain, shifted
    if len(right) == 0:
        return True
    share = weights / weights.sum()
    lost, expected = right - right_then, share @ (chance - chance_then)
    mean = share @ lost
    error = np.sqrt((share @ (lost - mean) ** 2) * (share @ share))
    return bool(
        mean + error <= MAX_P1_LOSS or (expected <= MAX_EXPECTED_P1_LOSS and mean <= MAX_P1_LOSS)
    )


@loop
def _union_rows(together, labels):  # type: ignore[no-untyped-def]
    """Write each row's labels once each, from the left; return the largest number in a row."""
    most = 0
    for row in range(len(together)):
        count = 0
        for label in together[row]:
            known = label < 0
            for place in range(count):
                known = known or labels[row, place] == label
            if not known:
                labels[row, count] = label
                count += 1
        most = max(most, count)
    return most


@loop
def _rank_rows(  # type: ignore[no-untyped-def]
    ends, labels, scores, log_counts, band, weights, factors, best_labels, best_scores
):
    """Rank the candidates of `gather` without building their features.

    `labels` and `scores` (n, width) hold the members' rankings side by side; `ends` is where each
    member's columns stop.
    """
    members, (n, width) = len(ends), labels.shape
    keys, odds, owner = np.empty(width, np.int64), np.empty(width), np.empty(width, np.int64)
    lowest, member_log_odds = np.empty(members), np.empty(members)
    listed, chances = np.empty(width, np.int64), np.empty(width, np.float32)
    for row in range(n):
        count, place = np.int64(0), 0
        for member in range(members):
            lowest[member] = 0.0
            while place < ends[member]:
                if labels[row, place] >= 0:
                    p = min(max(scores[row, place], EPS), 1.0 - EPS)
                    odds[place], owner[place] = np.log(p / (1.0 - p)), member
                    lowest[member] = min(lowest[member], odds[place])
                    keys[count] = labels[row, place] * width + place
                    count += 1
                place += 1
        sort_first(keys, count)  # the entries of a label are next to each other
        position, n_listed = 0, np.int64(0)
        while position < count:
            label = keys[position] // width
            own = weights[band[label]]
            line = own[-1] + own[-2] * log_counts[label]
            for member in range(members):
                member_log_odds[member] = lowest[member]
            while position < count and keys[position] // width == label:
                entry = keys[position] % width
                member_log_odds[owner[entry]] = odds[entry]
                line += own[COLUMNS * owner[entry] + 1]
                position += 1
            for member in range(members):
                x = member_log_odds[member]
                line += own[COLUMNS * member] * x
                for number, knot in enumerate(KNOTS):
                    line += own[COLUMNS * member + 2 + number] * max(x - knot, 0.0)
            listed[n_listed] = label
            chances[n_listed] = 1.0 / (1.0 + np.exp(-min(max(line, -60.0), 60.0)))
            n_listed += 1
        keep_row(listed, chances, n_listed, factors, best_labels[row], best_scores[row])


@loop_part
def keep_row(listed, chances, count, factors, best_labels, best_scores):  # type: ignore[no-untyped-def]
    """Write the best of the candidates of a row: the first rank by its own factors."""
    if count == 0:
        return
    first, filled = 0, np.int64(0)  # a literal 0 would be a second type to compile
    for place in range(1, count):
        value = factors[0, listed[place]] * chances[place]
        if value > factors[0, listed[first]] * chances[first]:
            first = place
    best_labels[0] = listed[first]
    best_scores[0] = factors[0, listed[first]] * chances[first]
    for place in range(count):
        if place != first:
            value = factors[1, listed[place]] * chances[place]
            filled = keep_best(value, listed[place], best_scores[1:], best_labels[1:], filled)
