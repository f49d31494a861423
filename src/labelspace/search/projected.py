"""Search in fewer dimensions, then exactly: for label sets of some ten thousand labels.

Trained label vectors and queries hardly use all their dimensions alike. Scores within the leading
directions of both, in 8-bit integers, give candidates that hold the best labels nearly always, and
only these are scored in full. Building takes a matrix product and an eigenvalue problem.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np

from labelspace._core.checks import expect
from labelspace._core.compiled import loop
from labelspace._core.schema import Schema, floats, ints, optional
from labelspace._core.threads import parallel_blocks, product
from labelspace.search.codes import integer_dot, quantise, to_integers
from labelspace.search.index import MARGIN, InnerProductIndex, kind_schema, stored_kind
from labelspace.search.row_products import dot
from labelspace.search.stored_vectors import Vectors


class ProjectedIndex(InnerProductIndex):
    """Scores all labels within `directions` and reranks the `rerank_size` best of them."""

    kind: ClassVar[str] = "projected"

    def __init__(
        self,
        vectors: Vectors,
        directions: np.ndarray,
        rerank_size: int,
        known: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> None:
        """Encode the vectors; `known` are scales and codes of all of them, as they were stored."""
        super().__init__(vectors)
        self.directions = np.ascontiguousarray(directions, np.float32)
        if known is None:
            known = quantise(product(vectors[:], self.directions.T))
        self.scales, self.codes = known
        self.set_rerank_size(rerank_size)

    @classmethod
    def schema(cls, arrays: Mapping[str, np.ndarray], prefix: str, rows: str, dim: str) -> Schema:
        """Declare the arrays of `state`, for so many vectors of this dimension."""
        directions = f"{prefix}directions"
        codes: Schema = [  # not in models that were stored before
            floats(f"{prefix}scales", directions, low=0.0),
            ints(f"{prefix}codes", rows, directions, low=-128, types="i1"),
        ]
        return [
            *kind_schema(prefix, cls.kind),
            floats(directions, directions, dim),
            ints(f"{prefix}rerank_size", 1, low=1),
            *optional(codes, arrays),
        ]

    @classmethod
    def restore(cls, vectors: Vectors, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the index whose `state` the arrays are."""
        known = (arrays["scales"], arrays["codes"]) if "codes" in arrays else None
        expect(known is None or len(known[1]) == len(vectors), "the index is of other vectors")
        index = cls(vectors, arrays["directions"], int(arrays["rerank_size"][0]), known)
        index.recall = float(arrays["recall"][0])
        return index

    def set_rerank_size(self, rerank_size: int) -> None:
        """Score this number of candidates exactly."""
        self.rerank_size = min(rerank_size, max(1, len(self.vectors)))
        self.settings = {"directions": len(self.directions), "rerank_size": self.rerank_size}

    @property
    def products(self) -> int:
        """Return the number of multiplications per query."""
        reranked = self.rerank_size * self.vectors.shape[1]
        return int(self.codes.size + self.directions.size + reranked)

    def state(self) -> dict[str, np.ndarray]:
        return {
            "kind": stored_kind(self.kind),
            "directions": self.directions,
            "scales": self.scales,
            "codes": self.codes,
            "rerank_size": np.array([self.rerank_size]),
            "recall": np.array([self.recall]),
        }

    def _candidates(self, queries: np.ndarray, k: int) -> np.ndarray:
        size = min(max(self.rerank_size, k + MARGIN), len(self.vectors))
        labels = np.full((len(queries), size), -1, np.int32)

        def block(start: int, stop: int) -> None:
            _best_candidates(
                *(queries[start:stop], self.directions, self.scales, self.codes),
                labels[start:stop],
            )

        parallel_blocks(len(queries), block, block=32)
        return labels


def leading_directions(vectors: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Return all directions, (dim, dim), those first in which vectors and queries are largest.

    Both have the same weight, whatever their lengths: a direction matters if either uses it.
    """
    moments = np.zeros((vectors.shape[1], vectors.shape[1]))
    for rows in (vectors, queries):
        moment = (rows.T @ rows).astype(np.float64)
        moments += moment / max(float(np.trace(moment)), 1e-30)
    _, directions = np.linalg.eigh(moments)  # smallest first
    return np.asarray(directions.T[::-1], np.float32)


@loop
def _best_candidates(queries, directions, scales, codes, labels):  # type: ignore[no-untyped-def]
    """Write the labels with the largest projected scores, in any order.

    The heap, whose root is the smallest score kept, is written out here: as a function of
    `_core.top_k` it kept the compiler from vectorising the products, and scans took 1.5 to 4 times
    as long.
    """
    size = labels.shape[1]
    kept = np.empty(size, np.int32)
    projected = np.empty(len(directions), np.float32)
    query = np.empty(len(directions), np.int16)
    for row in range(len(queries)):
        for j in range(len(directions)):
            projected[j] = dot(queries[row], directions[j])
        to_integers(projected, scales, query)
        heap = labels[row]
        for label in range(len(codes)):
            score = integer_dot(query, codes, label)
            if label < size:  # fill from the leaf up
                place = label
                while place > 0 and kept[(place - 1) // 2] > score:
                    kept[place] = kept[(place - 1) // 2]
                    heap[place] = heap[(place - 1) // 2]
                    place = (place - 1) // 2
            elif score > kept[0]:  # replace the root and let it sink
                place = 0
                while True:
                    child = 2 * place + 1
                    if child >= size:
                        break
                    if child + 1 < size and kept[child + 1] < kept[child]:
                        child += 1
                    if kept[child] >= score:
                        break
                    kept[place] = kept[child]
                    heap[place] = heap[child]
                    place = child
            else:
                continue
            kept[place] = score
            heap[place] = label
