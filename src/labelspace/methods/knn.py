"""k-nearest neighbours by cosine similarity of the features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.sparse import as_csr, pack_csr, unpack_csr
from labelspace.components.training_data import Shape, TrainingData
from labelspace.data.dataset import Features
from labelspace.methods.base import Method
from labelspace.methods.parameters import SEED, integer, number
from labelspace.ranking import Ranking
from labelspace.search.neighbours.bounded import BoundedNeighbours
from labelspace.search.neighbours.sparse import SparseNeighbours

if TYPE_CHECKING:
    from labelspace.data.taxonomy import Taxonomy


class KNN(Method):
    """k-nearest neighbours by cosine similarity of the features.

    The neighbours N(x) of an example vote for their labels, weighted by a power of the similarity:

        score(l | x) = sum_{i in N(x)} s_i^p y_il / sum_{i in N(x)} s_i^p,   s_i = cos(x, x_i)

    The search is exact, by an inverted index over the features; `max_postings` bounds its cost at
    some loss of neighbours. The rule is that of [1]_.

    Attributes
    ----------
    neighbours_ : SparseNeighbours or BoundedNeighbours
        The inverted index.
    Y_ : csr_matrix
        Labels of the training examples.

    References
    ----------
    .. [1] S. A. Dudani. The Distance-Weighted k-Nearest-Neighbor Rule. IEEE Transactions on
       Systems, Man, and Cybernetics, 1976.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 1]])
    >>> Y = np.array([[1, 0], [1, 0], [0, 1]])
    >>> best = KNN(neighbours=2).fit(X, Y).predict([[0, 0, 2]], 1)
    >>> best.labels.tolist(), best.scores.tolist()
    ([[1]], [[1.0]])
    """

    name: ClassVar[str] = "knn"
    summary: ClassVar[str] = "cosine neighbours on the raw features vote for their labels"

    neighbours: int = integer(
        "Number of training examples that vote.", default=20, group="usual", low=1
    )
    power: float = number(
        "Power of the similarity that a vote is weighted by; with 0, votes have equal weights.",
        default=2.0,
        group="usual",
        low=0.0,
        high=16.0,
    )
    max_document_frequency: float | None = number(
        "Ignore features that more than this share of the examples have, such as dense features, "
        "by which every query would be compared with every example.",
        default=None,
        group="usual",
        low=0.0,
        high=1.0,
        none="use all features",
    )
    max_postings: int | None = integer(
        "Number of entries of the inverted index that a query reads, those that can add most to a "
        "similarity first.",
        default=None,
        low=1000,
        none="as many as exact search needs",
    )
    seed: int = SEED

    def _fit(self, data: TrainingData) -> None:
        self.neighbours_, self.Y_ = self._index(as_csr(data.X)), data.Y

    def _index(self, X: csr_matrix) -> SparseNeighbours | BoundedNeighbours:
        common, most = self.params_.max_document_frequency, self.params_.max_postings
        if most is None:
            return SparseNeighbours.of(X, common)
        return BoundedNeighbours.of(X, most, common)

    def refit(self, X: csr_matrix, Y: csr_matrix, taxonomy: Taxonomy | None) -> bool:
        del taxonomy
        self.neighbours_, self.Y_ = self._index(X), Y
        return True

    def _predict(self, X: Features, k: int) -> Ranking:
        near = min(self.params_.neighbours, self.Y_.shape[0])
        return Ranking(*self.neighbours_.votes(as_csr(X), near, self.params_.power, self.Y_, k))

    def state(self) -> dict[str, np.ndarray]:
        return {**self.neighbours_.state(), **pack_csr("Y", self.Y_)}

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.Y_ = unpack_csr("Y", arrays, (None, self.n_labels_))
        sizes, most = (self.n_features_in_, self.Y_.shape[0]), self.params_.max_postings
        if most is None:
            self.neighbours_ = SparseNeighbours.restore(arrays, sizes)
        else:
            self.neighbours_ = BoundedNeighbours.restore(arrays, sizes, most)

    @classmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:
        copies = 3 if params["max_postings"] is None else 5  # by example too, while both are made
        return {
            "inverted index": copies * 8 * shape.feature_nnz + 8 * shape.features,
            "labels": 8 * shape.label_nnz,
        }
