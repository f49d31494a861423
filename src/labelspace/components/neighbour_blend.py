"""Scores of a label index and votes of near training examples, as one calibrated probability.

    p(l | x) = C((1 - w) sigmoid(a h_l(x) + b) + w votes_l(x))

where h is the method's own score, votes the labels of the nearest training examples, and C a
sigmoid of a line on the log odds. The line a, b, the share w and C come from a validation cut.
Without voters, w = 0, it is the method alone.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit
from scipy.sparse import csr_matrix

from labelspace._core.threads import parallel_blocks
from labelspace._core.top_k import keep_best
from labelspace.components.calibration import fit_line, log_odds, probabilities
from labelspace.search.index import InnerProductIndex, dot
from labelspace.search.neighbours.compressed import CompressedExamples
from labelspace.search.neighbours.voting import softmax_weights, votes_by_label

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
        voters: CompressedExamples | None,
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
            near, cosines = self.voters.nearest(vectors, self.neighbours)
            return self._with_votes(near, cosines, queries, labels, k)
        slope, offset, _, *last = self.numbers
        return labels, probabilities(labels, slope * logits + offset, np.array(last))

    def _with_votes(
        self, near: np.ndarray, cosines: np.ndarray, queries: np.ndarray, best: np.ndarray, k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the k labels with the largest blend of logit and votes, and their probabilities.

        best holds the k labels with the largest logits: with those that have votes they hold the
        k best of all, since a label without votes ranks by its logit.
        """
        assert self.voters is not None
        Y, label_vectors = self.voters.Y, self.index.vectors
        labels = np.full((len(near), k), -1, np.int64)
        scores = np.zeros((len(near), k), np.float32)

        def block(start: int, stop: int) -> None:
            part = slice(start, stop)
            _blend(
                *(near[part], cosines[part], Y.indptr, Y.indices, self.numbers),
                *(queries[part], label_vectors, best[part], labels[part], scores[part]),
            )

        parallel_blocks(len(near), block, block=64)
        return labels, scores


@njit(cache=True, nogil=True)
def _blend(  # type: ignore[no-untyped-def]
    near, cosines, indptr, indices, numbers, queries, vectors, best, labels, scores
):
    slope, offset, share, last_slope, last_offset = numbers
    for row in range(len(near)):
        weights = softmax_weights(near[row], cosines[row])
        voted, votes = votes_by_label(near[row], weights, best[row], indptr, indices)
        filled = 0
        for place in range(len(voted)):
            label = voted[place]
            own = 1.0 / (1.0 + np.exp(-(slope * dot(queries[row], vectors[label]) + offset)))
            odds = min(max((1.0 - share) * own + share * votes[place], 1e-9), 1.0 - 1e-9)
            logit = last_slope * np.log(odds / (1.0 - odds)) + last_offset
            score = np.float32(1.0 / (1.0 + np.exp(-logit)))
            filled = keep_best(score, label, scores[row], labels[row], filled)
