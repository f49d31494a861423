"""A label index and the votes of near training examples, blended into one calibrated probability.

    P(l | x) = C((1 - w) sigmoid(a h_l(x) + b) + w votes_l(x))

where h is the method's own score, votes the share of the nearest training examples that have the
label, each weighing exp(SHARPNESS * cosine), and C a sigmoid of a line in the log odds. The line
a, b, the share w and C are fitted on a hold-out. With w = 0 it is the method alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.checks import expect
from labelspace._core.compiled import loop, loop_part
from labelspace._core.threads import parallel_blocks
from labelspace._core.top_k import keep_best
from labelspace.components.calibration import CALIBRATION_K, EPS, Calibration
from labelspace.search.index import InnerProductIndex
from labelspace.search.neighbours.compressed import CompressedExamples
from labelspace.search.neighbours.voting import softmax_weights, votes_by_label
from labelspace.search.row_products import row_product
from labelspace.search.stored_vectors import Vectors, loop_parts

NEIGHBOUR_SHARES = (0.0, 0.15, 0.3, 0.4, 0.5, 0.6)  # values of w that are tried
DEFAULT_SHARE = 0.3  # w without a hold-out
RANKED = 5  # labels per example that w is chosen by


class BlendParameters(NamedTuple):
    """The numbers of a blend; the default leaves the scores of the index as they are.

    Attributes
    ----------
    slope, offset : float
        The line a, b in the method's own score.
    neighbour_share : float
        The share w of the votes, from 0 to 1.
    final_slope, final_offset : float
        The line C in the log odds of the blend.
    """

    slope: float = 1.0
    offset: float = 0.0
    neighbour_share: float = 0.0
    final_slope: float = 1.0
    final_offset: float = 0.0

    @classmethod
    def restore(cls, array: np.ndarray) -> BlendParameters:
        """Rebuild the parameters from an array of the five."""
        found = cls(*array.tolist())
        expect(0.0 <= found.neighbour_share <= 1.0, "the share of the votes is out of range")
        return found


class NeighbourBlend:
    """Ranks labels by an index and by the votes of near training examples together.

    Attributes
    ----------
    index : InnerProductIndex
        Finds labels by the method's own score.
    voters : CompressedExamples or None
        The training examples.
    neighbours : int
        Examples that vote.
    parameters : BlendParameters
    """

    def __init__(
        self,
        index: InnerProductIndex,
        voters: CompressedExamples | None,
        neighbours: int,
        parameters: BlendParameters | None = None,
    ) -> None:
        # A loop that keeps the best of none would write beside its arrays.
        expect(voters is None or neighbours > 0, "examples vote and the number of neighbours is 0")
        self.index, self.voters, self.neighbours = index, voters, neighbours
        share = DEFAULT_SHARE if voters is not None else 0.0
        self.parameters = parameters or BlendParameters(neighbour_share=share)

    def fit(
        self,
        vectors: np.ndarray,
        queries: np.ndarray,
        Y: csr_matrix,
        score: Callable[[np.ndarray, np.ndarray], float],
    ) -> None:
        """Fit all parameters on a hold-out.

        Parameters
        ----------
        vectors, queries : ndarray
            As in `rank`.
        Y : csr_matrix
            True labels.
        score : callable
            score(labels, scores) of a ranking, which the share of the votes maximises.
        """
        k = min(CALIBRATION_K, Y.shape[1])
        own = Calibration.fit(*self.index.search(queries, k), Y)
        self.parameters = self.parameters._replace(slope=own.slope, offset=own.offset)
        if self.voters is not None:
            found = []
            for share in NEIGHBOUR_SHARES:
                self.parameters = self.parameters._replace(neighbour_share=share)
                found.append(score(*self.rank(vectors, queries, min(RANKED, k))))
            best = NEIGHBOUR_SHARES[int(np.argmax(found))]
            self.parameters = self.parameters._replace(neighbour_share=best)
        self.recalibrate(vectors, queries, Y)

    def recalibrate(self, vectors: np.ndarray, queries: np.ndarray, Y: csr_matrix) -> None:
        """Fit the final line on a hold-out, on top of the one there is."""
        k = min(CALIBRATION_K, Y.shape[1])
        more = Calibration.fit(*self.rank(vectors, queries, k), Y, EPS)
        slope, offset = self.parameters.final_slope, self.parameters.final_offset
        self.parameters = self.parameters._replace(
            final_slope=slope * more.slope, final_offset=more.slope * offset + more.offset
        )

    def rank(
        self, vectors: np.ndarray, queries: np.ndarray, k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the k best labels per example and their probabilities; -1 and 0 pad.

        Parameters
        ----------
        vectors : ndarray of shape (n, dimension)
            The examples, whose nearest training examples vote.
        queries : ndarray of shape (n, d)
            The examples as queries of the index.
        k : int
        """
        labels, logits = self.index.search(queries, k)
        if self.voters is None or self.parameters.neighbour_share <= 0:
            slope, offset, _, *final = self.parameters
            return labels, Calibration(*final)(labels, slope * logits.astype(np.float64) + offset)
        near = self.voters.nearest(vectors, min(self.neighbours, len(self.voters)))
        return blend(near, self.voters.Y, self.parameters, queries, self.index.vectors, labels, k)

    def add_examples(
        self, embed: Callable[[csr_matrix], np.ndarray], X: csr_matrix, Y: csr_matrix
    ) -> None:
        """Let further examples vote, such as those of the hold-out once all else is fitted."""
        if self.voters is not None:
            self.voters = self.voters.extended(embed, X, Y)


