"""Stacking: the rankings of several members, combined into one calibrated probability.

A candidate is a label that any member ranks for an example. Its features are, for each member, the
log odds (those of the member's last label if it did not rank this one), whether the member ranked
it, and how far the log odds are above each of a few knots; and the log of the label's frequency. A
logistic regression combines them. Rare, medium and frequent labels each have weights of their own,
shrunk towards those of all labels:

    P(l | x) = sigmoid( w_band(l) . f(x, l) + b_band(l) )

It is fitted on the likeliest candidates of each example alone: unlikely ones are many more, and
weights that fit those order the first ranks badly. So do weights without knots.

For the tail objective, candidates rank by P(l | x) (w_l + e) instead, w_l the inverse propensity.
Below the first rank, P is by weights of their own, fitted on more candidates, since rare labels
rank lower, each weighted by its inverse propensity, as in the metric, and with bands that are
shrunk less. Scores are still P(l | x).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, Self

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
MAX_P1_LOSS = 0.01  # largest drop in P@1, as a share, that the tail objective may cost
# Probabilities are too high for the rare labels that are chosen for them: on cuts of six sets the
# drop was up to twice the one they expect. Standard deviation from this: a share of it, and more,
# and with few held-out examples an example more.
_OPTIMISM, _OPTIMISM_SHARE, _OPTIMISM_MORE = 2.0, 0.5, 0.002
_STANDARD_DEVIATIONS = 1.5  # that are added to the estimated drop
_LEAST_GAIN = 30.0  # points, of one held-out example; of n, by the root of n less: below is noise
_PRECISION_SHARE = 0.25  # of P@3 and P@5 beside PSP@3 and PSP@5, in the choice of other ranks
_C = 0.1  # inverse regularisation strength of the logistic regression
# Scale of a band's own features: the smaller, the more its weights are shrunk towards the others'.
_BAND_SCALE, _TAIL_BAND_SCALE = 0.05, 0.2
# Candidates per example to fit on, at least; more if examples have more labels on average.
_MIN_CANDIDATES, _MIN_TAIL_CANDIDATES = 8, 20
_LARGEST = 60.0  # log odds
_FREQUENCY_STEP = 0.1  # log odds per unit of log frequency, among labels that are all certain
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


def certainty(n_examples: int) -> float:
    """Return the log odds of a label that is true for all of so many held-out examples.

    It is their estimate by Jeffreys' prior, (n + 1/2) / (n + 1). Without any, none is certain.
    """
    return float(np.log(2.0 * n_examples + 1.0)) if n_examples else _LARGEST


def fitted_weights(
    found: Candidates,
    band: np.ndarray,
    Y: csr_matrix,
    labels_per_example: float,
    sample_weight: np.ndarray | None = None,
    rarity: np.ndarray | None = None,
) -> np.ndarray:
    """Return the weights of each band, fitted on the likeliest candidates of each example.

    Without both true and false candidates they are those of the sum of the members' log odds.

    Parameters
    ----------
    found : Candidates
    band : ndarray of shape (n_labels,)
        The band of each label.
    Y : csr_matrix
        True labels.
    labels_per_example : float
        Their mean number in training.
    sample_weight : ndarray, optional
        Weight per example; 1 by default.
    rarity : ndarray of shape (n_labels,), optional
        Inverse propensities, to fit for the tail objective.
    """
    at_least, scale = _MIN_CANDIDATES, _BAND_SCALE
    if rarity is not None:
        at_least, scale = _MIN_TAIL_CANDIDATES, _TAIL_BAND_SCALE
    found = _likeliest(found, max(at_least, round(labels_per_example)))
    weights = np.zeros((len(BANDS) + 1, found.features.shape[1] + 1))
    hits = hits_of(Y, found.rows, found.labels)
    if not 0 < hits.sum() < len(hits):
        weights[:, :-2:COLUMNS] = 1.0
        return weights
    from sklearn.linear_model import LogisticRegression  # half a second, if it is the first import

    model = LogisticRegression(C=_C, max_iter=1000)
    counted = counted_as(found, sample_weight, rarity)
    model.fit(_by_band(found.features, band[found.labels], scale), hits, counted)
    of_all, own = np.split(model.coef_[0], [weights.shape[1] - 1])
    weights[:] = np.append(of_all, model.intercept_[0]) + scale * own.reshape(weights.shape)
    return weights


def counted_as(
    found: Candidates, sample_weight: np.ndarray | None, rarity: np.ndarray | None
) -> np.ndarray:
    """Return the weight of each candidate: of its example, times the rarity of its label."""
    weights = np.ones(len(found.rows)) if sample_weight is None else sample_weight[found.rows]
    if rarity is None or not len(weights):
        return weights
    rare = rarity[found.labels]
    return np.asarray(weights * rare * (weights.sum() / (weights @ rare)))


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
    tail_weights : ndarray of the shape of `weights`, or None
        Weights by which labels rank below the first; None: the same.
    weighted : bool
        Whether scores are P(l | x) (w_l + e), divided by its largest factor, and fall along a row;
        else they are P(l | x), whatever the order.
    certain : float
        Log odds from which on a label counts as certain. So few held-out examples cannot tell which
        of two such labels is likelier: the more frequent one ranks first.
    calibration : Calibration
        Of P(l | x) as scores of labels that are ranked otherwise; the order stays.
    """

    weights: np.ndarray
    counts: np.ndarray
    n_points: int
    tail_offset: tuple[float, float] = (np.inf, np.inf)
    tail_weights: np.ndarray | None = None
    weighted: bool = False
    certain: float = _LARGEST
    calibration: Calibration = field(default_factory=lambda: Calibration(eps=EPS))
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
            Whether to fit weights for the tail objective too.
        """
        counts = np.bincount(Y_train.indices, minlength=Y_train.shape[1])
        shape = len(BANDS) + 1, COLUMNS * len(rankings) + 2
        combiner = cls(np.zeros(shape), counts, Y_train.shape[0], certain=certainty(Y.shape[0]))
        given = (
            *(gather(rankings, combiner.log_counts), combiner.band, Y),
            *(Y_train.nnz / max(1, Y_train.shape[0]), sample_weight),
        )
        combiner.weights[:] = fitted_weights(*given)
        if tail:
            combiner.tail_weights = fitted_weights(*given, combiner.inverse)
        return combiner

    def rank(self, rankings: Sequence[Ranking], k: int) -> Ranking:
        """Return the k best candidates per example; `weighted` tells what their scores are."""
        ends = np.array(list(accumulate(ranking.k for ranking in rankings)))
        labels = np.concatenate([ranking.labels for ranking in rankings], axis=1)
        scores = np.concatenate([ranking.scores for ranking in rankings], axis=1)
        best, weights = Ranking.empty(len(labels), k), self._all_weights()

        def block(start: int, stop: int) -> None:
            _rank_rows(
                *(ends, labels[start:stop], scores[start:stop]),
                *(self.log_counts, self.band, weights, self.certain, self.factors, self.weighted),
                *(best.labels[start:stop], best.scores[start:stop]),
            )

        parallel_blocks(len(labels), block)
        return self._calibrated(best)

    def _calibrated(self, best: Ranking) -> Ranking:
        if self.calibration == Calibration(eps=EPS):
            return best
        return Ranking(best.labels, self.calibration(best.labels, best.scores))

    def _all_weights(self) -> np.ndarray:
        """Return the weights, and those of the tail objective if there are any."""
        own = [self.weights] if self.tail_weights is None else [self.weights, self.tail_weights]
        return np.stack(own)

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
        plain = replace(
            self, tail_offset=(np.inf, np.inf), weighted=False, calibration=Calibration(eps=EPS)
        )
        best = plain.rank(rankings, _MIN_CANDIDATES)
        line = Calibration.fit(best.labels, best.scores, Y, EPS)
        return self._scaled(1.0 + share * (line.slope - 1.0), share * line.offset)

    def _scaled(self, slope: float, offset: float) -> Combiner:
        """Return a combiner whose log odds are slope * log odds + offset."""
        both = slope * self._all_weights()
        both[:, :, -1] += offset
        tail_weights = None if self.tail_weights is None else both[1]
        certain = slope * self.certain + offset  # the same labels stay certain
        return replace(self, weights=both[0], tail_weights=tail_weights, certain=certain)

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
        folds: Sequence[tuple[np.ndarray, Combiner]] = (),
    ) -> None:
        """Choose the tail offset on a hold-out; without labels there it stays as it is.

        Parameters
        ----------
        objective : {"psp", "f1"}
            "psp": the offset of the first rank is the one of best PSP@1 among those that cost
            little P@1; that of the others is the one of best PSP@3 + PSP@5, where P@3 and P@5 count
            a little. "f1": macro-F1 of the sets that the best threshold selects; scores are then
            weighted, as thresholds act on scores.
        rankings, Y, Y_train, sample_weight
            As in `fit`.
        folds : sequence of (ndarray, Combiner)
            For "psp": rows of the hold-out, and a combiner that was fitted on all others. By
            default the rows that this one was fitted on are used.
        """
        if Y.nnz == 0:
            return
        if objective == "f1":
            self.weighted = True

            def macro_f1(offset: float) -> float:
                self.set_tail_offset(offset, offset)
                return choose_threshold(self.rank(rankings, SET_SIZE), Y, MACRO_F1).macro_f1

            offset = max(TAIL_OFFSETS, key=macro_f1)
            self.set_tail_offset(offset, offset)
            return
        parts = folds or [(np.arange(Y.shape[0]), self)]
        combiners = [combiner for _, combiner in parts]
        plain_weights = [combiner.without_tail() for combiner in combiners]
        rows = np.concatenate([own for own, _ in parts])
        Y, counts = Y[rows], LabelCounts.of(Y_train)
        weights = np.ones(len(rows)) if sample_weight is None else sample_weight[rows]
        lists = [[ranking.take(own) for ranking in rankings] for own, _ in parts]

        def ranked(by: list[Combiner], first: float, others: float, k: int) -> Ranking:
            best = []
            for own, combiner in zip(lists, by, strict=True):
                combiner.set_tail_offset(first, others)
                best.append(combiner.rank(own, k))
            return Ranking.stack(best)

        def of_others(by: list[Combiner], others: float) -> float:
            best = ranked(by, first, others, 5)
            psp = sum(measure(f"PSP@{k}", best, Y, counts) for k in (3, 5))
            return psp + _PRECISION_SHARE * sum(measure(f"P@{k}", best, Y) for k in (3, 5))

        plain = _first_rank(ranked(combiners, np.inf, np.inf, 1), Y)
        first, most = np.inf, -np.inf
        for e in TAIL_OFFSETS:
            best = ranked(combiners, e, e, 1)
            if _largest_loss(plain, _first_rank(best, Y), weights) > MAX_P1_LOSS:
                break  # a smaller offset changes more first labels
            if (gain := measure("PSP@1", best, Y, counts)) > most:
                first, most = e, gain
        choices = [(by, e) for by in (plain_weights, combiners) for e in TAIL_OFFSETS if e <= first]
        by, others = max(choices, key=lambda choice: of_others(*choice))
        least = _LEAST_GAIN / np.sqrt(len(rows))
        if of_others(by, others) - of_others(plain_weights, first) < least:
            by, others = plain_weights, first
        if by is plain_weights:
            self.drop_tail()
        self.set_tail_offset(first, others)
        # Labels of high rank have a lower chance than all labels of the same probability.
        best = ranked(by, first, others, 5)
        self.calibration = Calibration.fit(best.labels, best.scores, Y, EPS, weights)

    def drop_tail(self) -> None:
        """Rank by the same weights on all ranks."""
        self.tail_weights = None

    def without_tail(self) -> Self:
        """Return a copy that ranks by the same weights on all ranks."""
        copy = replace(self)
        copy.drop_tail()
        return copy

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays that `restore` takes; an infinite offset is stored as -1."""
        finite = [-1.0 if np.isinf(offset) else offset for offset in self.tail_offset]
        tail = {} if self.tail_weights is None else {"combiner.tail_weights": self.tail_weights}
        return tail | {
            "combiner.weights": self.weights,
            "combiner.counts": self.counts,
            "combiner.numbers": np.array(
                [self.n_points, *finite, self.weighted, self.certain, *self.calibration.state()]
            ),
        }

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray], members: int, n_labels: int) -> Self:
        """Rebuild a combiner of so many members and labels; raise ModelFormatError if damaged."""
        return cls(**restored_weights(arrays, members), **restored_numbers(arrays, n_labels))


