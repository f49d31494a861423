"""The space of a fusion: that of its first member that has one, else one of the features.

The sums of the labels' examples, or the weights of their classifiers, are scaled to length 1 and
factorised by a truncated singular value decomposition, W = U S V^T: a label has the direction of
its row of U S, an example x that of V^T x. Sums come first: they hold what a label is about,
weights what sets it apart from the others, of which few dimensions keep little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.dense import unit_array
from labelspace._core.sparse import unit_rows
from labelspace._core.threads import single_blas_thread
from labelspace.errors import UnsupportedError
from labelspace.methods.base import Method

DIMENSIONS = 64  # at most
_ITERATIONS = 4  # power iterations of the randomised decomposition


@dataclass(frozen=True, eq=False)
class WeightSpace:
    """A space of features.

    Attributes
    ----------
    components : ndarray of shape (features, dim)
        V.
    label_vectors : ndarray of shape (labels, dim)
        Rows of U S, of length 1; zeros for labels without weights.
    """

    components: np.ndarray
    label_vectors: np.ndarray

    @classmethod
    def of(cls, weights: csr_matrix, seed: int) -> WeightSpace:
        """Decompose weights (labels, features); frequent labels count as much as rare ones."""
        from sklearn.utils.extmath import randomized_svd

        dim = min(DIMENSIONS, *weights.shape)
        with single_blas_thread():
            u, s, v = randomized_svd(unit_rows(weights), dim, n_iter=_ITERATIONS, random_state=seed)
        vectors = unit_array(np.asarray(u * s, np.float32))
        return cls(np.ascontiguousarray(v.T, np.float32), vectors)

    def embed(self, X: csr_matrix) -> np.ndarray:
        """Return the direction of each example, (n, dim)."""
        return unit_array(np.asarray(X @ self.components, np.float32))


def member_with_space(members: Sequence[Method]) -> Method | None:
    """Return the first member whose labels have vectors."""
    return next((member for member in members if member.has_space), None)


def weight_space(members: Sequence[Method], seed: int) -> WeightSpace:
    """Return the space of a member's features; sums of examples come before classifiers."""
    for member in sorted(members, key=lambda member: member.can_rerank):
        weights = member.label_features()
        if weights is not None:
            return WeightSpace.of(weights, seed)
    raise UnsupportedError(
        f"no member of this fusion ({', '.join(member.name for member in members)}) has label "
        "vectors or weights of features"
    )
