"""k-nearest neighbours on the raw features: cosine similarity, neighbours vote for their labels.

    score(l | x) = sum_{i in N(x)} s_i^p y_il / sum_{i in N(x)} s_i^p,   s_i = cos(x, x_i)

Exact, and sparse throughout: an inverted index over features is walked for the non-zeros of the
query only. scikit-learn's brute force multiplies whole blocks and keeps n x n_train results.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numba import njit
from scipy.sparse import csr_matrix

from labelspace.data.dataset import Features
from labelspace.methods.base import Method, Shape, TrainingData, as_csr
from labelspace.methods.parameters import SEED, Parameter, integer, number
from labelspace.methods.ranking import Ranking
from labelspace.parallel import over_rows
from labelspace.search.votes import keep_best, vote
from labelspace.sparse import pack_csr, unit_rows, unpack_csr


class KNN(Method):
    """Neighbours by cosine similarity of the sparse features, votes weighted by similarity."""

    name: ClassVar[str] = "knn"
    summary: ClassVar[str] = "exact cosine neighbours on the raw features vote for their labels"
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "neighbours": integer("how many training examples vote", low=1),
        "power": number("votes weigh similarity to this power; 0 counts heads", low=0.0, high=16.0),
        "seed": SEED,
    }

    def __init__(self, *, neighbours: int = 20, power: float = 2.0, seed: int = 0) -> None:
        self.neighbours = neighbours
        self.power = power
        self.seed = seed

    def _fit(self, data: TrainingData) -> None:
        # One row a feature: who has it, and how much of it.
        self.postings_ = csr_matrix(unit_rows(as_csr(data.X)).T)
        self.Y_ = data.Y

    def _predict(self, X: Features, k: int) -> Ranking:
        queries = unit_rows(as_csr(X))
        best = Ranking.empty(X.shape[0], k)
        neighbours = min(self.neighbours, self.Y_.shape[0])
        Y, postings = self.Y_, self.postings_

        def block(start: int, stop: int) -> None:
            _rank(
                *(queries.indptr[start : stop + 1], queries.indices, queries.data),
                *(postings.indptr, postings.indices, postings.data),
                *(Y.indptr, Y.indices, Y.shape[0], Y.shape[1]),
                *(neighbours, np.float32(self.power)),
                *(best.labels[start:stop], best.scores[start:stop]),
            )

        over_rows(X.shape[0], block, block=64)
        return best

    def state(self) -> dict[str, np.ndarray]:
        return {**pack_csr("postings", self.postings_), **pack_csr("Y", self.Y_)}

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.postings_ = unpack_csr("postings", arrays)
        self.Y_ = unpack_csr("Y", arrays)

    @classmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:  # noqa: ARG003
        return {
            "inverted index": 3 * 8 * shape.feature_nnz + 8 * shape.features,
            "labels": 8 * shape.label_nnz,
        }


@njit(cache=True, nogil=True)
def _rank(  # type: ignore[no-untyped-def]
    q_indptr, q_indices, q_data, p_indptr, p_indices, p_data, y_indptr, y_indices,
    n_train, n_labels, neighbours, power, labels_out, scores_out,
):  # fmt: skip
    similarity = np.zeros(n_train, np.float32)
    marked = np.zeros(n_train, np.bool_)
    tally = np.zeros(n_labels, np.float32)
    seen = np.empty(n_train, np.int64)
    near = np.empty(neighbours, np.int64)
    weights = np.empty(neighbours, np.float32)
    for row in range(len(q_indptr) - 1):
        n_seen = 0
        for cell in range(q_indptr[row], q_indptr[row + 1]):
            feature = q_indices[cell]
            for posting in range(p_indptr[feature], p_indptr[feature + 1]):
                example = p_indices[posting]
                if not marked[example]:
                    marked[example] = True
                    seen[n_seen] = example
                    n_seen += 1
                similarity[example] += q_data[cell] * p_data[posting]
        filled = 0
        for s in range(n_seen):
            example = seen[s]
            if similarity[example] > 1e-6:
                filled = keep_best(similarity[example], example, weights, near, filled)
            similarity[example] = 0.0
            marked[example] = False
        for n in range(filled - 1, -1, -1):  # relative to the nearest, so that powers stay in range
            weights[n] = (weights[n] / weights[0]) ** power
        vote(near, weights, filled, y_indptr, y_indices, tally, labels_out[row], scores_out[row])