def restored_weights(arrays: Mapping[str, np.ndarray], members: int) -> dict[str, Any]:
    """Return the weights of a combiner of so many members, checked."""
    names = [name for name in ("weights", "tail_weights") if f"combiner.{name}" in arrays]
    found = {name: np.array(arrays[f"combiner.{name}"]) for name in names}
    shape = len(BANDS) + 1, COLUMNS * members + 2
    holds = members > 0 and "weights" in found
    holds = holds and all(are_numbers(each, *shape) for each in found.values())
    expect(holds, "the weights of the members do not fit")
    return found


def restored_numbers(arrays: Mapping[str, np.ndarray], n_labels: int) -> dict[str, Any]:
    """Return what all combiners have but the weights, checked."""
    numbers = arrays["combiner.numbers"]
    if numbers.shape == (3,):  # of earlier versions
        numbers = np.append(numbers, [1.0, _LARGEST, 1.0, 0.0])
    expect(are_numbers(numbers, 7), "the numbers of the combination do not fit")
    n_points, first, others, weighted, certain = numbers[:5].tolist()
    counts = np.array(arrays["combiner.counts"])
    holds = counts.shape == (n_labels,) and all_within(counts, 0, int(n_points) + 1)
    expect(holds, "the counts of labels do not fit")
    return {
        "counts": counts,
        "n_points": int(n_points),
        "tail_offset": tuple(np.inf if offset < 0 else offset for offset in (first, others)),
        "weighted": bool(weighted),
        "certain": certain,
        "calibration": Calibration.restore(numbers[5:], EPS),
    }


