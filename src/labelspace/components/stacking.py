"""What several methods say of the same candidates, weighed into one probability.

A candidate is a label that any member lists for an example. Its features are, of each member, the
log odds (those of the last label on the list where the member left it out), whether the member
listed it, and how far the log odds are above each of a few knots; and the log of the label's
frequency. A logistic regression weighs them. Rare, middling and frequent labels each have weights
of their own, held close to those of all:

    P(l | x) = sigmoid( w_band(l) . f(x, l) + b_band(l) )

It learns from the likeliest candidates of each example alone: there are many more unlikely ones,
and a line that fits those orders the first ranks badly. So does a line without knots. For the tail
objective it learns from more of them, as rare labels stand further down; each counts as much as it
does there, by its inverse propensity, and bands keep more to themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Self

import numpy as np
from numba import njit
from scipy.sparse import csr_matrix

from labelspace._core.checks import all_within, are_numbers, expect
from labelspace._core.sparse import hits_of
from labelspace._core.threads import parallel_blocks
from labelspace._core.top_k import keep_best
from labelspace.components.calibration import log_odds
from labelspace.labels.propensity import LabelCounts, inverse_propensities
from labelspace.metrics.ranking import measure
from labelspace.metrics.thresholds import MACRO_F1, choose_threshold
from labelspace.ranking import Ranking

BANDS = (10, 100)  # a label with fewer examples than the first is rare, than the second middling
# How much all labels count alike beside what rare ones count more: from rarity ignored to no limit.
EVENNESS = (np.inf, *(10.0 ** np.arange(3.0, -1.1, -0.1)).tolist(), 0.0)
SET_SIZE = 20  # labels that a set is chosen from
MOST_LOST = 0.008  # share of right first labels that the tail objective may cost, chance included
MOST_EXPECTED = 0.005  # the same by the probabilities, which are not as sure of rare labels
_STRENGTH = 0.1
# Scale of the features that speak for one band alone: what holds its weights close to all others'.
_OWN, _OWN_OF_TAIL = 0.05, 0.2
# Candidates of an example at least; as many as it has labels where it has more.
_LEARNED_FROM, _LEARNED_FROM_FOR_TAIL = 8, 20
KNOTS = np.array([0.0, 2.0, 4.0])
COLUMNS = 2 + len(KNOTS)  # of a member
LEAST = 1e-5  # probability that is told apart from none


@dataclass(frozen=True)
class Candidates:
    """Example and label of each candidate, in the order of examples, and its features."""

    rows: np.ndarray
    labels: np.ndarray
    features: np.ndarray
    n_examples: int


def listed_by_any(rankings: Sequence[Ranking]) -> np.ndarray:
    """Each example's labels on any of the lists, once each, (n, width); -1 pads at the end."""
    if len(rankings) == 1:
        return rankings[0].labels
    together = np.concatenate([ranking.labels for ranking in rankings], axis=1)
    labels = np.full_like(together, -1)
    width = _union_rows(together, labels)
    return np.ascontiguousarray(labels[:, :width])  # or loops are compiled for both layouts


def gather(rankings: Sequence[Ranking], log_counts: np.ndarray) -> Candidates:
    """All labels that the members list, with what each says of them."""
    n_labels, n_examples = len(log_counts), len(rankings[0])
    keys, odds, lowest = [], [], []
    for ranking in rankings:
        listed = ranking.labels >= 0
        rows = np.nonzero(listed)[0]
        keys.append(rows * n_labels + ranking.labels[listed])
        values = log_odds(ranking.scores, LEAST).astype(np.float32)
        odds.append(values[listed])
        lowest.append(np.where(listed, values, np.inf).min(axis=1, initial=0.0))
    union = np.unique(np.concatenate(keys))
    rows, labels = np.divmod(union, n_labels)
    features = np.zeros((len(union), COLUMNS * len(rankings) + 1), np.float32)
    for number, (mine, values, floor) in enumerate(zip(keys, odds, lowest, strict=True)):
        places, own = np.searchsorted(union, mine), features[:, COLUMNS * number :]
        own[:, 0] = floor[rows]
        own[places, 0] = values
        own[places, 1] = 1.0
        own[:, 2:COLUMNS] = np.maximum(own[:, :1] - KNOTS, 0.0)
    features[:, -1] = log_counts[labels]
    return Candidates(rows, labels, features, n_examples)


def _likeliest(found: Candidates, count: int) -> Candidates:
    """So many of each example that the members, taken together, find likeliest."""
    mean = found.features[:, :-1:COLUMNS].mean(axis=1)
    order = np.lexsort((-mean, found.rows))
    place = np.arange(len(order)) - np.searchsorted(found.rows, found.rows)
    kept = np.sort(order[place < count])
    labels, features = found.labels[kept], found.features[kept]
    return Candidates(found.rows[kept], labels, features, found.n_examples)


