"""How much rare labels gain over likely ones: the choice of the tail offset on a hold-out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.sparse import hits_of
from labelspace.components.calibration import Calibration
from labelspace.components.candidates import EPS
from labelspace.labels.propensity import LabelCounts
from labelspace.metrics.ranking import measure
from labelspace.metrics.thresholds import MACRO_F1, choose_threshold
from labelspace.ranking import Ranking

if TYPE_CHECKING:
    from labelspace.components.name_matches import Matches
    from labelspace.components.stacking import Combiner

# Values of e tried in P (w + e): inf ignores rarity, 0 weights by it in full.
TAIL_OFFSETS = (np.inf, *(10.0 ** np.arange(3.0, -1.1, -0.1)).tolist(), 0.0)
SET_SIZE = 20  # labels per example among which a threshold selects
MAX_P1_LOSS = 0.01  # largest drop in P@1, as a share, that the tail objective may cost
# Probabilities are too high for the rare labels that are chosen for them: on cuts of six sets the
# drop was up to twice the one they expect. Standard deviation from this: a share of it, and more,
# and with few held-out examples an example more.
_OPTIMISM, _OPTIMISM_SHARE, _OPTIMISM_MORE = 2.0, 0.5, 0.002
STANDARD_DEVIATIONS = 1.5  # that are added to the estimated drop
_LEAST_GAIN = 30.0  # points, of one held-out example; of n, by the root of n less: below is noise
_PRECISION_SHARE = 0.25  # of P@3 and P@5 beside PSP@3 and PSP@5, in the choice of other ranks


def choose_tail_offset(
    combiner: Combiner,
    objective: str,
    rankings: Sequence[Ranking],
    Y: csr_matrix,
    Y_train: csr_matrix,
    sample_weight: np.ndarray | None = None,
    folds: Sequence[tuple[np.ndarray, Combiner]] = (),
    matches: Matches | None = None,
    deviations: float = STANDARD_DEVIATIONS,
) -> None:
    """Choose the tail offset on a hold-out; without labels there it stays as it is.

    Parameters
    ----------
    combiner : Combiner
        Its offset, its tail weights and its calibration are set.
    objective : {"psp", "f1"}
        "psp": the offset of the first rank is the one of best PSP@1 among those that cost
        little P@1; that of the others is the one of best PSP@3 + PSP@5, where P@3 and P@5 count
        a little. "f1": macro-F1 of the sets that the best threshold selects; scores are then
        weighted, as thresholds act on scores.
    rankings, Y, Y_train, sample_weight
        As in `Combiner.fit`.
    folds : sequence of (ndarray, Combiner)
        For "psp": rows of the hold-out, and a combiner that was fitted on all others. By
        default the rows that this one was fitted on are used.
    matches : Matches, optional
        As in `Combiner.rank`.
    deviations : float
        Standard deviations that are added to the estimated drop in P@1.
    """
    if Y.nnz == 0:
        return
    if objective == "f1":
        combiner.weighted = True

        def macro_f1(offset: float) -> float:
            combiner.set_tail_offset(offset, offset)
            best = combiner.rank(rankings, SET_SIZE, matches)
            return choose_threshold(best, Y, MACRO_F1).macro_f1

        offset = max(TAIL_OFFSETS, key=macro_f1)
        combiner.set_tail_offset(offset, offset)
        return
    parts = folds or [(np.arange(Y.shape[0]), combiner)]
    combiners = [fitted for _, fitted in parts]
    plain_weights = [fitted.without_tail() for fitted in combiners]
    rows = np.concatenate([own for own, _ in parts])
    Y, counts = Y[rows], LabelCounts.of(Y_train)
    weights = np.ones(len(rows)) if sample_weight is None else sample_weight[rows]
    lists = [[ranking.take(own) for ranking in rankings] for own, _ in parts]
    matched = [None if matches is None else matches.take(own) for own, _ in parts]

    def ranked(by: list[Combiner], first: float, others: float, k: int) -> Ranking:
        best = []
        for own, names, fitted in zip(lists, matched, by, strict=True):
            fitted.set_tail_offset(first, others)
            best.append(fitted.rank(own, k, names))
        return Ranking.stack(best)

    def of_others(by: list[Combiner], others: float) -> float:
        best = ranked(by, first, others, 5)
        psp = sum(measure(f"PSP@{k}", best, Y, counts) for k in (3, 5))
        return psp + _PRECISION_SHARE * sum(measure(f"P@{k}", best, Y) for k in (3, 5))

    plain = _first_rank(ranked(combiners, np.inf, np.inf, 1), Y)
    first, most = np.inf, -np.inf
    for e in TAIL_OFFSETS:
        best = ranked(combiners, e, e, 1)
        if largest_loss(plain, _first_rank(best, Y), weights, deviations) > MAX_P1_LOSS:
            break  # a smaller offset changes more first labels
        if (gain := measure("PSP@1", best, Y, counts)) > most:
            first, most = e, gain
    choices = [(by, e) for by in (plain_weights, combiners) for e in TAIL_OFFSETS if e <= first]
    by, others = max(choices, key=lambda choice: of_others(*choice))
    least = _LEAST_GAIN / np.sqrt(len(rows))
    if of_others(by, others) - of_others(plain_weights, first) < least:
        by, others = plain_weights, first
    if by is plain_weights:
        combiner.drop_tail()
    combiner.set_tail_offset(first, others)
    # Labels of high rank have a lower chance than all labels of the same probability.
    best = ranked(by, first, others, 5)
    combiner.calibration = Calibration.fit(best.labels, best.scores, Y, EPS, weights)


def _first_rank(best: Ranking, Y: csr_matrix) -> tuple[np.ndarray, np.ndarray]:
    """Return whether each example's first label is true, and its probability."""
    labels, listed = best.labels[:, 0], best.labels[:, 0] >= 0
    right = hits_of(Y, np.arange(len(labels)), labels) & listed
    return right.astype(np.float64), np.where(listed, best.scores[:, 0], 0.0).astype(np.float64)


def largest_loss(
    plain: tuple[np.ndarray, np.ndarray],
    shifted: tuple[np.ndarray, np.ndarray],
    weights: np.ndarray,
    deviations: float = STANDARD_DEVIATIONS,
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
    return float(mean + deviations / np.sqrt(precision))
