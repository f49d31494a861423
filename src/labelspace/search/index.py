"""Base of exact and approximate search over label vectors: candidates first, then exact scores.

An index proposes candidates in whatever arithmetic is quick; one compiled loop then scores them in
float32 and orders them. So a query gets the same labels and the same bits alone and in a batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from labelspace._core.compiled import loop
from labelspace._core.schema import Schema, ints, scalars
from labelspace._core.threads import parallel_blocks
from labelspace._core.top_k import keep_best
from labelspace.errors import InputError, ParameterError, StoreError
from labelspace.search.row_products import row_product
from labelspace.search.stored_vectors import Vectors, loop_parts

QUERY_BLOCK = 1024  # bounds the memory of a search: candidates and scores of this many queries
TUNED_K = 5  # k at which the recall of label indexes is tuned

# Further candidates: what finds them rounds otherwise than the final scoring, so that a label a
# little below place k may belong above it.
MARGIN = 8


class InnerProductIndex(ABC):
    """Finds the labels whose vectors have the largest inner product with a query.

    Attributes
    ----------
    vectors : ndarray or StoredVectors of shape (labels, dimension)
        float32, or encoded in fewer bits. Kept by reference; they may be a read-only memory map.
    recall : float
        Share of the true best labels that is found, measured on sample queries.
    settings : dict
        What the index was built with.
    """

    kind: ClassVar[str]
    by_distance: ClassVar[bool] = False

    def __init__(self, vectors: Vectors) -> None:
        self.vectors = vectors
        self.recall = 1.0
        self.settings: dict[str, int] = {}

    def search(self, queries: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the k best labels of each query.

        Parameters
        ----------
        queries : array-like of shape (n, dimension)
            Finite numbers.
        k : int
            Number of labels per query.

        Returns
        -------
        labels : ndarray of shape (n, k)
            int64, best first, equal scores by label id; -1 where there are fewer than k labels.
        scores : ndarray of shape (n, k)
            float32 inner products; -inf where there are fewer than k labels.

        Raises
        ------
        InputError
            If the queries are not finite numbers of the vectors' dimension.
        ParameterError
            If k is smaller than 1.
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
        """Return all of the index but the vectors, as arrays for `restore_index`."""

    @abstractmethod
    def _candidates(self, queries: np.ndarray, k: int) -> np.ndarray:
        """Return (n, k or more) int32 ids that hold the best k, in any order; -1 pads."""

    def _rank(
        self, queries: np.ndarray, candidates: np.ndarray, labels: np.ndarray, scores: np.ndarray
    ) -> None:
        table = loop_parts(self.vectors)

        def block(start: int, stop: int) -> None:
            rows = slice(start, stop)
            _score(queries[rows], table, candidates[rows], labels[rows], scores[rows])

        parallel_blocks(len(queries), block)


def checked_rows(rows: Any, name: str, dim: int | None = None) -> np.ndarray:
    """Return rows as a C-ordered float32 array; raise InputError unless all are finite."""
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


def stored_kind(kind: str) -> np.ndarray:
    """Return the kind of an index as an array of its letters, which model files can hold."""
    return np.frombuffer(kind.encode(), np.uint8)


def kind_of(arrays: Mapping[str, np.ndarray]) -> str:
    """Return the kind of the index whose `state` the arrays are; an exact one has no arrays."""
    if not arrays:
        return "exact"
    if "kind" not in arrays or arrays["kind"].dtype != np.uint8:
        raise StoreError("the search index has no kind: it is of an older version, train it again")
    return arrays["kind"].tobytes().decode("ascii", "replace")


def kind_schema(prefix: str, kind: str) -> Schema:
    """Declare what the states of all indexes have that are not exact."""
    return [ints(f"{prefix}kind", len(kind), types="u1"), scalars(f"{prefix}recall", 1)]


def unknown_kind(kind: str) -> StoreError:
    """Return the error that a stored index is of a kind that this version does not have."""
    return StoreError(f"the search index is of kind {kind!r}, which is unknown: train it again")


@loop
def _score(queries, table, candidates, labels, scores):  # type: ignore[no-untyped-def]
    """Score candidates: the only place where scores that users see are computed."""
    for row in range(len(queries)):
        filled = np.int64(0)
        for label in candidates[row]:
            if label < 0:
                break
            score = row_product(queries[row], table, label)
            filled = keep_best(score, np.int64(label), scores[row], labels[row], filled)