def _by_band(features: np.ndarray, band: np.ndarray, scale: float) -> np.ndarray:
    """The features, and beside them those of each band and a one, zeros for all other labels."""
    own = scale * np.hstack([features, np.ones((len(features), 1), np.float32)])
    return np.hstack([features, *(own * (band == b)[:, None] for b in range(len(BANDS) + 1))])


def _untaught(members: int) -> np.ndarray:
    """Weights where there is nothing to learn them from: the sum of the members' log odds."""
    weights = np.zeros(COLUMNS * members + 2)
    weights[:-2:COLUMNS] = 1.0
    return weights


@dataclass
class Combiner:
    """Weights (bands, features + 1), the offset last; `evenness` bounds how rare labels are lifted.

    A label ranks by P(l | x) (w_l + e), where w_l is its inverse propensity and e the evenness:
    what ranks highest in sum of P w at a given sum of P, so the most PSP for what is lost in
    precision. Infinite, it ranks by probability. The first rank has an evenness of its own, no
    smaller than that of the others: P@1 is decided there alone.
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
        """On held-out examples with labels Y; each counts as much as is said, or as one.

        tail  for the tail objective
        """
        from sklearn.linear_model import LogisticRegression

        start = np.zeros((len(BANDS) + 1, COLUMNS * len(rankings) + 2))
        counts = np.bincount(Y_train.indices, minlength=Y_train.shape[1])
        combiner = cls(start, counts, Y_train.shape[0])
        at_least, scale = (_LEARNED_FROM_FOR_TAIL, _OWN_OF_TAIL) if tail else (_LEARNED_FROM, _OWN)
        count = max(at_least, round(Y_train.nnz / max(1, Y_train.shape[0])))
        found = _likeliest(gather(rankings, combiner.log_counts), count)
        hits = hits_of(Y, found.rows, found.labels)
        if 0 < hits.sum() < len(hits):
            weights = np.ones(len(hits)) if sample_weight is None else sample_weight[found.rows]
            if tail:
                rarity = combiner.inverse[found.labels]
                weights = weights * rarity * (weights.sum() / (weights @ rarity))
            model = LogisticRegression(C=_STRENGTH, max_iter=1000)
            model.fit(_by_band(found.features, combiner.band[found.labels], scale), hits, weights)
            of_all, own = np.split(model.coef_[0], [start.shape[1] - 1])
            start[:] = np.append(of_all, model.intercept_[0]) + scale * own.reshape(start.shape)
        else:
            start[:] = _untaught(len(rankings))
        return combiner

    def rank(self, rankings: Sequence[Ranking], k: int) -> Ranking:
        """The k best candidates of each example; scores are probabilities unless lifted."""
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

    def set_tail_offset(self, first: float, others: float) -> None:
        """Rank by this evenness from now on."""
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
        """Those that serve the objective best on held-out examples with labels Y.

        "psp"  PSP@1 by a first rank that costs little P@1, then PSP@3 and 5 in sum; what it costs
               is told by the first ranks of the precise combiner, or else of this one
        "f1"   macro-F1 of the sets that the best threshold makes

        Where no held-out example has a label, nothing is lifted.
        """
        if Y.nnz == 0:
            return
        counts = LabelCounts.of(Y_train)

        def macro_f1(even: float) -> float:
            self.set_tail_offset(even, even)
            return choose_threshold(self.rank(rankings, SET_SIZE), Y, MACRO_F1).macro_f1

        def psp(first: float, others: float, ranks: Sequence[int]) -> float:
            self.set_tail_offset(first, others)
            best = self.rank(rankings, max(ranks))
            return sum(measure(f"PSP@{k}", best, Y, counts) for k in ranks)

        if objective == "f1":
            even = max(EVENNESS, key=macro_f1)
            self.set_tail_offset(even, even)
            return
        weights = np.ones(Y.shape[0]) if sample_weight is None else sample_weight
        plain = (precise or self)._first_rank(np.inf, rankings, Y)
        cheap = [e for e in EVENNESS if _cheap(plain, self._first_rank(e, rankings, Y), weights)]
        first = max(cheap, key=lambda e: psp(e, e, [1]), default=np.inf)
        allowed = [e for e in EVENNESS if e <= first]
        self.set_tail_offset(first, max(allowed, key=lambda e: psp(first, e, [3, 5])))

    def _first_rank(
        self, even: float, rankings: Sequence[Ranking], Y: csr_matrix
    ) -> tuple[np.ndarray, np.ndarray]:
        """Whether each example's first label is right, and how likely it was to be."""
        self.set_tail_offset(even, even)
        best = self.rank(rankings, 1)
        labels, listed = best.labels[:, 0], best.labels[:, 0] >= 0
        right = hits_of(Y, np.arange(len(labels)), labels)
        chance = best.scores[:, 0] / self.factors[0, labels]
        return (right & listed).astype(np.float64), np.where(listed, chance, 0.0)

    def state(self) -> dict[str, np.ndarray]:
        finite = [-1.0 if np.isinf(even) else even for even in self.tail_offset]
        return {
            "combiner.weights": self.weights,
            "combiner.counts": self.counts,
            "combiner.numbers": np.array([self.n_points, *finite], np.float64),
        }

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray], members: int, n_labels: int) -> Self:
        n_points, *finite = arrays["combiner.numbers"].tolist()
        first, others = (np.inf if even < 0 else even for even in finite)
        weights, counts = np.array(arrays["combiner.weights"]), np.array(arrays["combiner.counts"])
        holds = (
            members > 0
            and are_numbers(weights, len(BANDS) + 1, COLUMNS * members + 2)
            and counts.shape == (n_labels,)
            and all_within(counts, 0, int(n_points) + 1)
        )
        expect(holds, "the weights of the members do not fit")
        return cls(weights, counts, int(n_points), (first, others))


