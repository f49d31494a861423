"""Label texts as documents: labels are ranked by the cosine of the example and their document.

The document of a label is its text (names, alternative names, description) and, where it has
examples, the mean of these. A label without examples is found by the words of its text alone, of
which not all need to occur, as they must for `lexical`.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.sparse import csr_matrix, diags, vstack

from labelspace._core.schema import Schema, csr, scalars
from labelspace._core.sparse import as_csr, pack_csr, unit_rows, unpack_csr, with_rows
from labelspace.classifiers.sparse_scores import best
from labelspace.components.calibration import CALIBRATION_K, Calibration
from labelspace.components.held_out_ranking import HeldOutRanking
from labelspace.components.holdout import HoldOut
from labelspace.components.training_data import Shape, TrainingData
from labelspace.data.dataset import Features
from labelspace.methods.base import Method
from labelspace.methods.explanation import LabelExplanation, checked_example, most_similar_rows
from labelspace.methods.parameters import SEED, number
from labelspace.methods.search_range import between
from labelspace.ranking import Ranking

if TYPE_CHECKING:
    from labelspace.data.taxonomy import Taxonomy

EPS = 1e-4  # cosines below or as near to 1 are equal
_HELD_OUT = 0.1  # share of the examples on which scores are calibrated
_BLOCK = 4096  # labels whose centroids are made at once, which bounds memory


class LabelText(Method):
    """Ranks labels by the cosine of the example and the label's text, with its examples' mean.

    The document of label l is d_l = t_l + w c_l, where t_l are the features of its text and c_l is
    the mean of its examples, both of length 1. The score is the cosine of x and d_l, calibrated as
    a probability on held-out examples [2]_. With w = 0 this is retrieval of label texts, with
    labels that have no text it is Rocchio's classifier [1]_.

    It needs label texts (`--labels`); from arrays, `label_texts`, a row of features per label.
    A label whose document shares no feature with the example is not ranked.

    Attributes
    ----------
    texts_ : csr_matrix of shape (n_labels, n_features)
        The features of the labels' texts, of length 1.
    centroids_ : csr_matrix of shape (n_labels, n_features)
        The sums of the labels' examples, scaled to length 1, without small entries.
    lengths_ : ndarray of shape (n_labels,)
        The lengths of these sums.
    calibration_ : Calibration

    References
    ----------
    .. [1] J. J. Rocchio. Relevance Feedback in Information Retrieval. The SMART Retrieval
       System, 1971.
    .. [2] J. Platt. Probabilistic outputs for support vector machines. Advances in Large Margin
       Classifiers, 1999.

    Examples
    --------
    >>> from labelspace.features import Tfidf
    >>> texts = ["ripe red apple", "a sharp steel saw"] * 10
    >>> features = Tfidf().fit([*texts, "small toy boat"])
    >>> names = features.transform(["apple", "saw", "toy boat"])
    >>> model = LabelText().fit(
    ...     features.transform(texts), [[1, 0, 0], [0, 1, 0]] * 10, label_texts=names
    ... )
    >>> model.predict(features.transform(["the small boat"]), 1).labels.tolist()
    [[2]]
    """

    name: ClassVar[str] = "labeltext"
    can_explain: ClassVar[bool] = True
    can_update: ClassVar[bool] = True
    can_compare_labels: ClassVar[bool] = True
    uses_label_texts: ClassVar[bool] = True
    takes_label_texts: ClassVar[bool] = True
    full_precision: ClassVar[tuple[str, ...]] = ("lengths",)
    summary: ClassVar[str] = "labels whose text, with the mean of their examples, is closest"

    examples: float = number(
        "Weight of the mean of a label's examples; that of its text is 1.",
        default=1.0,
        group="usual",
        low=0.0,
        high=100.0,
        search=between(0.1, 20.0, log=True),
    )
    prune: float = number(
        "Entries of a mean of length 1 below this absolute value are left out.",
        default=0.03,
        group="usual",
        low=0.0,
        high=1.0,
    )
    seed: int = SEED

    def _fit(self, data: TrainingData) -> None:
        X, Y = as_csr(data.X), data.Y
        texts = data.label_texts
        if texts is None:
            texts = csr_matrix((Y.shape[1], X.shape[1]), dtype=np.float32)
        self.texts_, self.calibration_ = unit_rows(texts), Calibration(eps=EPS)
        hold_out = HoldOut.of(data, _HELD_OUT, self.params_.seed)
        if hold_out.valid is not None:
            self._set_examples(hold_out.X, hold_out.Y)
            found = self._ranked(hold_out.valid[0], min(CALIBRATION_K, Y.shape[1]))
            self.calibration_ = Calibration.fit(*found, hold_out.valid[1], EPS)
            self.held_out_ = HeldOutRanking.calibrated(*found, hold_out.valid[1], EPS)
        self._set_examples(X, Y)

    def _set_examples(self, X: csr_matrix, Y: csr_matrix) -> None:
        """Set the centroids to those of these examples."""
        self._set_sums(*_sums(unit_rows(X), Y, self.params_.prune))

    def _set_sums(self, centroids: csr_matrix, lengths: np.ndarray) -> None:
        self.centroids_, self.lengths_ = centroids, lengths
        documents = self.texts_ + np.float32(self.params_.examples) * centroids
        documents = unit_rows(csr_matrix(documents, dtype=np.float32))
        documents.eliminate_zeros()
        self._documents = documents
        self._postings = csr_matrix(documents.T)
        # A label without a document is left out.
        self._offsets = np.where(np.diff(documents.indptr) > 0, 0.0, -np.inf).astype(np.float32)

    def _ranked(self, X: csr_matrix, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return labels and cosines; labels that share no feature with the example are left out."""
        labels, cosines = best(X, self._postings, self._offsets, k)
        shared = cosines > 0.0
        return np.where(shared, labels, -1), np.where(shared, cosines, np.float32(0.0))

    def _predict(self, X: Features, k: int) -> Ranking:
        labels, cosines = self._ranked(as_csr(X), k)
        return Ranking(labels, self.calibration_(labels, cosines))

    def _partial_fit(self, data: TrainingData) -> None:
        n_labels = data.Y.shape[1]
        self.texts_ = _with_height(self.texts_, n_labels)
        old = _with_height(self.centroids_, n_labels)
        lengths = np.pad(self.lengths_, (0, n_labels - len(self.lengths_)))
        own, more = _sums(unit_rows(as_csr(data.X)), data.Y, 0.0)
        sums = csr_matrix(diags(lengths) @ old + diags(more) @ own)
        self._set_sums(*_pruned(sums, self.params_.prune))

    def refit(self, X: csr_matrix, Y: csr_matrix, taxonomy: Taxonomy | None) -> bool:
        del taxonomy
        self._set_examples(X, Y)
        return True

    def without_examples_of(self, labels: np.ndarray) -> LabelText:
        other, kept = copy(self), np.ones(self.centroids_.shape[0], np.float32)
        kept[labels] = 0.0
        centroids = csr_matrix(diags(kept) @ self.centroids_, dtype=np.float32)
        other._set_sums(centroids, self.lengths_ * kept)
        return other

    def explain(self, X: Any, label: int, k: int = 5) -> LabelExplanation:
        """Return the features that the example shares with the label's document; similar labels.

        The weight of a feature is its share of the cosine. There are no training examples.

        Parameters
        ----------
        X : sparse matrix or array of shape (1, n_features)
            One example.
        label : int
            Column of Y.
        k : int, default 5
            Number of features and of labels.

        Returns
        -------
        LabelExplanation
        """
        self._check_fitted()
        row = unit_rows(checked_example(self, X, label))
        shares = csr_matrix(row.multiply(self._documents[label]))
        order = np.argsort(-np.abs(shares.data), kind="stable")[:k]
        own = [(int(shares.indices[at]), float(shares.data[at])) for at in order]
        return LabelExplanation(label, own, self.similar_labels(label, k), [], [])

    def similar_labels(self, label: int, k: int) -> list[tuple[int, float]]:
        """Return the labels whose documents have the largest cosine to the label's."""
        return most_similar_rows(self._documents, label, k)

    def state(self) -> dict[str, np.ndarray]:
        return {
            **pack_csr("texts", self.texts_),
            **pack_csr("centroids", self.centroids_),
            "lengths": self.lengths_,
            "calibration": self.calibration_.state(),
        }

    def schema(self, arrays: Mapping[str, np.ndarray]) -> Schema:  # noqa: ARG002
        return [
            *csr("texts", "labels", "features"),
            *csr("centroids", "labels", "features"),
            scalars("lengths", "labels", low=0.0),
            scalars("calibration", 2),
        ]

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.texts_ = unpack_csr("texts", arrays)
        self.calibration_ = Calibration.restore(arrays["calibration"], EPS)
        self._set_sums(unpack_csr("centroids", arrays), arrays["lengths"])

    @classmethod
    def memory(cls, shape: Shape, params: Mapping[str, Any]) -> dict[str, int]:
        mean = shape.feature_nnz // max(1, shape.points)
        entries = min(shape.label_nnz * mean, shape.labels * shape.features)
        kept = entries
        if params["prune"] > 0.0:  # so many entries of this size make a length of 1
            kept = min(entries, int(shape.labels / params["prune"] ** 2))
        return {
            "examples of length 1": 8 * shape.feature_nnz,
            "sums of examples": 16 * min(entries, _BLOCK * shape.features),
            "documents": 4 * 8 * (kept + shape.label_text_nnz) + 24 * shape.labels,
        }


