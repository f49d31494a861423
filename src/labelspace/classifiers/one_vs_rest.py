"""One sparse linear classifier per label, fitted against all examples or hard negatives.

The method `linear` ranks by them alone; methods that find candidates in another way can rerank
these by them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.checks import expect
from labelspace._core.sparse import pack_csr, unit_rows, unpack_csr, with_rows
from labelspace.classifiers.dual_descent import Loss, Tasks, all_against, solve
from labelspace.classifiers.sparse_scores import best, scores_of

if TYPE_CHECKING:
    from labelspace.runs.checkpoint_files import Blocks

DENSE = 0.2  # share of non-zero weights from which on a dense layout is quicker
UNSEEN = -10.0  # score of a label without examples, far below that of any other


@dataclass
class LinearRanker:
    """One-vs-rest linear classifiers: label l scores <w_l, x> + b_l, with x of length 1.

    Attributes
    ----------
    weights : csr_matrix of shape (labels, features + 1)
        The biases are in the last column; the arrays may be memory maps.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_matrix
    >>> X = csr_matrix(np.eye(3, dtype=np.float32)[[0, 0, 1, 1, 2, 2]])
    >>> ranker = LinearRanker.fit(X, X)  # label l has feature l
    >>> labels, scores = ranker.best(X[:1], k=2)
    >>> int(labels[0, 0])
    0
    >>> ranker.score(X[:1], np.array([[0, -1]])).round(1)
    array([[ 0.7, -inf]], dtype=float32)
    """

    weights: csr_matrix

    @classmethod
    def fit(
        cls,
        X: csr_matrix,
        Y: csr_matrix,
        candidates: csr_matrix | None = None,
        *,
        loss: Loss = "squared_hinge",
        C: float = 1.0,
        prune: float = 0.1,
        tolerance: float = 0.1,
        passes: int = 20,
        seed: int = 0,
        progress: Callable[[int], None] | None = None,
        blocks: Blocks | None = None,
    ) -> Self:
        """Fit each label against the examples without it, or those that have it as a candidate.

        Parameters
        ----------
        X : csr_matrix of shape (examples, features)
            Rows are scaled to length 1.
        Y : csr_matrix of shape (examples, labels)
        candidates : csr_matrix of shape (examples, labels), optional
            Non-zero where the label is on the example's shortlist. None: the negatives of a label
            are all examples without it.
        loss, C, prune, tolerance, passes, seed, progress, blocks
            As of `labelspace.classifiers.dual_descent.solve`.

        Returns
        -------
        LinearRanker
        """
        has_examples = np.bincount(Y.indices, minlength=Y.shape[1]) > 0
        if candidates is None:
            tasks = all_against(Y[:, has_examples])
        else:
            tasks = hard_negative_tasks(Y, candidates, has_examples)
        found = solve(
            *(unit_rows(X), tasks),
            loss=loss, C=C, prune=prune, tolerance=tolerance, passes=passes, seed=seed,
            progress=progress, blocks=blocks,
        )  # fmt: skip
        return cls(_with_all_labels(found, has_examples))

    def refitted(
        self,
        X: csr_matrix,
        Y: csr_matrix,
        labels: np.ndarray,
        candidates: csr_matrix | None = None,
        **settings: Any,
    ) -> Self:
        """Return the classifiers with those of some labels fitted again, from scratch.

        Parameters
        ----------
        X, Y : csr_matrix
            All examples, old and new. Columns of Y behind the known labels are new labels.
        labels : ndarray
            The labels to fit, sorted; each has examples.
        candidates : csr_matrix of shape (examples, len(labels)), optional
            As of `fit`, for these labels alone.
        **settings
            The keyword arguments of `fit`.
        """
        own = type(self).fit(X, Y[:, labels], candidates, **settings)
        weights, known = self.weights, self.weights.shape[0]
        if Y.shape[1] > known:  # those that are not fitted have no examples
            unseen = _with_all_labels(weights[:0], np.zeros(Y.shape[1] - known, np.bool_))
            places = np.arange(known, Y.shape[1])
            weights = with_rows(weights, places, unseen, Y.shape[1])
        return type(self)(with_rows(weights, labels, own.weights, Y.shape[1]))

    def score(self, X: csr_matrix, candidates: np.ndarray) -> np.ndarray:
        """Return the scores of each example's candidates, -inf where a candidate is -1.

        Parameters
        ----------
        X : csr_matrix of shape (n, features)
        candidates : ndarray of shape (n, k)
            Label numbers, padded by -1.

        Returns
        -------
        ndarray of shape (n, k), float32
        """
        return scores_of(X, self.weights, candidates)

    def best(self, X: csr_matrix, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the k best of all labels and their scores, two arrays of shape (n, k)."""
        return best(X, *self._by_feature(), k)

    def _by_feature(self) -> tuple[csr_matrix | np.ndarray, np.ndarray]:
        """Return weights (features, labels) and biases, arranged at the first call."""
        if not hasattr(self, "_postings"):
            bias = self.weights[:, -1].toarray().ravel()
            postings = self.weights[:, :-1].T.tocsr()
            dense = postings.nnz >= DENSE * np.prod(postings.shape)
            self._postings = postings.toarray() if dense else postings, bias
        return self._postings

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays that `restore` takes."""
        return pack_csr("weights", self.weights)

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the classifiers of these arrays, or raise ModelFormatError."""
        weights = unpack_csr("weights", arrays)
        expect(weights.nnz > 0, "the labels have no weights")
        return cls(weights)


