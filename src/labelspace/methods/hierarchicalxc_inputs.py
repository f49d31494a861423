"""What the classifiers of a tree see of an example: its features, a dense code of them, or both."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix, hstack

from labelspace.sparse import unit_rows

INPUTS = ("raw", "code", "both")


class Inputs:
    """Turns features into the classifiers' inputs, sparse, each part of length 1.

    directions  (features, dim): x's code is x @ directions; None where only features are seen.
                They are the leading singular directions of the training examples, which is what a
                linear autoencoder of that width learns.
    """

    def __init__(self, kind: str, directions: np.ndarray | None) -> None:
        self.kind, self.directions = kind, directions

    @classmethod
    def fit(cls, kind: str, X: csr_matrix, dim: int, seed: int) -> Inputs:
        if kind == "raw":
            return cls(kind, None)
        from sklearn.utils.extmath import randomized_svd

        dim = min(dim, *X.shape)
        _, _, directions = randomized_svd(unit_rows(X), dim, n_iter=4, random_state=seed)
        return cls(kind, np.ascontiguousarray(directions.T, np.float32))

    def __call__(self, X: csr_matrix) -> csr_matrix:
        raw = unit_rows(X)
        if self.directions is None:
            return raw
        # scipy multiplies row by row: a row's code does not depend on the rows beside it.
        code = unit_rows(csr_matrix(raw @ self.directions))
        return code if self.kind == "code" else csr_matrix(hstack([raw, code], "csr"))
