"""Which labels an example is held against: the likeliest by naive Bayes.

    s_l(x) = sum_f x_f log(1 + k p(f | l) / p(f)) + log p(l) / t

is the likelihood of the example's features under a label's, smoothed by those of all examples.
Features that a label shows hardly more often than others do are left out, so that the sum stays
sparse. Nearest centroids were tried: they miss frequent labels, whose centroids are nobody's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.sparse import csr_matrix, vstack

from labelspace._core.checks import OFFSETS, are_numbers, expect
from labelspace._core.sparse import pack_csr, rows_of, unpack_csr
from labelspace.classifiers.dual_descent import Tasks
from labelspace.classifiers.sparse_scores import best

_SMOOTHING = 0.1  # k
_TEMPERATURE = 3.0  # t
_TELLING = 3.0  # least p(f | l) / p(f) of a feature that is kept
_LABELS_AT_A_TIME = 4096


@dataclass(frozen=True)
class Shortlister:
    """Names the likeliest labels of an example.

    postings  (features, labels)
    offsets   (labels,), -inf for those without examples
    """

    postings: csr_matrix
    offsets: np.ndarray

    @classmethod
    def fit(cls, X: csr_matrix, Y: csr_matrix) -> Self:
        by_label = Y.T.tocsr()
        positive = abs(X)
        mass = np.asarray(positive.sum(axis=0), np.float64).ravel()
        usual = mass / max(mass.sum(), 1e-12)
        blocks = [
            _telling(by_label[start : start + _LABELS_AT_A_TIME] @ positive, usual)
            for start in range(0, Y.shape[1], _LABELS_AT_A_TIME)
        ]
        count = np.diff(by_label.indptr)
        with np.errstate(divide="ignore"):
            offsets = np.log(count / max(1, Y.shape[0])) / _TEMPERATURE
        postings = vstack(blocks, format="csr", dtype=np.float32).T.tocsr()
        return cls(postings, offsets.astype(np.float32))

    def search(self, X: csr_matrix, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k likeliest labels of each example and s_l(x); -1 and -inf pad."""
        signed = len(X.data) > 0 and X.data.min() < 0
        return best(abs(X) if signed else X, self.postings, self.offsets, k)

    def state(self) -> dict[str, np.ndarray]:
        return {**pack_csr("shortlist", self.postings), OFFSETS: self.offsets}

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray], n_labels: int, n_features: int) -> Self:
        postings, offsets = unpack_csr("shortlist", arrays, (n_features, n_labels)), arrays[OFFSETS]
        fits = are_numbers(offsets, n_labels) and bool((offsets < np.inf).all())  # NaN is not
        expect(fits, "the short list's offsets do not fit the labels")
        return cls(postings, offsets)


def _telling(sums: csr_matrix, usual: np.ndarray) -> csr_matrix:
    """log(1 + k p(f | l) / p(f)) where the ratio is large enough, of sums (labels, features)."""
    totals = np.maximum(np.asarray(sums.sum(axis=1), np.float64).ravel(), 1e-12)
    rows = rows_of(sums)
    ratio = sums.data / totals[rows] / usual[sums.indices]
    weights = np.where(ratio >= _TELLING, np.log1p(_SMOOTHING * ratio), 0.0).astype(np.float32)
    kept = csr_matrix((weights, sums.indices, sums.indptr), shape=sums.shape)
    kept.eliminate_zeros()
    return kept


def tasks_of(Y: csr_matrix, candidates: csr_matrix, labels: np.ndarray) -> Tasks:
    """A task a wanted label: the examples that carry it, and its hard negatives, those that have it
    among their candidates.

    candidates  (n, labels), non-zero where the label is on the example's short list
    labels      which are wanted, bool
    """
    carried, listed = Y[:, labels].tocsc(), candidates[:, labels].tocsc()
    listed.sum_duplicates()
    carried.data, listed.data = np.full(carried.nnz, 2, np.int8), np.ones(listed.nnz, np.int8)
    both = (carried + listed).tocsc()
    both.sort_indices()
    return Tasks(both.indptr, both.indices, both.data >= 2)


def as_candidates(labels: np.ndarray, n_labels: int) -> csr_matrix:
    """Short lists (n, k), padded by -1, as a matrix of ones (n, n_labels)."""
    listed = labels >= 0
    indptr = np.concatenate([[0], np.cumsum(listed.sum(axis=1))])
    ones = np.ones(indptr[-1], np.float32)
    found = csr_matrix((ones, labels[listed], indptr), shape=(len(labels), n_labels))
    found.sort_indices()
    return found
