"""The score threshold from which a label is predicted, chosen on held-out data."""

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
    """A threshold and the metrics of the predicted labels on the held-out data, in percent.

    Attributes
    ----------
    value : float
        Labels whose score is at least this are predicted.
    goal : str
        What it was chosen for: "micro-f1", "macro-f1" or "precision=0.9".
    precision, recall, micro_f1, macro_f1 : float
        Metrics on the held-out data.
    examples : int
        The number of held-out examples.

    Examples
    --------
    >>> chosen = Threshold(0.3, "micro-f1", 80.0, 60.0, 68.6, 55.0, 1000)
    >>> chosen.value
    0.3
    """

    value: float
    goal: str
    precision: float
    recall: float
    micro_f1: float
    macro_f1: float
    examples: int

    def metadata(self) -> dict[str, Any]:
        """Return the attributes as a dictionary for `model.json`."""
        return asdict(self)


def choose_threshold(ranking: RankedLabels, Y: Any, goal: str = MICRO_F1) -> Threshold:
    """Return the best threshold on the scores of a ranking of held-out examples.

    Every threshold that makes a difference is tried. True labels that the ranking does not contain
    count as missed.

    Parameters
    ----------
    ranking : Ranking
        Of the held-out examples.
    Y : csr_matrix or ndarray of shape (n, labels)
        Their true labels.
    goal : str
        "micro-f1" or "macro-f1" for the largest F1; "precision=0.9" for the most labels with at
        least this precision.

    Returns
    -------
    Threshold

    Raises
    ------
    InputError
        If there are no labels, or no threshold gives the precision.
    ParameterError
        If the goal is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from labelspace import Ranking
    >>> ranking = Ranking(np.array([[0, 1], [1, 0]]), np.array([[0.75, 0.25], [0.5, 0.25]]))
    >>> chosen = choose_threshold(ranking, np.array([[1, 0], [0, 1]]))
    >>> chosen.value, chosen.micro_f1
    (0.375, 100.0)
    """
    wanted = check_goal(goal)
    pairs = Pairs.of(ranking, Y)
    if pairs.truth.nnz == 0:
        raise InputError("the held-out examples have no labels: a threshold needs some")
    if not len(pairs.scores):
        raise InputError("the ranking is empty: a threshold needs labels with scores")
    order = np.argsort(-pairs.scores, kind="stable")
    scores = pairs.scores[order]
    right, given = np.cumsum(pairs.hits[order]), np.arange(1, len(order) + 1)
    precision = right / given
    micro = 2 * right / (given + pairs.truth.nnz)
    macro = _macro_f1(pairs, order)
    # Pairs of equal score are predicted together: only the last of them is a place to stop.
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
    """Return the precision of the goal, None for F1; raise ParameterError for anything else."""
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
    """Return the mean F1 of labels when the first, the first two, ... pairs are predicted.

    The mean is over labels that are true or predicted for some example. Each pair changes the F1 of
    one label; the changes are found label by label and added up in the order of the pairs.
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
    """Return the middle of the last predicted score and the next: scores have rounding errors."""
    last = scores[stop]
    following = scores[stop + 1] if stop + 1 < len(scores) else np.float32(0)
    middle = np.float32((float(last) + float(following)) / 2)
    return float(middle if middle > following else last)


def _percent(share: float) -> float:
    return round(100.0 * float(share), 3)
