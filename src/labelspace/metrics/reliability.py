"""Reliability of scores as probabilities: of labels scored 0.7, are seven in ten true?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from labelspace.errors import ParameterError
from labelspace.metrics.pairs import Pairs
from labelspace.metrics.ranking import RankedLabels

BINS = 10


@dataclass(frozen=True)
class Reliability:
    """A reliability diagram: pairs of example and label by score, in bins of equal width.

    Attributes
    ----------
    counts : ndarray of shape (bins,)
        The number of pairs.
    scores : ndarray of shape (bins,)
        Their mean score, 0 without pairs.
    hits : ndarray of shape (bins,)
        The share of true ones, 0 without pairs.
    """

    counts: np.ndarray
    scores: np.ndarray
    hits: np.ndarray

    @property
    def ece(self) -> float:
        """Return the expected calibration error; NaN without pairs.

        It is the mean distance of a bin's score and its share of true labels.
        """
        if not self.counts.any():
            return float("nan")
        return float(np.average(np.abs(self.scores - self.hits), weights=self.counts))

    def metadata(self) -> dict[str, Any]:
        """Return JSON values: ECE in percent, None without pairs, and each bin that has pairs."""
        width = 1.0 / len(self.counts)
        bins = [
            {
                "from": round(place * width, 6),
                "to": round((place + 1) * width, 6),
                "pairs": int(self.counts[place]),
                "score": float(self.scores[place]),
                "true": float(self.hits[place]),
            }
            for place in np.flatnonzero(self.counts).tolist()
        ]
        error = 100.0 * self.ece if bins else None
        return {"ECE": error, "pairs": int(self.counts.sum()), "bins": bins}


def reliability(
    ranking: RankedLabels, Y: Any, k: int | None = None, bins: int = BINS
) -> Reliability:
    """Compare the scores of a ranking with the shares of true labels.

    Parameters
    ----------
    ranking : Ranking
        With scores in [0, 1].
    Y : csr_matrix or ndarray of shape (n, labels)
        The true labels.
    k : int, optional
        Use the first k labels of each example only.
    bins : int
        The number of bins.

    Returns
    -------
    Reliability

    Examples
    --------
    >>> import numpy as np
    >>> from labelspace import Ranking
    >>> ranking = Ranking(np.array([[0], [0], [1], [1]]), np.full((4, 1), 0.75))
    >>> reliability(ranking, np.array([[1, 0], [1, 0], [0, 1], [1, 0]])).ece
    0.0
    """
    if bins < 1:
        raise ParameterError(f"bins={bins}: expected an integer of at least 1")
    pairs = Pairs.of(ranking, Y, k)
    # A score of 1 belongs to the last bin.
    place = np.minimum((pairs.scores.astype(np.float64) * bins).astype(np.int64), bins - 1)
    counts = np.bincount(place, minlength=bins)
    scores, hits = (
        np.bincount(place, weights=values, minlength=bins) / np.maximum(counts, 1)
        for values in (pairs.scores, pairs.hits)
    )
    return Reliability(counts, scores, hits)
