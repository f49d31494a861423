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
from functools import cached_property
from typing import Self

import numpy as np
from scipy.sparse import csr_matrix, vstack

from labelspace._core.checks import OFFSETS
from labelspace._core.compiled import loop
from labelspace._core.schema import Schema, csr, floats
from labelspace._core.sparse import pack_csr, rows_of, unpack_csr, with_rows
from labelspace._core.threads import parallel_blocks
from labelspace.classifiers.sparse_scores import best

_SMOOTHING = 0.1  # k
_TEMPERATURE = 3.0  # t
MIN_LIFT = 3.0  # p(f | l) / p(f) from which on a feature is kept
_LABELS_AT_A_TIME = 4096
# The number of shortlists that a label is on grows with this power of its examples (tib-gnd: 40
# lists with one example, 900 with 15, 17,000 with 150).
_LIST_POWER = 1.17


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

    @cached_property
    def highest(self) -> float:
        """The largest offset."""
        return float(self.offsets.max(initial=-np.inf))

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
        return cls(label_weights(X, Y).T.tocsr(), _offsets(Y))

    def updated(self, Y: csr_matrix, labels: np.ndarray, found: csr_matrix) -> Self:
        """Return the shortlister for more examples and labels.

        Parameters
        ----------
        Y : csr_matrix
            Labels of all examples, those of `fit` too; new labels are the last columns.
        labels : ndarray
            The labels whose weights are replaced, sorted; offsets of all labels are.
        found : csr_matrix of shape (len(labels), features)
            Their `label_weights`.
        """
        weights = with_rows(self.postings.T.tocsr(), labels, found, Y.shape[1])
        return type(self)(weights.T.tocsr(), _offsets(Y))

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
        return best(abs(X) if signed else X, self.postings, self.offsets, k, self.highest)

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays that `restore` takes."""
        return {**pack_csr("shortlist", self.postings), OFFSETS: self.offsets}

    @staticmethod
    def schema() -> Schema:
        """Declare the arrays of `state`."""
        below_infinity = floats(OFFSETS, "labels", low=-np.inf)  # nor NaN
        return [*csr("shortlist", "features", "labels", low=0.0), below_infinity]

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the shortlister of these arrays."""
        return cls(unpack_csr("shortlist", arrays), arrays[OFFSETS])


def label_weights(X: csr_matrix, Y: csr_matrix, mass: np.ndarray | None = None) -> csr_matrix:
    """Return log(1 + k p(f | l) / p(f)) of each label, (labels, features).

    `mass` has the sum of each feature over all examples, where X has some of them alone.
    """
    by_label, positive = Y.T.tocsr(), abs(X)
    if mass is None:
        mass = np.asarray(positive.sum(axis=0), np.float64).ravel()
    background = mass / max(mass.sum(), 1e-12)
    if Y.shape[1] == 0:
        return csr_matrix((0, X.shape[1]), dtype=np.float32)
    blocks = [
        _informative_weights(by_label[start : start + _LABELS_AT_A_TIME] @ positive, background)
        for start in range(0, Y.shape[1], _LABELS_AT_A_TIME)
    ]
    return csr_matrix(vstack(blocks, format="csr", dtype=np.float32))


def likeliest_examples(
    by_feature: csr_matrix, Y: csr_matrix, labels: np.ndarray, weights: csr_matrix, k: int
) -> csr_matrix:
    """Return examples on whose shortlists of length k the labels are, without making the lists.

    Of each label so many examples of the largest s_l(x) are taken as lists that it is on, by its
    frequency. Shortlists of all examples would take most of the time of `fit`.

    Parameters
    ----------
    by_feature : csr_matrix of shape (features, examples)
        All examples, of values that are not negative.
    Y : csr_matrix of shape (examples, labels)
    labels : ndarray
        The labels to find examples of.
    weights : csr_matrix of shape (len(labels), features)
        Their `label_weights`.
    k : int

    Returns
    -------
    csr_matrix of shape (examples, len(labels))
        1 where an example is among those of the label.
    """
    share = np.bincount(Y.indices, minlength=Y.shape[1]) ** _LIST_POWER
    lists = k * Y.shape[0] * share[labels] / max(share.sum(), 1e-12)
    lists = np.minimum(np.ceil(lists), Y.shape[0]).astype(np.int64)
    found: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def block(start: int, stop: int) -> None:
        found[start] = _most_likely(
            *(weights.indptr[start : stop + 1], weights.indices, weights.data),
            *(by_feature.indptr, by_feature.indices, by_feature.data, Y.shape[0]),
            lists[start:stop],
        )

    parallel_blocks(len(labels), block, block=64)
    counts, rows = (
        np.concatenate(part) for part in zip(*(found[at] for at in sorted(found)), strict=True)
    )
    indptr = np.concatenate([[0], counts.cumsum()])
    ones = np.ones(len(rows), np.float32)
    by_label = csr_matrix((ones, rows, indptr), shape=(len(labels), Y.shape[0]))
    return csr_matrix(by_label.T)


def _offsets(Y: csr_matrix) -> np.ndarray:
    """Return log p(l) / t of each label."""
    count = np.bincount(Y.indices, minlength=Y.shape[1])
    with np.errstate(divide="ignore"):
        offsets = np.log(count / max(1, Y.shape[0])) / _TEMPERATURE
    return np.asarray(offsets, np.float32)


@loop
def _most_likely(  # type: ignore[no-untyped-def]
    w_indptr, w_indices, w_data, p_indptr, p_indices, p_data, n_examples, lists
):
    """Return for each label the number of examples taken, and all these examples."""
    score, seen = np.zeros(n_examples, np.float32), np.empty(n_examples, np.int32)
    counts, rows = np.zeros(len(lists), np.int64), np.empty(lists.sum(), np.int32)
    filled = 0
    for label in range(len(lists)):
        n_seen = 0
        for cell in range(w_indptr[label], w_indptr[label + 1]):
            feature, weight = w_indices[cell], w_data[cell]
            for posting in range(p_indptr[feature], p_indptr[feature + 1]):
                example, value = p_indices[posting], weight * p_data[posting]
                # A sum may come back to 0: then its example is seen already.
                if value > 0.0 and score[example] == 0.0 and n_seen < n_examples:
                    seen[n_seen] = example
                    n_seen += 1
                score[example] += value
        of_seen = score[seen[:n_seen]]
        if n_seen > lists[label]:
            least = np.partition(of_seen, n_seen - lists[label])[n_seen - lists[label]]
        else:
            least = np.float32(0.0)
        taken = 0
        for place in range(n_seen):
            if of_seen[place] >= least and taken < lists[label]:
                rows[filled + taken] = seen[place]
                taken += 1
            score[seen[place]] = 0.0
        counts[label], filled = taken, filled + taken
    return counts, rows[:filled]


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
