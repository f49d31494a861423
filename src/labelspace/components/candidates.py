"""Candidate labels: all that any member ranks for an example, with their features.

The features are, for each member, the log odds (those of the member's last label if it did not rank
this one), whether the member ranked it, and how far the log odds are above each of a few knots; and
the log of the label's frequency.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from labelspace._core.compiled import loop
from labelspace.components.calibration import log_odds
from labelspace.ranking import Ranking

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


def likeliest(found: Candidates, count: int) -> Candidates:
    """Return the `count` candidates per example with the largest mean log odds of the members."""
    mean = found.features[:, :-1:COLUMNS].mean(axis=1)
    order = np.lexsort((-mean, found.rows))
    place = np.arange(len(order)) - np.searchsorted(found.rows, found.rows)
    kept = np.sort(order[place < count])
    labels, features = found.labels[kept], found.features[kept]
    return Candidates(found.rows[kept], labels, features, found.n_examples)


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