def _first_rank(best: Ranking, Y: csr_matrix) -> tuple[np.ndarray, np.ndarray]:
    """Return whether each example's first label is true, and its probability."""
    labels, listed = best.labels[:, 0], best.labels[:, 0] >= 0
    right = hits_of(Y, np.arange(len(labels)), labels) & listed
    return right.astype(np.float64), np.where(listed, best.scores[:, 0], 0.0).astype(np.float64)


def _largest_loss(
    plain: tuple[np.ndarray, np.ndarray],
    shifted: tuple[np.ndarray, np.ndarray],
    weights: np.ndarray,
) -> float:
    """Return how much P@1 other first labels may cost: an estimate, and some deviations more.

    The loss that is measured on few examples is uncertain; the one that the probabilities expect
    varies little, but is biased. Both are weighted by their precision, as normal distributions.
    """
    (right, chance), (right_then, chance_then) = plain, shifted
    if not (chance - chance_then).any():
        return 0.0
    share = weights / weights.sum()
    lost = right - right_then
    measured, expected = share @ lost, max(0.0, share @ (chance - chance_then))
    # One example more, that loses: a sample without any loss does not prove that there is none.
    variance = (share @ (lost - measured) ** 2 + share @ share) * (share @ share)
    prior = (_OPTIMISM_SHARE * expected + _OPTIMISM_MORE + share @ share) ** 2
    precision = 1.0 / variance + 1.0 / prior
    mean = (measured / variance + _OPTIMISM * expected / prior) / precision
    return float(mean + _STANDARD_DEVIATIONS / np.sqrt(precision))


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
    ends,
    labels,
    scores,
    log_counts,
    band,
    weights,
    certain,
    factors,
    weighted,
    best_labels,
    best_scores,
):
    """Rank the candidates of `gather` without building their features.

    `labels` and `scores` (n, width) hold the members' rankings side by side; `ends` is where each
    member's columns stop. `weights` are those of all bands, once or, for the tail
    objective, twice.
    """
    members, (n, width) = len(ends), labels.shape
    keys, odds, owner = np.empty(width, np.int64), np.empty(width), np.empty(width, np.int64)
    lowest, member_log_odds = np.empty(members), np.empty(members)
    listed, chances = np.empty(width, np.int64), np.empty((2, width), np.float32)
    is_listed = np.empty(members, np.bool_)
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
            for member in range(members):
                member_log_odds[member], is_listed[member] = lowest[member], False
            while position < count and keys[position] // width == label:
                entry = keys[position] % width
                member_log_odds[owner[entry]], is_listed[owner[entry]] = odds[entry], True
                position += 1
            listed[n_listed] = label
            for number in range(len(weights)):
                own = weights[number, band[label]]
                line = line_of(member_log_odds, is_listed, log_counts[label], own)
                chances[number, n_listed] = chance_of(line, certain, log_counts[label])
            if len(weights) == 1:
                chances[1, n_listed] = chances[0, n_listed]
            n_listed += 1
        keep_row(listed, chances, n_listed, factors, weighted, best_labels[row], best_scores[row])


