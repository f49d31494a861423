"""A sparse linear classifier a label: trained against all examples or short lists, then scored.

`linear` ranks by it alone; methods that find candidates in another way can rank these by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.checks import expect
from labelspace._core.sparse import pack_csr, unit_rows, unpack_csr
from labelspace.classifiers.dual_descent import Loss, all_against, solve
from labelspace.classifiers.naive_bayes import tasks_of
from labelspace.classifiers.sparse_scores import best, scores_of

if TYPE_CHECKING:
    from labelspace.runs.checkpoint_files import Blocks

DENSE = 0.2  # share of weights that are not zero, from which reading all of them is quicker
UNSEEN = -10.0  # score of a label without examples, which is far below that of any other


@dataclass
class LinearRanker:
    """<w_l, x> + b_l, with x brought to length 1.

    weights  (labels, features + 1) CSR, the biases last; may lie on a memory map
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
        """Train each label against all examples without it, or those that have it as a candidate.

        candidates  (n, labels), non-zero where the label is on the example's short list; None: all

        Other settings are those of `labelspace.classifiers.dual_descent.solve`.
        """
        seen = np.bincount(Y.indices, minlength=Y.shape[1]) > 0
        tasks = all_against(Y[:, seen]) if candidates is None else tasks_of(Y, candidates, seen)
        found = solve(
            *(unit_rows(X), tasks),
            loss=loss, C=C, prune=prune, tolerance=tolerance, passes=passes, seed=seed,
            progress=progress, blocks=blocks,
        )  # fmt: skip
        return cls(_spread(found, seen))

    def score(self, X: csr_matrix, candidates: np.ndarray) -> np.ndarray:
        """Scores of each example's candidate labels (n, k); -inf where the candidate is -1."""
        return scores_of(X, self.weights, candidates)

    def best(self, X: csr_matrix, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k best of all labels, and their scores."""
        return best(X, *self._by_feature(), k)

    def _by_feature(self) -> tuple[csr_matrix | np.ndarray, np.ndarray]:
        """Weights (features, labels) and biases, laid out once when they are first asked for."""
        if not hasattr(self, "_postings"):
            bias = self.weights[:, -1].toarray().ravel()
            postings = self.weights[:, :-1].T.tocsr()
            dense = postings.nnz >= DENSE * np.prod(postings.shape)
            self._postings = postings.toarray() if dense else postings, bias
        return self._postings

    def state(self) -> dict[str, np.ndarray]:
        return pack_csr("weights", self.weights)

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray], n_labels: int, n_features: int) -> Self:
        weights = unpack_csr("weights", arrays, (n_labels, n_features + 1))
        expect(weights.nnz > 0, "the labels have no weights")
        return cls(weights)


def _spread(found: csr_matrix, seen: np.ndarray) -> csr_matrix:
    """Weights of the labels that were seen in their places; the others have a low bias alone."""
    counts = np.ones(len(seen), np.int64)
    counts[seen] = np.diff(found.indptr)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    indices = np.full(indptr[-1], found.shape[1] - 1, np.int32)
    data = np.full(indptr[-1], UNSEEN, np.float32)
    trained = np.repeat(seen, counts)
    indices[trained], data[trained] = found.indices, found.data
    return csr_matrix((data, indices, indptr), shape=(len(seen), found.shape[1]))