def blend(
    near: tuple[np.ndarray, np.ndarray],
    Y: csr_matrix,
    parameters: BlendParameters,
    queries: np.ndarray,
    label_vectors: Vectors,
    candidates: np.ndarray,
    k: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k labels with the largest blend of logit and votes, and their probabilities.

    Parameters
    ----------
    near : pair of ndarray of shape (n, neighbours)
        The nearest training examples, -1 pads, and their cosines.
    Y : csr_matrix
        Labels of the training examples.
    parameters : BlendParameters
    queries : ndarray of shape (n, d)
        Their inner products with `label_vectors` (labels, d) are the logits.
    label_vectors : ndarray or StoredVectors of shape (n_labels, d)
    candidates : ndarray of shape (n, k)
        The labels with the largest logits, -1 pads. With the voted ones they hold the k best of
        all, since labels without votes rank by their logits.
    k : int
    """
    rows, cosines = near
    labels = np.full((len(rows), k), -1, np.int64)
    scores = np.zeros((len(rows), k), np.float32)
    table = loop_parts(label_vectors)

    def block(start: int, stop: int) -> None:
        part = slice(start, stop)
        _blend_rows(
            *(rows[part], cosines[part], Y.indptr, Y.indices, tuple(parameters)),
            *(queries[part], table, candidates[part], labels[part], scores[part]),
        )

    parallel_blocks(len(rows), block, block=64)
    return labels, scores


@loop_part
def blended(logit, votes, parameters, added):  # type: ignore[no-untyped-def]
    """Return the probability of a label from its logit and its share of the votes.

    `parameters` are those of `BlendParameters`, as a plain tuple; `added` is added to the log odds
    before the final line.
    """
    slope, offset, share, final_slope, final_offset = parameters
    own = 1.0 / (1.0 + np.exp(-(slope * logit + offset)))
    p = min(max((1.0 - share) * own + share * votes, EPS), 1.0 - EPS)
    logit = final_slope * (np.log(p / (1.0 - p)) + added) + final_offset
    return np.float32(1.0 / (1.0 + np.exp(-logit)))


@loop
def _blend_rows(  # type: ignore[no-untyped-def]
    rows, cosines, indptr, indices, parameters, queries, table, candidates, labels, scores
):
    """Write the best labels of each row and their scores; the arguments are those of `blend`."""
    for row in range(len(rows)):
        weights = softmax_weights(rows[row], cosines[row])
        voted, votes = votes_by_label(rows[row], weights, candidates[row], indptr, indices)
        filled = 0
        for place in range(len(voted)):
            logit = np.float64(row_product(queries[row], table, voted[place]))
            score = blended(logit, votes[place], parameters, 0.0)
            filled = keep_best(score, voted[place], scores[row], labels[row], filled)
