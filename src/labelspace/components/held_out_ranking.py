"""Rankings of held-out examples by a model that did not learn from them, for a model's figures.

A method that holds examples out fits a few numbers on them: a calibration, or the weights of a
combination. What is reported must not come from the examples that these were fitted on. So the
hold-out is cut into parts, and each part is ranked with numbers fitted on the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.components.calibration import Calibration
from labelspace.ranking import Ranking

RANKED = 5  # labels per example that figures are measured on
PARTS = 2  # of the hold-out


@dataclass(frozen=True, eq=False)
class HeldOutRanking:
    """What a model predicts for examples that it did not learn from.

    Attributes
    ----------
    ranking : Ranking
        The best labels of each example.
    Y : csr_matrix
        True labels.
    fitted : str
        What was fitted on other parts of the hold-out, for the model's card.
    """

    ranking: Ranking
    Y: csr_matrix
    fitted: str

    @classmethod
    def calibrated(
        cls, labels: np.ndarray, scores: np.ndarray, Y: csr_matrix, eps: float = 0.0
    ) -> Self:
        """Return a ranking each part of which is calibrated on the other.

        Parameters
        ----------
        labels, scores, Y, eps
            As of `Calibration.fit`: the ranking of a hold-out before it is calibrated.
        """
        kept = labels[:, :RANKED]
        found = np.zeros(kept.shape, np.float32)
        part = parts(len(labels), PARTS)
        for number in range(PARTS):
            own, others = part == number, part != number
            line = Calibration.fit(labels[others], scores[others], Y[others], eps)
            found[own] = line(
                np.ascontiguousarray(kept[own]), np.ascontiguousarray(scores[own, :RANKED])
            )
        return cls(Ranking(kept.copy(), found), Y, "the calibration of the scores")


def parts(n_rows: int, count: int, seed: int = 0) -> np.ndarray:
    """Return the part of each row, drawn at random, of so many parts of equal size."""
    rng = np.random.default_rng([seed, n_rows])
    return rng.permutation(np.arange(n_rows) % count)