@loop_part
def line_of(log_odds, is_listed, log_count, own):  # type: ignore[no-untyped-def]
    """Return the sum of a candidate's weighted features."""
    line = own[-1] + own[-2] * log_count
    for member, x in enumerate(log_odds):
        line += own[COLUMNS * member] * x + own[COLUMNS * member + 1] * is_listed[member]
        for number, knot in enumerate(KNOTS):
            line += own[COLUMNS * member + 2 + number] * max(x - knot, 0.0)
    return line


@loop_part
def chance_of(line, certain, log_count):  # type: ignore[no-untyped-def]
    """Return the probability of log odds; beyond those that are certain, by label frequency."""
    if line > certain:
        line = certain + _FREQUENCY_STEP * log_count
    return 1.0 / (1.0 + np.exp(-min(max(line, -_LARGEST), _LARGEST)))


@loop_part
def keep_row(  # type: ignore[no-untyped-def]
    listed, chances, count, factors, weighted, best_labels, best_scores
):
    """Write the best of the candidates of a row: the first rank by its own factors.

    `listed` is sorted, so that of equal values the smaller label comes first. `chances` has two
    rows: the probabilities, by which the first rank is chosen, and those by which the others are.
    """
    if count == 0:
        return
    first, filled = 0, np.int64(0)  # a literal 0 would be a second type to compile
    for place in range(1, count):
        value = factors[0, listed[place]] * chances[0, place]
        if value > factors[0, listed[first]] * chances[0, first]:
            first = place
    # Places of the candidates, until all are ranked; then their labels.
    best_labels[0], best_scores[0] = first, factors[0, listed[first]] * chances[0, first]
    for place in range(count):
        if place != first:
            value = factors[1, listed[place]] * chances[1, place]
            filled = keep_best(value, place, best_scores[1:], best_labels[1:], filled)
    for rank in range(filled + 1):
        place = best_labels[rank]
        best_labels[rank] = listed[place]
        if not weighted:
            best_scores[rank] = chances[0, place]
