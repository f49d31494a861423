"""Search over 4-bit codes, then exactly: for some ten thousand to some million labels.

A scan over the codes of all labels costs a twentieth of exact search or less; the labels that are
best by their codes are scored in full.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np

from labelspace.search.index import MARGIN, TUNED_K, InnerProductIndex
from labelspace.search.product_codes import (
    ProductCodes,
    code_state,
    stored_codebook,
    train_codebook,
)
from labelspace.search.stored_vectors import Vectors

_MORE_PER_LABEL = 8  # further candidates for each label above TUNED_K, found by trial


class QuantisedIndex(InnerProductIndex):
    """Scores all labels by 4-bit codes and reranks the `rerank_size` best of them."""

    kind: ClassVar[str] = "quantised"

    def __init__(
        self,
        vectors: Vectors,
        codebook: np.ndarray,
        rerank_size: int,
        known: np.ndarray | None = None,
        n_known: int = 0,
    ) -> None:
        """Encode the vectors; `known` are the codes of the first `n_known`."""
        super().__init__(vectors)
        self.codes = ProductCodes(vectors, codebook, known=known, n_known=n_known)
        self.recall = 0.0
        self.set_rerank_size(rerank_size)

    @classmethod
    def build(cls, vectors: Vectors, subdim: int, seed: int) -> Self:
        """Fit a codebook for subvectors of `subdim` dimensions to a sample of the vectors."""
        return cls(vectors, train_codebook(vectors, subdim, seed), MARGIN)

    @classmethod
    def restore(cls, vectors: Vectors, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the index whose `state` the arrays are."""
        codebook = stored_codebook(arrays, vectors.shape[1])
        size = int(arrays["rerank_size"][0])
        index = cls(vectors, codebook, size, arrays.get("codes"), len(vectors))
        index.recall = float(arrays["recall"][0])
        return index

    def set_rerank_size(self, rerank_size: int) -> None:
        """Score this number of candidates exactly."""
        self.rerank_size = min(rerank_size, len(self.vectors))
        self.settings = {
            "n_subquantisers": self.codes.n_subquantisers,
            "subdim": self.codes.subdim,
            "rerank_size": self.rerank_size,
        }

    def extended(self, vectors: np.ndarray) -> Self:
        """Return the same codebook over more vectors, of which the first are those of this one."""
        known, n_known = self.codes.packed, len(self.vectors)
        index = type(self)(vectors, self.codes.codebook, self.rerank_size, known, n_known)
        index.recall = self.recall
        return index

    def state(self) -> dict[str, np.ndarray]:
        return code_state(self.kind, self.codes, self.rerank_size, self.recall)

    def _candidates(self, queries: np.ndarray, k: int) -> np.ndarray:
        more = _MORE_PER_LABEL * max(k - TUNED_K, 0)
        size = min(max(self.rerank_size + more, k + MARGIN), len(self.vectors))
        return self.codes.candidates(queries, size)
