"""Search in fewer dimensions, then exactly: for label sets of some ten thousand labels.

Trained label vectors and queries hardly use all their dimensions alike. Scores within the leading
directions of both, in 8-bit integers, name a short list that holds the best labels nearly always,
and only the short list is scored in full. Building takes a matrix product and an eigenvalue
problem.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np
from numba import njit

from labelspace._core.checks import kept_count
from labelspace._core.threads import parallel_blocks, product
from labelspace.errors import StoreError
from labelspace.search.codes import integer_dot, quantise, to_integers
from labelspace.search.index import InnerProductIndex, dot

_MARGIN = 8


class ProjectedIndex(InnerProductIndex):
    """Scores all labels within `directions`, and the `short` best of them in full."""

    kind: ClassVar[str] = "projected"

    def __init__(self, vectors: np.ndarray, directions: np.ndarray, short: int) -> None:
        super().__init__(vectors)
        self.directions = np.ascontiguousarray(directions, np.float32)
        self.steps, self.codes = quantise(product(vectors, self.directions.T))
        self.short = short
        self.settings = {"directions": len(directions), "short": short}

    @classmethod
    def restore(cls, vectors: np.ndarray, arrays: Mapping[str, np.ndarray]) -> Self:
        directions = arrays["directions"]
        if directions.ndim != 2 or directions.shape[1] != vectors.shape[1]:
            raise StoreError("the search directions do not fit the label vectors")
        index = cls(vectors, directions, kept_count(arrays, "short"))
        index.recall = float(arrays["recall"][0])
        return index

    @property
    def products(self) -> int:
        """Multiplications that a query takes."""
        return int(self.codes.size + self.directions.size + self.short * self.vectors.shape[1])

    def state(self) -> dict[str, np.ndarray]:
        return {
            "directions": self.directions,
            "short": np.array([self.short]),
            "recall": np.array([self.recall]),
        }

    def _candidates(self, queries: np.ndarray, k: int) -> np.ndarray:
        size = min(max(self.short, k + _MARGIN), len(self.vectors))
        labels = np.full((len(queries), size), -1, np.int32)

        def block(start: int, stop: int) -> None:
            _shortlist(
                *(queries[start:stop], self.directions, self.steps, self.codes),
                labels[start:stop],
            )

        parallel_blocks(len(queries), block, block=32)
        return labels


def leading_directions(vectors: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """All directions, (dim, dim), those first in which vectors and queries are largest.

    Both count alike, whatever their lengths: a direction matters if it matters to either.
    """
    moments = np.zeros((vectors.shape[1], vectors.shape[1]))
    for rows in (vectors, queries):
        moment = (rows.T @ rows).astype(np.float64)
        moments += moment / max(float(np.trace(moment)), 1e-30)
    _, directions = np.linalg.eigh(moments)  # smallest first
    return np.asarray(directions.T[::-1], np.float32)


@njit(cache=True, nogil=True)
def _shortlist(queries, directions, steps, codes, labels):  # type: ignore[no-untyped-def]
    """The labels with the largest projected scores, by a heap whose root is the smallest kept."""
    size = labels.shape[1]
    kept = np.empty(size, np.int32)
    projected = np.empty(len(directions), np.float32)
    query = np.empty(len(directions), np.int16)
    for row in range(len(queries)):
        for j in range(len(directions)):
            projected[j] = dot(queries[row], directions[j])
        to_integers(projected, steps, query)
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
