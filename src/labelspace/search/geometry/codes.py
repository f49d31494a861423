"""Nearest points by 4-bit codes of their coordinates, then exactly.

What is nearest in hyperbolic or spherical space need not be nearest by Euclidean distance, but is
among the some hundred that are; how many it takes is measured, and these are reranked by the true
distance.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import ClassVar, Self

import numpy as np

from labelspace.search.geometry.points import NeighbourIndex
from labelspace.search.product_codes import (
    ProductCodes,
    code_state,
    stored_codebook,
    train_codebook,
)
from labelspace.search.tuning import Tuner

_SUBDIMS = (2, 1)  # coordinates that share a code of 4 bits
# Finer steps than those of label indexes: reranking takes most of the time here.
_RERANK_SIZES = (64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)
_LARGEST_SHARE = 1 / 16  # of all points that may be reranked
_RERANK_COST = 15_000  # codes are scanned in the time that reranking of one point takes


class CodedNeighbours(NeighbourIndex):
    """Scans the 4-bit codes of all points and reranks the `rerank_size` nearest by these."""

    kind: ClassVar[str] = "codes"

    def __init__(
        self,
        points: np.ndarray,
        geometry: str,
        codebook: np.ndarray,
        known: np.ndarray | None = None,
    ) -> None:
        """Encode the points, unless their codes are `known`."""
        super().__init__(points, geometry)
        self.codes = ProductCodes(
            points, codebook, by_distance=True, known=known, n_known=len(points)
        )
        self.rerank_size = _RERANK_SIZES[0]

    @classmethod
    def restore(cls, points: np.ndarray, geometry: str, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the index whose `state` the arrays are."""
        codebook = stored_codebook(arrays, points.shape[1])
        index = cls(points, geometry, codebook, arrays.get("codes"))
        index.rerank_size = int(arrays["rerank_size"][0])
        index.recall = float(arrays["recall"][0])
        return index

    def state(self) -> dict[str, np.ndarray]:
        return code_state(self.kind, self.codes, self.rerank_size, self.recall)

    def _candidates(self, queries: np.ndarray, k: int) -> np.ndarray:
        size = min(max(self.rerank_size, 2 * k), len(self.points))
        return self.codes.candidates(queries, size).astype(np.int64)


def choose_codes(
    points: np.ndarray, geometry: str, tuner: Tuner, seed: int
) -> tuple[CodedNeighbours, bool]:
    """Return the cheapest codes that reach the recall and True; the last one and False if none do.

    Where all sizes are too large to be quicker than exact search, False is returned too.
    """
    built = dict[int, CodedNeighbours]()
    worthwhile = [size for size in _RERANK_SIZES if size <= _LARGEST_SHARE * len(points)]
    settings = product(_SUBDIMS, worthwhile or _RERANK_SIZES[:1])

    def cost(setting: tuple[int, int]) -> float:
        subdim, rerank_size = setting
        return float(points.size / subdim + _RERANK_COST * rerank_size)

    for subdim, rerank_size in sorted(settings, key=cost):
        if subdim not in built:
            codebook = train_codebook(points, subdim, seed)
            built[subdim] = CodedNeighbours(points, geometry, codebook)
        index = built[subdim]
        index.rerank_size = rerank_size
        if tuner.reached_by(index):
            return index, bool(worthwhile)
    return index, False
