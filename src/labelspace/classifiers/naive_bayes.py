"""Candidate labels of an example: the likeliest ones by naive Bayes.

    s_l(x) = sum_f x_f log(1 + k p(f | l) / p(f)) + log p(l) / t

is the log-likelihood of the example's features under a label, smoothed by those of all examples.
Features that are hardly more frequent with a label than without it are left out, so that the sum
stays sparse. Nearest centroids were tried: they miss frequent labels, whose centroids are near to
no example.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.sparse import csr_matrix, vstack

from labelspace._core.checks import OFFSETS, are_numbers, expect
from labelspace._core.sparse import pack_csr, rows_of, unpack_csr
from labelspace.classifiers.sparse_scores import best

_SMOOTHING = 0.1  # k
_TEMPERATURE = 3.0  # t
MIN_LIFT = 3.0  # p(f | l) / p(f) from which on a feature is kept
_LABELS_AT_A_TIME = 4096


@dataclass(frozen=True)
class Shortlister:
    """Generates the candidates of an example, its shortlist, by naive Bayes.

    Attributes
    ----------
    postings : csr_matrix of shape (features, labels)
        log(1 + k p(f | l) / p(f)).
    offsets : ndarray of shape (labels,)
        log p(l) / t; -inf for labels without examples.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_matrix
    >>> X = csr_matrix(np.eye(4, dtype=np.float32))
    >>> shortlister = Shortlister.fit(X, csr_matrix(np.eye(4, dtype=np.float32)))
    >>> labels, log_likelihood = shortlister.search(X[:2], k=1)
    >>> labels
    array([[0],
           [1]])
    """

    postings: csr_matrix
    offsets: np.ndarray

    @classmethod
    def fit(cls, X: csr_matrix, Y: csr_matrix) -> Self:
        """Estimate the weights of all labels.

        Parameters
        ----------
        X : csr_matrix of shape (examples, features)
            Of negative values the absolute value counts.
        Y : csr_matrix of shape (examples, labels)

        Returns
        -------
        Shortlister
        """
        by_label = Y.T.tocsr()
        positive = abs(X)
        mass = np.asarray(positive.sum(axis=0), np.float64).ravel()
        background = mass / max(mass.sum(), 1e-12)
        blocks = [
            _informative_weights(by_label[start : start + _LABELS_AT_A_TIME] @ positive, background)
            for start in range(0, Y.shape[1], _LABELS_AT_A_TIME)
        ]
        count = np.diff(by_label.indptr)
        with np.errstate(divide="ignore"):
            offsets = np.log(count / max(1, Y.shape[0])) / _TEMPERATURE
        postings = vstack(blocks, format="csr", dtype=np.float32).T.tocsr()
        return cls(postings, offsets.astype(np.float32))

    def search(self, X: csr_matrix, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the shortlists of examples.

        Parameters
        ----------
        X : csr_matrix of shape (n, features)
        k : int

        Returns
        -------
        labels : ndarray of shape (n, k)
            The k likeliest labels of each example, -1 where there are fewer.
        log_likelihood : ndarray of shape (n, k)
            s_l(x), -inf where there is no label.
        """
        signed = len(X.data) > 0 and X.data.min() < 0
        return best(abs(X) if signed else X, self.postings, self.offsets, k)

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays that `restore` takes."""
        return {**pack_csr("shortlist", self.postings), OFFSETS: self.offsets}

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray], n_labels: int, n_features: int) -> Self:
        """Return the shortlister of these arrays, or raise ModelFormatError."""
        postings, offsets = unpack_csr("shortlist", arrays, (n_features, n_labels)), arrays[OFFSETS]
        fits = are_numbers(offsets, n_labels) and bool((offsets < np.inf).all())  # NaN is not
        expect(fits, "the short list's offsets do not fit the labels")
        return cls(postings, offsets)


def _informative_weights(sums: csr_matrix, background: np.ndarray) -> csr_matrix:
    """Return log(1 + k p(f | l) / p(f)) where the ratio is large enough, else 0.

    `sums` holds each label's sums of features, (labels, features).
    """
    totals = np.maximum(np.asarray(sums.sum(axis=1), np.float64).ravel(), 1e-12)
    rows = rows_of(sums)
    ratio = sums.data / totals[rows] / background[sums.indices]
    weights = np.where(ratio >= MIN_LIFT, np.log1p(_SMOOTHING * ratio), 0.0).astype(np.float32)
    kept = csr_matrix((weights, sums.indices, sums.indptr), shape=sums.shape)
    kept.eliminate_zeros()
    return kept
