"""Exact search: every label is scored, in blocks, so that memory stays bounded."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from labelspace._core.compiled import loop
from labelspace._core.threads import parallel_blocks, product
from labelspace._core.top_k import keep_best
from labelspace.search.index import MARGIN, QUERY_BLOCK, InnerProductIndex
from labelspace.search.row_products import row_product
from labelspace.search.stored_vectors import loop_parts

_LABEL_BLOCK = 16_384  # labels per matrix product
BLOCK_BYTES = 4 * QUERY_BLOCK * _LABEL_BLOCK  # bytes of the products that are in memory at once

# Up to here a plain loop: BLAS is quicker only on several threads, and these wait on one another
# for milliseconds when the machine is busy, as a server is.
_FEW_QUERIES = 4


class ExactIndex(InnerProductIndex):
    """Scores all labels: by one loop for few queries, by blocks of matrix products for many."""

    kind: ClassVar[str] = "exact"

    def state(self) -> dict[str, np.ndarray]:
        return {}

    def _candidates(self, queries: np.ndarray, k: int) -> np.ndarray:
        shape = (len(queries), min(k + MARGIN, len(self.vectors)))
        labels = np.full(shape, -1, np.int32)
        scores = np.full(shape, -np.inf, np.float32)
        if len(queries) <= _FEW_QUERIES:
            _scan(queries, loop_parts(self.vectors), len(self.vectors), labels, scores)
            return labels
        for first in range(0, len(self.vectors), _LABEL_BLOCK):
            products = product(queries, self.vectors[first : first + _LABEL_BLOCK].T)
            _merge(products, first, labels, scores)
        return labels


def _merge(products: np.ndarray, first: int, labels: np.ndarray, scores: np.ndarray) -> None:
    """Merge products with the labels from `first` on into the best so far."""

    def block(start: int, stop: int) -> None:
        _keep_best_of(products[start:stop], first, labels[start:stop], scores[start:stop])

    parallel_blocks(len(products), block, block=64)


@loop
def _scan(queries, table, count, labels, scores):  # type: ignore[no-untyped-def]
    for row in range(len(queries)):
        query, best_labels, best_scores = queries[row], labels[row], scores[row]
        filled = np.int64(0)
        for label in range(count):
            score = row_product(query, table, label)
            filled = keep_best(score, label, best_scores, best_labels, filled)


@loop
def _keep_best_of(products, first, labels, scores):  # type: ignore[no-untyped-def]
    for row in range(len(products)):
        values, best_labels, best_scores = products[row], labels[row], scores[row]
        filled = min(first, len(best_labels))
        for column in range(len(values)):
            filled = keep_best(values[column], first + column, best_scores, best_labels, filled)