def hard_negative_tasks(Y: csr_matrix, candidates: csr_matrix, labels: np.ndarray) -> Tasks:
    """Return one task per chosen label: examples that have it, and those that have it listed.

    Parameters
    ----------
    Y : csr_matrix of shape (examples, labels)
    candidates : csr_matrix of shape (examples, labels)
        Non-zero where the label is on the example's shortlist.
    labels : ndarray of shape (labels,), bool
        Which labels get a task.

    Returns
    -------
    Tasks
    """
    carried, listed = Y[:, labels].tocsc(), candidates[:, labels].tocsc()
    listed.sum_duplicates()
    carried.data, listed.data = np.full(carried.nnz, 2, np.int8), np.ones(listed.nnz, np.int8)
    both = (carried + listed).tocsc()
    both.sort_indices()
    return Tasks(both.indptr, both.indices, both.data >= 2)


def candidate_matrix(labels: np.ndarray, n_labels: int) -> csr_matrix:
    """Return shortlists (n, k), padded by -1, as a matrix of ones (n, n_labels).

    Examples
    --------
    >>> import numpy as np
    >>> candidate_matrix(np.array([[2, 0], [1, -1]]), 3).toarray()
    array([[1., 0., 1.],
           [0., 1., 0.]], dtype=float32)
    """
    listed = labels >= 0
    indptr = np.concatenate([[0], np.cumsum(listed.sum(axis=1))])
    ones = np.ones(indptr[-1], np.float32)
    found = csr_matrix((ones, labels[listed], indptr), shape=(len(labels), n_labels))
    found.sort_indices()
    return found


def _with_all_labels(found: csr_matrix, has_examples: np.ndarray) -> csr_matrix:
    """Return weights of all labels; those without examples have only a low bias."""
    counts = np.ones(len(has_examples), np.int64)
    counts[has_examples] = np.diff(found.indptr)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    indices = np.full(indptr[-1], found.shape[1] - 1, np.int32)
    data = np.full(indptr[-1], UNSEEN, np.float32)
    trained = np.repeat(has_examples, counts)
    indices[trained], data[trained] = found.indices, found.data
    return csr_matrix((data, indices, indptr), shape=(len(has_examples), found.shape[1]))