def _cheap(
    plain: tuple[np.ndarray, np.ndarray],
    lifted: tuple[np.ndarray, np.ndarray],
    weights: np.ndarray,
) -> bool:
    """Whether other first labels cost little: by what was right, or by what is likely.

    What was right on few examples says little, hence its standard error; the probabilities have
    next to no chance in them and may be a little off.
    """
    (right, chance), (right_then, chance_then) = plain, lifted
    if len(right) == 0:
        return True
    share = weights / weights.sum()
    lost, expected = right - right_then, share @ (chance - chance_then)
    mean = share @ lost
    error = np.sqrt((share @ (lost - mean) ** 2) * (share @ share))
    return bool(mean + error <= MOST_LOST or (expected <= MOST_EXPECTED and mean <= MOST_LOST))


@njit(cache=True, nogil=True)
def _union_rows(together, labels):  # type: ignore[no-untyped-def]
    """Labels of each row, once each, from the left; how many there are of a row at most."""
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


@njit(cache=True, nogil=True)
def _rank_rows(  # type: ignore[no-untyped-def]
    ends, labels, scores, log_counts, band, weights, factors, best_labels, best_scores
):
    """What `gather` lists, weighed and ranked without being written down.

    labels, scores  (n, width), the members' side by side; ends: where each member's stop
    """
    members, (n, width) = len(ends), labels.shape
    keys, odds, owner = np.empty(width, np.int64), np.empty(width), np.empty(width, np.int64)
    lowest, said = np.empty(members), np.empty(members)
    listed, chances = np.empty(width, np.int64), np.empty(width, np.float32)
    for row in range(n):
        count = place = 0
        for member in range(members):
            lowest[member] = 0.0
            while place < ends[member]:
                if labels[row, place] >= 0:
                    p = min(max(scores[row, place], LEAST), 1.0 - LEAST)
                    odds[place], owner[place] = np.log(p / (1.0 - p)), member
                    lowest[member] = min(lowest[member], odds[place])
                    keys[count] = labels[row, place] * width + place
                    count += 1
                place += 1
        keys[:count].sort()  # a label's ballots stand side by side
        position = n_listed = first = 0
        while position < count:
            label = keys[position] // width
            own = weights[band[label]]
            line = own[-1] + own[-2] * log_counts[label]
            said[:] = lowest
            while position < count and keys[position] // width == label:
                ballot = keys[position] % width
                said[owner[ballot]] = odds[ballot]
                line += own[COLUMNS * owner[ballot] + 1]
                position += 1
            for member in range(members):
                line += own[COLUMNS * member] * said[member]
                for number, knot in enumerate(KNOTS):
                    line += own[COLUMNS * member + 2 + number] * max(said[member] - knot, 0.0)
            listed[n_listed] = label
            chances[n_listed] = 1.0 / (1.0 + np.exp(-min(max(line, -60.0), 60.0)))
            if factors[0, label] * chances[n_listed] > factors[0, listed[first]] * chances[first]:
                first = n_listed
            n_listed += 1
        if n_listed == 0:
            continue
        best_labels[row, 0] = listed[first]
        best_scores[row, 0] = factors[0, listed[first]] * chances[first]
        filled = 0
        for place in range(n_listed):
            if place != first:
                value = factors[1, listed[place]] * chances[place]
                filled = keep_best(
                    value, listed[place], best_scores[row, 1:], best_labels[row, 1:], filled
                )
