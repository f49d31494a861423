"""Members that are left out once they are fitted, where the others rank as well without them.

Of a tree with raw neighbours and of an embedding, some data need the one, some the other, and few
need both. Which of them cannot be read off the size of the data: it is measured on the hold-out. A
member that is left out takes no time in predictions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.components.held_out_ranking import PARTS, parts
from labelspace.components.stacking import Combiner
from labelspace.metrics.ranking import measure
from labelspace.ranking import Ranking

if TYPE_CHECKING:
    from labelspace.methods.fusion.method import Fusion

# Members that may be left out together, the slowest in predictions first.
ALTERNATIVES = ({"dxml"}, {"hierarchicalxc", "knn"})
METRIC, TOLERANCE = "nDCG@5", 0.5  # in points: less does not pay for the time of predictions
ENOUGH = 500  # held-out examples to decide by


def leave_out_members(
    model: Fusion, X: csr_matrix, Y: csr_matrix, Y_train: csr_matrix, sample_weight: np.ndarray
) -> None:
    """Leave members out of a fitted model if the combination of the others ranks as well.

    Parameters
    ----------
    model : Fusion
        Its members are fitted; `members_` and `plan_` are changed.
    X, Y : csr_matrix
        Held-out examples.
    Y_train : csr_matrix
        Labels of the training examples.
    sample_weight : ndarray
        Weights of the held-out examples.
    """
    methods = {member.method for member in model.plan_}
    if not all(names <= methods for names in ALTERNATIVES) or Y.shape[0] < ENOUGH or not Y.nnz:
        return
    choices = [set[str](), *ALTERNATIVES]
    scores = [
        _cross_validated(_rankings_without(model, X, names), Y, Y_train, sample_weight, model.seed)
        for names in choices
    ]
    for names, score in zip(choices[1:], scores[1:], strict=True):
        if score >= max(scores) - TOLERANCE:
            _leave_out(model, names)
            return


def _rankings_without(model: Fusion, X: csr_matrix, names: set[str]) -> list[Ranking]:
    kept, plan = model.members_, model.plan_
    _leave_out(model, names)
    try:
        return model.rankings(X)[0]
    finally:
        model.members_, model.plan_ = kept, plan


def _leave_out(model: Fusion, names: set[str]) -> None:
    stay = [place for place, member in enumerate(model.plan_) if member.method not in names]
    model.members_ = [model.members_[place] for place in stay]
    model.plan_ = [model.plan_[place] for place in stay]


def _cross_validated(
    rankings: list[Ranking],
    Y: csr_matrix,
    Y_train: csr_matrix,
    sample_weight: np.ndarray,
    seed: int,
) -> float:
    """Return the metric of parts of the examples, each ranked by weights fitted on the others."""
    part, best = parts(Y.shape[0], PARTS, seed), []
    for number in range(PARTS):
        own, others = np.flatnonzero(part == number), np.flatnonzero(part != number)
        lists = [ranking.take(others) for ranking in rankings]
        combiner = Combiner.fit(lists, Y[others], Y_train, sample_weight[others], False)
        best.append(combiner.rank([ranking.take(own) for ranking in rankings], 5))
    order = np.concatenate([np.flatnonzero(part == number) for number in range(PARTS)])
    return measure(METRIC, Ranking.stack(best), Y[order])
