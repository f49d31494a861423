"""Scores of a label index and votes of near training examples, as one calibrated probability.

    p(l | x) = C((1 - w) sigmoid(a h_l(x) + b) + w votes_l(x))

where h is the method's own score, votes the labels of the nearest training examples, and C a
sigmoid of a line on the log odds. The line a, b, the share w and C come from a validation cut.
Without voters, w = 0, it is the method alone.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.components.calibration import fit_line, log_odds, probabilities
from labelspace.search.index import InnerProductIndex
from labelspace.search.neighbours.compressed import Voters

SHARES = (0.0, 0.15, 0.3, 0.4, 0.5, 0.6)
UNTRIED_SHARE = 0.3  # where there is no validation cut
_CALIBRATED = 20  # labels of each validation example that calibration looks at


class NeighbourBlend:
    """Ranks labels by index and voters together.

    numbers  a, b, w, and slope and offset of C
    """

    def __init__(
        self,
        index: InnerProductIndex,
        voters: Voters | None,
        neighbours: int,
        numbers: np.ndarray | None = None,
    ) -> None:
        self.index, self.voters, self.neighbours = index, voters, neighbours
        share = UNTRIED_SHARE if voters is not None else 0.0
        self.numbers = np.array([1.0, 0.0, share, 1.0, 0.0]) if numbers is None else numbers

    def fit(
        self,
        vectors: np.ndarray,
        queries: np.ndarray,
        Y: csr_matrix,
        score: Callable[[np.ndarray, np.ndarray], float],
    ) -> None:
        """Choose all numbers on a validation cut; score(labels, scores) is what w maximises."""
        k = min(_CALIBRATED, Y.shape[1])
        labels, logits = self.index.search(queries, k)
        self.numbers[:2] = fit_line(labels, logits, Y)
        if self.voters is not None:
            found = []
            for share in SHARES:
                self.numbers[2] = share
                found.append(score(*self.rank(vectors, queries, min(5, k))))
            self.numbers[2] = SHARES[int(np.argmax(found))]
        labels, raw = self.rank(vectors, queries, k)
        self.numbers[3:] = fit_line(labels, log_odds(raw), Y)

    def rank(
        self, vectors: np.ndarray, queries: np.ndarray, k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k best labels of each example and their probabilities; -1 and 0 pad."""
        labels, logits = self.index.search(queries, k)
        if self.voters is not None and self.numbers[2] > 0:
            return self.voters.blend(
                *(vectors, self.neighbours, self.numbers, queries, self.index.vectors, labels, k)
            )
        slope, offset, _, *last = self.numbers
        return labels, probabilities(labels, slope * logits + offset, np.array(last))
