"""Nearest points by 4-bit codes of their coordinates, then exactly.

faiss keeps of every few coordinates of a point which of 16 typical values they are near to, and a
query's flat distances to those are looked up in registers, 32 points at a time. What is nearest in
hyperbolic or spherical space need not be nearest by flat distance, but is among the some hundred
that are; how many it takes is measured, and they are ranked by the true distance.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import ClassVar, Self

import numpy as np

from labelspace._core.checks import kept_count
from labelspace.errors import StoreError
from labelspace.search.geometry.points import ExactNeighbours, NeighbourIndex, shares_found
from labelspace.search.quantised import N_TYPICAL, coded, learn_typical, padded
from labelspace.search.tuning import measured, reaches

_PIECES = (2, 1)  # coordinates that share a code
_SHORT_LISTS = (64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)
_LONGEST = 1 / 16  # of all points that a short list may hold
_FULL_LOOK = 15_000  # codes are read in the time that a point on the short list takes


class CodedNeighbours(NeighbourIndex):
    """Looks at the codes of all points, and at the `short` nearest by these in full.

    typical  (pieces, 16, coordinates of a piece): what the codes stand for
    """

    kind: ClassVar[str] = "codes"

    def __init__(self, points: np.ndarray, geometry: str, typical: np.ndarray) -> None:
        super().__init__(points, geometry)
        self.typical = np.ascontiguousarray(typical, np.float32)
        self._codes = coded(points, self.typical, by_distance=True)
        self.short = _SHORT_LISTS[0]

    @classmethod
    def restore(cls, points: np.ndarray, geometry: str, arrays: Mapping[str, np.ndarray]) -> Self:
        typical = arrays["typical"]
        fits = typical.ndim == 3 and typical.shape[1] == N_TYPICAL and typical.shape[2] >= 1
        if not fits or len(typical) != -(-points.shape[1] // typical.shape[2]):
            raise StoreError("the search codes do not fit the points")
        index = cls(points, geometry, typical)
        index.short, index.recall = kept_count(arrays, "short"), float(arrays["recall"][0])
        return index

    def state(self) -> dict[str, np.ndarray]:
        return {
            "typical": self.typical,
            "short": np.array([self.short]),
            "recall": np.array([self.recall]),
        }

    def _candidates(self, queries: np.ndarray, k: int) -> np.ndarray:
        size = min(max(self.short, 2 * k), len(self.points))
        found = self._codes.search(padded(queries, self.typical.shape[2]), size)[1]
        return np.asarray(found, np.int64)


def choose_codes(
    exact: ExactNeighbours, queries: np.ndarray, given: int, k: int, recall: float, seed: int
) -> tuple[CodedNeighbours, bool]:
    """The cheapest codes and short list that reach the recall; False, and the last, if none do."""
    points, built = exact.points, dict[int, CodedNeighbours]()
    worthwhile = [short for short in _SHORT_LISTS if short <= _LONGEST * len(points)]
    settings = list(product(_PIECES, worthwhile or _SHORT_LISTS[:1]))

    def cost(setting: tuple[int, int]) -> float:
        piece, short = setting
        return float(points.size / piece + _FULL_LOOK * short)

    for piece, short in sorted(settings, key=cost):
        if piece not in built:
            typical = learn_typical(points, piece, seed)
            built[piece] = CodedNeighbours(points, exact.geometry, typical)
        index = built[piece]
        index.short = short
        found = shares_found(index, exact, queries, k)
        index.recall = measured(found, given)
        if reaches(found, recall, given):
            return index, bool(worthwhile)
    return index, False
