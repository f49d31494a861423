"""What of the training data each member of a fusion takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.sparse import left_columns, right_columns, without_columns
from labelspace.methods.registry import method_class


@dataclass(frozen=True)
class MemberColumns:
    """Match columns are for members that take them, the columns before them for all others.

    Attributes
    ----------
    n_text : int or None
        Columns before the match columns; None if there are no match columns.
    label_texts : csr_matrix or None
        Features of the labels' texts, while members are fitted.
    hidden : ndarray or None
        Labels that are without examples while the combination is fitted, while members are fitted:
        members with `hides_in_training` are fitted without their examples.
    """

    n_text: int | None = None
    label_texts: csr_matrix | None = None
    hidden: np.ndarray | None = None

    def _takes_matches(self, method: str) -> bool:
        return self.n_text is not None and method_class(method).takes_name_matches

    def texts(self, X: csr_matrix) -> csr_matrix:
        """Return the columns of members that do not take matches."""
        return X if self.n_text is None else left_columns(X, self.n_text)

    def of(self, method: str, X: csr_matrix) -> csr_matrix:
        """Return the columns of a member of this method."""
        return right_columns(X, self.n_text or 0) if self._takes_matches(method) else self.texts(X)

    def split(self, methods: list[str], X: csr_matrix) -> list[csr_matrix]:
        """Return the columns of each of these members, each part cut once."""
        if self.n_text is None:
            return [X] * len(methods)
        texts, matches = left_columns(X, self.n_text), right_columns(X, self.n_text)
        return [matches if self._takes_matches(method) else texts for method in methods]

    def labels_of(self, method: str, Y: csr_matrix) -> csr_matrix:
        """Return the training labels of a member of this method."""
        if self.hidden is None or not method_class(method).hides_in_training:
            return Y
        return without_columns(Y, self.hidden)

    def sizes(self, method: str, n_features: int, n_labels: int) -> dict[str, int]:
        """Return `n_features` and `n_labels` of a member, of so many features in all."""
        if self.n_text is not None:
            takes = self._takes_matches(method)
            n_features = n_features - self.n_text if takes else self.n_text
        return {"n_features": n_features, "n_labels": n_labels}

    def arguments(self, method: str) -> dict[str, Any]:
        """Return further arguments of the member's `fit`."""
        given: dict[str, Any] = {"name_matches": True} if self._takes_matches(method) else {}
        if self.label_texts is not None and method_class(method).takes_label_texts:
            given["label_texts"] = self.label_texts
        return given
