"""What exact and approximate search over label vectors share: short list first, then exact scores.

An index proposes candidates in whatever arithmetic is quick; one compiled loop then scores them in
float32 and orders them. So a query gets the same labels and the same bits alone and in a batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numba import njit

from labelspace._core.threads import parallel_blocks
from labelspace._core.top_k import keep_best
from labelspace.errors import InputError, ParameterError

QUERY_BLOCK = 1024  # bounds the memory of a search: candidates and scores of this many queries
TUNED_K = 5  # approximate search is tuned to find so many labels a query


class InnerProductIndex(ABC):
    """Finds the labels whose vectors have the largest inner product with a query.

    vectors   (labels, dimension) float32, kept by reference; they may be a read-only memory map
    recall    the share of the true best 5 that is found, measured on sample queries
    settings  what the index was built with
    """

    kind: ClassVar[str]

    def __init__(self, vectors: np.ndarray) -> None:
        self.vectors = vectors
        self.recall = 1.0
        self.settings: dict[str, int] = {}

    def search(self, queries: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k best labels of each query as (labels (n, k) int64, scores (n, k) float32).

        Best first, equal scores by label id; -1 and -inf pad a row that has fewer than k labels.
        """
        if k < 1:
            raise ParameterError(f"k={k}: expected an integer of at least 1")
        queries = checked_rows(queries, "queries", self.vectors.shape[1])
        labels = np.full((len(queries), k), -1, np.int64)
        scores = np.full((len(queries), k), -np.inf, np.float32)
        if len(self.vectors) == 0:
            return labels, scores
        for start in range(0, len(queries), QUERY_BLOCK):
            rows = slice(start, start + QUERY_BLOCK)
            candidates = self._candidates(queries[rows], min(k, len(self.vectors)))
            self._rank(queries[rows], candidates, labels[rows], scores[rows])
        return labels, scores

    @abstractmethod
    def state(self) -> dict[str, np.ndarray]:
        """All of the index but the vectors, as flat arrays for `restore_index`."""

    @abstractmethod
    def _candidates(self, queries: np.ndarray, k: int) -> np.ndarray:
        """(n, k or more) int32 label ids that hold the best k, in any order; -1 pads at the end."""

    def _rank(
        self, queries: np.ndarray, candidates: np.ndarray, labels: np.ndarray, scores: np.ndarray
    ) -> None:
        def block(start: int, stop: int) -> None:
            rows = slice(start, stop)
            _score(queries[rows], self.vectors, candidates[rows], labels[rows], scores[rows])

        parallel_blocks(len(queries), block)


def checked_rows(rows: Any, name: str, dim: int | None = None) -> np.ndarray:
    """Rows as a C-ordered float32 array of finite numbers; anything else is an InputError."""
    try:
        array = np.ascontiguousarray(rows, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be an array of numbers: {error}") from None
    if array.ndim != 2:
        raise InputError(f"{name} must have two dimensions, got shape {array.shape}")
    if dim is not None and array.shape[1] != dim:
        raise InputError(f"{name} have dimension {array.shape[1]}; the label vectors have {dim}")
    if not np.isfinite(array).all():
        raise InputError(f"{name} hold NaN or infinite values")
    return array


# Sums may be reordered, or the loop would not use vector instructions.
@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def dot(one, other):  # type: ignore[no-untyped-def]
    total = np.float32(0.0)
    for j in range(len(one)):
        total += one[j] * other[j]
    return total


@njit(cache=True, nogil=True)
def _score(queries, vectors, candidates, labels, scores):  # type: ignore[no-untyped-def]
    """The only place where scores that users see are computed."""
    for row in range(len(queries)):
        filled = 0
        for label in candidates[row]:
            if label < 0:
                break
            score = dot(queries[row], vectors[label])
            filled = keep_best(score, label, scores[row], labels[row], filled)
