"""Sets instead of rankings: the score from which on a label is given, chosen on held-out data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from labelspace.errors import InputError, ParameterError
from labelspace.metrics.pairs import Pairs
from labelspace.metrics.ranking import RankedLabels

RANKED = 50  # labels of an example that a set is chosen from
MICRO_F1, MACRO_F1, PRECISION = "micro-f1", "macro-f1", "precision"


@dataclass(frozen=True)
class Threshold:
    """A threshold, what it was chosen for, and the figures of its sets there, in percent."""

    value: float
    goal: str
    precision: float
    recall: float
    micro_f1: float
    macro_f1: float
    examples: int

    def metadata(self) -> dict[str, Any]:
        """For `model.json`."""
        return asdict(self)


def choose_threshold(ranking: RankedLabels, Y: Any, goal: str = MICRO_F1) -> Threshold:
    """The best threshold on the scores of a ranking of held-out examples with true labels Y.

    goal  "micro-f1" or "macro-f1": the largest; "precision=0.9": the largest sets of which at least
          this share is right

    Every threshold that makes a difference is tried. Labels that the ranking leaves out count as
    missed.
    """
    wanted = check_goal(goal)
    pairs = Pairs.of(ranking, Y)
    if pairs.truth.nnz == 0:
        raise InputError("the held-out examples have no labels: a threshold needs some")
    if not len(pairs.scores):
        raise InputError("the ranking is empty: a threshold needs labels that are given")
    order = np.argsort(-pairs.scores, kind="stable")
    scores = pairs.scores[order]
    right, given = np.cumsum(pairs.hits[order]), np.arange(1, len(order) + 1)
    precision = right / given
    micro = 2 * right / (given + pairs.truth.nnz)
    macro = _macro_f1(pairs, order)
    # Pairs of one score are given together: only the last of them is a place to stop.
    stops = np.flatnonzero(np.append(scores[1:] < scores[:-1], True))
    if wanted is None:
        curve = micro if goal == MICRO_F1 else macro
        stop = stops[np.argmax(curve[stops])]
    else:
        enough = stops[precision[stops] >= wanted]
        if not len(enough):
            best = precision[stops].max()
            raise InputError(
                f"no threshold gives precision {wanted:g}: the most on these "
                f"{len(pairs.truth.indptr) - 1} examples is {best:.3f}"
            )
        stop = enough[-1]
    return Threshold(
        value=_between(scores, stop),
        goal=goal,
        precision=_percent(precision[stop]),
        recall=_percent(right[stop] / pairs.truth.nnz),
        micro_f1=_percent(micro[stop]),
        macro_f1=_percent(macro[stop]),
        examples=int(pairs.truth.shape[0]),
    )


def check_goal(goal: str) -> float | None:
    """The wanted precision, None for the goals that are F1; anything else is a ParameterError."""
    if goal in (MICRO_F1, MACRO_F1):
        return None
    name, equals, number = goal.partition("=")
    try:
        wanted = float(number) if name == PRECISION and equals else -1.0
    except ValueError:
        wanted = -1.0
    if not 0.0 < wanted <= 1.0:
        raise ParameterError(
            f"threshold for {goal!r}: expected {MICRO_F1}, {MACRO_F1} or {PRECISION}=0.9"
        )
    return wanted


def _macro_f1(pairs: Pairs, order: np.ndarray) -> np.ndarray:
    """Mean F1 of labels when the first, the first two, ... pairs are given.

    The mean is over labels that are true or given for some example. Each pair changes the F1 of one
    label; the changes are found label by label and added up in the order of the pairs.
    """
    labels, hits = pairs.labels[order], pairs.hits[order]
    width = max(pairs.truth.shape[1], int(labels.max()) + 1)
    n_true = np.bincount(pairs.truth.indices, minlength=width)
    grouped = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels, minlength=width)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    given = np.arange(len(grouped)) - starts + 1
    so_far = np.concatenate(([0], np.cumsum(hits[grouped])))
    right = so_far[1:] - so_far[starts]
    f1 = 2 * right / (given + n_true[labels[grouped]])
    before = np.where(given > 1, np.append(0.0, f1[:-1]), 0.0)
    change, newcomer = np.empty(len(order)), np.empty(len(order))
    change[grouped] = f1 - before
    newcomer[grouped] = (given == 1) & (n_true[labels[grouped]] == 0)
    mean: np.ndarray = np.cumsum(change) / (np.count_nonzero(n_true) + np.cumsum(newcomer))
    return mean


def _between(scores: np.ndarray, stop: int) -> float:
    """Midway from the last score that is given to the next, for scores off by a rounding error."""
    last = scores[stop]
    following = scores[stop + 1] if stop + 1 < len(scores) else np.float32(0)
    middle = np.float32((float(last) + float(following)) / 2)
    return float(middle if middle > following else last)


def _percent(share: float) -> float:
    return round(100.0 * float(share), 3)
