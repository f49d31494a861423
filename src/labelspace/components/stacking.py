"""Stacking: the rankings of several members, combined into one calibrated probability.

A logistic regression combines the features of candidate labels (`candidates.py`). Rare, medium and
frequent labels each have weights of their own, shrunk towards those of all labels:

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

from labelspace._core.checks import expect
from labelspace._core.schema import MOST, Schema, floats, ints, scalars
from labelspace._core.sparse import hits_of
from labelspace._core.threads import parallel_blocks
from labelspace.components.boosted_trees import NO_TREES
from labelspace.components.calibration import Calibration
from labelspace.components.candidate_ranking import LARGEST, rank_rows
from labelspace.components.candidates import COLUMNS, EPS, Candidates, gather, likeliest
from labelspace.components.name_matches import Matches, no_matches
from labelspace.labels.propensity import inverse_propensities
from labelspace.ranking import Ranking

BANDS = (10, 100)  # labels with fewer examples than the first are rare, than the second medium
_C = 0.1  # inverse regularisation strength of the logistic regression
# Scale of a band's own features: the smaller, the more its weights are shrunk towards the others'.
_BAND_SCALE, _TAIL_BAND_SCALE = 0.05, 0.2
# Candidates per example to fit on, at least; more if examples have more labels on average.
_MIN_CANDIDATES, _MIN_TAIL_CANDIDATES = 8, 20


def _by_band(features: np.ndarray, band: np.ndarray, scale: float) -> np.ndarray:
    """Return the features, and beside them a scaled copy per band that is 0 outside of it."""
    own = scale * np.hstack([features, np.ones((len(features), 1), np.float32)])
    return np.hstack([features, *(own * (band == b)[:, None] for b in range(len(BANDS) + 1))])


def certainty(n_examples: int) -> float:
    """Return the log odds of a label that is true for all of so many held-out examples.

    It is their estimate by Jeffreys' prior, (n + 1/2) / (n + 1). Without any, none is certain.
    """
    return float(np.log(2.0 * n_examples + 1.0)) if n_examples else LARGEST


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
    found = likeliest(found, max(at_least, round(labels_per_example)))
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
    certain: float = LARGEST
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

    def rank(self, rankings: Sequence[Ranking], k: int, matches: Matches | None = None) -> Ranking:
        """Return the k best candidates per example; `weighted` tells what their scores are.

        Parameters
        ----------
        rankings : sequence of Ranking
            The members' rankings.
        k : int
            Number of labels per example.
        matches : Matches, optional
            Matches of label names in the examples, for a combiner that was fitted with them.
        """
        ends = np.array(list(accumulate(ranking.k for ranking in rankings)))
        labels = np.concatenate([ranking.labels for ranking in rankings], axis=1)
        scores = np.concatenate([ranking.scores for ranking in rankings], axis=1)
        best, weights, trees = Ranking.empty(len(labels), k), self._all_weights(), self._all_trees()
        matched = no_matches(len(labels)) if matches is None else matches.arrays()

        def block(start: int, stop: int) -> None:
            rank_rows(
                *(ends, labels[start:stop], scores[start:stop], self.log_counts, self.band),
                *(weights, *trees, (matched[0][start : stop + 1], *matched[1:])),
                *(self.certain, self.factors, self.weighted),
                *(best.labels[start:stop], best.scores[start:stop]),
            )

        parallel_blocks(len(labels), block, least=8)
        return self._calibrated(best)

    def _calibrated(self, best: Ranking) -> Ranking:
        if self.calibration == Calibration(eps=EPS):
            return best
        return Ranking(best.labels, self.calibration(best.labels, best.scores))

    def _all_weights(self) -> np.ndarray:
        """Return the weights, and those of the tail objective if there are any."""
        own = [self.weights] if self.tail_weights is None else [self.weights, self.tail_weights]
        return np.stack(own)

    def _all_trees(self) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
        """Return trees that add to the log odds, and those of the tail objective."""
        none = NO_TREES.arrays()
        return none, none

    def recalibrated(
        self,
        rankings: Sequence[Ranking],
        Y: csr_matrix,
        share: float,
        matches: Matches | None = None,
    ) -> Combiner:
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
        matches : Matches, optional
            As in `rank`.
        """
        plain = replace(
            self, tail_offset=(np.inf, np.inf), weighted=False, calibration=Calibration(eps=EPS)
        )
        best = plain.rank(rankings, _MIN_CANDIDATES, matches)
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

    def drop_tail(self) -> None:
        """Rank by the same weights on all ranks."""
        self.tail_weights = None

    def like(self, other: Combiner) -> Self:
        """Return a copy with the tail offset and the calibration of another combination."""
        copy = replace(self, weighted=other.weighted, calibration=other.calibration)
        if other.tail_weights is None:
            copy.drop_tail()
        copy.set_tail_offset(*other.tail_offset)
        return copy

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
    def restore(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Rebuild a combiner of what `state` returned."""
        return cls(**restored_weights(arrays), **restored_numbers(arrays))

    @classmethod
    def schema(cls, arrays: Mapping[str, np.ndarray], members: int) -> Schema:
        """Declare the arrays of `state`, for so many members."""
        n_numbers = 3 if arrays["combiner.numbers"].shape == (3,) else 7  # of earlier versions
        shape = len(BANDS) + 1, COLUMNS * members + 2
        return [
            floats("combiner.weights", *shape, types="f8"),
            floats("combiner.tail_weights", *shape, types="f8", required=False),
            ints("combiner.counts", "labels"),
            scalars("combiner.numbers", n_numbers),
        ]


def restored_weights(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return the weights of a combiner."""
    names = [name for name in ("weights", "tail_weights") if f"combiner.{name}" in arrays]
    return {name: np.array(arrays[f"combiner.{name}"]) for name in names}


def restored_numbers(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return what all combiners have but the weights; raise ModelFormatError if they are wrong."""
    given = arrays["combiner.numbers"]
    if given.shape == (3,):  # of earlier versions
        given = np.append(given, [1.0, LARGEST, 1.0, 0.0])
    n_points, first, others, weighted, certain = given[:5].tolist()
    counts = np.array(arrays["combiner.counts"])
    expect(int(counts.max()) <= n_points <= MOST, "the counts of labels do not fit")
    return {
        "counts": counts,
        "n_points": int(n_points),
        "tail_offset": tuple(np.inf if offset < 0 else offset for offset in (first, others)),
        "weighted": bool(weighted),
        "certain": certain,
        "calibration": Calibration.restore(given[5:], EPS),
    }
