"""A ranking as pairs of example and label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.sparse import checked_labels, hits_of
from labelspace.metrics.ranking import RankedLabels


@dataclass(frozen=True)
class Pairs:
    """All ranked pairs of example and label, without padding.

    `scores`, `labels` and `hits` have shape (pairs,); a hit is a label that is true for the
    example. `truth` is CSR (examples, labels).
    """

    scores: np.ndarray
    labels: np.ndarray
    hits: np.ndarray
    truth: csr_matrix

    @classmethod
    def of(cls, ranking: RankedLabels, Y: Any, k: int | None = None) -> Pairs:
        """Return the pairs of the first k labels of each example; of all labels if None."""
        labels = np.asarray(ranking.labels)[:, :k]
        truth = checked_labels(Y, len(labels))
        rows, places = np.nonzero(labels >= 0)
        ranked = labels[rows, places]
        scores = np.asarray(ranking.scores, np.float32)[rows, places]
        known = ranked < truth.shape[1]  # labels beyond are no true ones
        hits = np.zeros(len(ranked), bool)
        hits[known] = hits_of(truth, rows[known], ranked[known])
        return cls(scores, ranked, hits, truth)