def _sums(X: csr_matrix, Y: csr_matrix, prune: float) -> tuple[csr_matrix, np.ndarray]:
    """Return the sum of each label's examples, of length 1, and the lengths of the sums."""
    of_labels = csr_matrix(Y.T, dtype=np.float32)
    parts = [
        _pruned(csr_matrix(of_labels[start : start + _BLOCK] @ X), prune)
        for start in range(0, of_labels.shape[0], _BLOCK)
    ]
    centroids = vstack([part for part, _ in parts], "csr", dtype=np.float32)
    return centroids, np.concatenate([lengths for _, lengths in parts])


def _pruned(sums: csr_matrix, prune: float) -> tuple[csr_matrix, np.ndarray]:
    """Return the rows scaled to length 1, without small entries, and the lengths of the rows."""
    sums.sort_indices()
    squares = np.asarray(sums.multiply(sums).sum(axis=1), np.float64).ravel()
    centroids = unit_rows(csr_matrix(sums, dtype=np.float32))
    centroids.data[np.abs(centroids.data) < prune] = 0.0
    centroids.eliminate_zeros()
    return centroids, np.sqrt(squares)


def _with_height(matrix: csr_matrix, n_rows: int) -> csr_matrix:
    """Return the matrix with so many rows, at least its own; further ones are empty."""
    return with_rows(matrix, np.empty(0, np.int64), matrix[:0], n_rows)
