"""How a fusion fits the combination of its members on held-out examples, and measures it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.components.boosted_stacking import BoostedCombiner
from labelspace.components.held_out_ranking import PARTS, RANKED, HeldOutRanking, parts
from labelspace.components.name_matches import Matches
from labelspace.components.stacking import Combiner
from labelspace.components.unseen_labels import labels_to_hide, without_labels
from labelspace.methods.base import Method
from labelspace.ranking import Ranking

if TYPE_CHECKING:
    from labelspace.methods.fusion.method import Fusion

FOLDS = 3  # of the held-out examples, by which the tail offset is chosen
ENOUGH = 1000  # held-out examples to measure the model's figures on


def labels_hidden(model: Fusion, Y: csr_matrix, Y_train: csr_matrix) -> np.ndarray | None:
    """Return the labels that are without examples while the combination is fitted on Y.

    None where it does not rank labels without examples.
    """
    if model.columns_.n_text is None or Y.nnz == 0:
        return None
    counts = np.bincount(Y_train.indices, minlength=Y_train.shape[1])
    return labels_to_hide(Y, counts, model.params_.seed)


def fitted_combiner(
    model: Fusion,
    rankings: list[Ranking],
    X: csr_matrix,
    Y: csr_matrix,
    Y_train: csr_matrix,
    sample_weight: np.ndarray,
    hidden: np.ndarray | None,
) -> Combiner:
    """Return the combination fitted on held-out examples; `hidden` is that of `labels_hidden`."""
    tail = model.params_.objective == "psp"
    if hidden is None or Y.nnz == 0:
        return Combiner.fit(rankings, Y, Y_train, sample_weight, tail)
    parts = model.parts(X)
    members = [
        fitted.without_examples_of(hidden) if fitted.uses_label_texts else fitted
        for fitted in model.members_
    ]
    seen = [
        fitted.rank(own, ranking.k) if fitted.uses_label_texts else without_labels(ranking, hidden)
        for fitted, own, ranking in zip(members, parts, rankings, strict=True)
    ]
    matches = matches_of_members(members, parts)
    return BoostedCombiner.fit(seen, Y, Y_train, sample_weight, tail, hidden, matches)


def folds_of(
    model: Fusion,
    rankings: list[Ranking],
    X: csr_matrix,
    Y: csr_matrix,
    Y_train: csr_matrix,
    sample_weight: np.ndarray,
    hidden: np.ndarray | None,
) -> list[tuple[np.ndarray, Combiner]]:
    """Return parts of the held-out examples, each with a combination fitted on the others.

    The tail objective needs all parts. Else they are for the model's figures alone: one part is
    enough if it is large, and there is none if time is limited.
    """
    psp = model.params_.objective == "psp"
    count = FOLDS if psp else PARTS
    if Y.shape[0] < count or Y.nnz == 0 or not (psp or model.params_.budget is None):
        return []
    fold = parts(Y.shape[0], count, model.params_.seed)
    found: list[tuple[np.ndarray, Combiner]] = []
    for part in range(1 if not psp and Y.shape[0] >= PARTS * ENOUGH else count):
        rest = np.flatnonzero(fold != part)
        lists = [ranking.take(rest) for ranking in rankings]
        given = X[rest], Y[rest], Y_train, sample_weight[rest], hidden
        fitted = fitted_combiner(model, lists, *given)
        found.append((np.flatnonzero(fold == part), fitted))
    return found


def measured_ranking(
    model: Fusion,
    folds: Sequence[tuple[np.ndarray, Combiner]],
    rankings: list[Ranking],
    Y: csr_matrix,
    matches: Matches | None,
) -> HeldOutRanking | None:
    """Return the ranking of parts of the hold-out by combinations fitted on other parts."""
    best = []
    for rows, combiner in folds:
        lists = [ranking.take(rows) for ranking in rankings]
        names = None if matches is None else matches.take(rows)
        best.append(combiner.like(model.combiner_).rank(lists, RANKED, names))
    if not best:
        return None
    measured = np.concatenate([rows for rows, _ in folds])
    return HeldOutRanking(Ranking.stack(best), Y[measured], "the combination of the members")


def matches_of_members(members: Sequence[Method], parts: Sequence[csr_matrix]) -> Matches | None:
    """Return the matches that the first member with match columns finds in its columns."""
    for member, own in zip(members, parts, strict=True):
        if member.takes_name_matches:
            return member.matches_of(own)
    return None
