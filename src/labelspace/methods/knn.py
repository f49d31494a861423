"""k-nearest neighbours by cosine similarity of the features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.growing_rows import GrowingRows
from labelspace._core.schema import Schema, csr, ints
from labelspace._core.sparse import as_csr, pack_csr, unit_rows, unpack_csr
from labelspace.components.examples import Examples
from labelspace.components.training_data import Shape, TrainingData
from labelspace.data.dataset import Features
from labelspace.methods.base import Method, Neighbour
from labelspace.methods.explanation import checked_row, pairs
from labelspace.methods.parameters import SEED, integer, number
from labelspace.methods.search_range import between
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
    can_update: ClassVar[bool] = True
    can_find_examples: ClassVar[bool] = True
    summary: ClassVar[str] = "cosine neighbours on the raw features vote for their labels"

    neighbours: int = integer(
        "Number of training examples that vote.",
        default=20,
        group="usual",
        low=1,
        search=between(3, 100, log=True),
    )
    power: float = number(
        "Power of the similarity that a vote is weighted by; with 0, votes have equal weights.",
        default=2.0,
        group="usual",
        low=0.0,
        high=16.0,
        search=between(0.5, 8.0),
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
        self.refit(as_csr(data.X), data.Y, None)

    def _index(self, X: csr_matrix) -> SparseNeighbours | BoundedNeighbours:
        common, most = self.params_.max_document_frequency, self.params_.max_postings
        if most is None:
            return SparseNeighbours.of(X, common)
        return BoundedNeighbours.of(X, most, common)

    def refit(self, X: csr_matrix, Y: csr_matrix, taxonomy: Taxonomy | None) -> bool:
        del taxonomy
        self.neighbours_, self.Y_ = self._index(X), Y
        self._labels: GrowingRows | None = None  # Y_, once updates have added to it
        # Features that are left out now are left out of later examples too.
        self.unused_ = np.zeros(0, np.int64)
        if self.params_.max_document_frequency is not None:
            indexed = np.diff(self.neighbours_.postings.indptr) > 0
            used = np.bincount(X.indices, minlength=X.shape[1]) > 0
            self.unused_ = np.flatnonzero(used & ~indexed)
        return True

    def _partial_fit(self, data: TrainingData) -> None:
        X = unit_rows(as_csr(data.X))
        if len(self.unused_):
            is_used = np.ones(X.shape[1], np.bool_)
            is_used[self.unused_] = False
            X = csr_matrix(X.multiply(is_used))
            X.eliminate_zeros()
        self.neighbours_ = self.neighbours_.extended(X, scaled=True)
        if self._labels is None:
            self._labels = GrowingRows.of(self.Y_)
        self._labels = self._labels.plus(data.Y)
        self.Y_ = self._labels.matrix(data.Y.shape[1])

    def nearest_examples(self, X: Any, k: int = 5) -> list[Neighbour]:
        """Return the training examples with the largest cosine of their features.

        Parameters
        ----------
        X : sparse matrix or array of shape (1, n_features)
            One example.
        k : int, default 5
            Number of training examples, at most; those that share no feature are left out.

        Returns
        -------
        list of Neighbour
        """
        self._check_fitted()
        near, cosines = self.neighbours_.search(checked_row(self, X), min(k, self.Y_.shape[0]))
        return [
            Neighbour(row, cosine, self.Y_[row].indices.tolist())
            for row, cosine in pairs(near[0], cosines[0])
        ]

    @property
    def keeps_examples(self) -> bool:
        return self.params_.max_document_frequency is None

    def kept_examples(self) -> Examples:
        return Examples(self.neighbours_.rows, self.Y_, self.neighbours_.postings)

    def label_features(self) -> csr_matrix:
        return csr_matrix((self.neighbours_.postings @ self.Y_).T)

    def _predict(self, X: Features, k: int) -> Ranking:
        near = min(self.params_.neighbours, self.Y_.shape[0])
        return Ranking(*self.neighbours_.votes(as_csr(X), near, self.params_.power, self.Y_, k))

    def arrays_to_round(self) -> dict[str, np.ndarray]:
        return self.neighbours_.floats()

    def state(self) -> dict[str, np.ndarray]:
        arrays = {**self.neighbours_.state(), **pack_csr("Y", self.Y_)}
        return {**arrays, "unused": self.unused_} if len(self.unused_) else arrays

    def schema(self, arrays: Mapping[str, np.ndarray]) -> Schema:  # noqa: ARG002
        return [
            *csr("Y", "examples", "labels", sets=True),
            *csr("postings", "features", "examples"),
            ints("unused", "unused", limit="features", required=False),
        ]

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.Y_, self._labels = unpack_csr("Y", arrays), None
        most = self.params_.max_postings
        if most is None:
            self.neighbours_ = SparseNeighbours.restore(arrays)
        else:
            self.neighbours_ = BoundedNeighbours.restore(arrays, most)
        self.unused_ = arrays.get("unused", np.zeros(0, np.int64))

    @classmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:
        copies = 3 if params["max_postings"] is None else 5  # by example too, while both are made
        return {
            "inverted index": copies * 8 * shape.feature_nnz + 8 * shape.features,
            "labels": 8 * shape.label_nnz,
        }
