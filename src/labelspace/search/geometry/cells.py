"""Points in cells around random ones of them; only the cells nearest to a query are searched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np

from labelspace._core.compiled import loop
from labelspace._core.schema import Schema, ints
from labelspace._core.threads import parallel_blocks
from labelspace._core.top_k import keep_best
from labelspace.search.geometry.points import ExactNeighbours, NeighbourIndex, spread
from labelspace.search.index import MARGIN, kind_schema, stored_kind


class CellNeighbours(NeighbourIndex):
    """Points in cells around random ones of them; the `probes` nearest cells are searched.

    `points` are in the order of their cells: those of cell c are points[starts[c]:starts[c + 1]].
    """

    kind: ClassVar[str] = "cells"

    def __init__(
        self, points: np.ndarray, geometry: str, centres: np.ndarray, cell_of: np.ndarray
    ) -> None:
        """Group points by cell; centres: ids of the centres; cell_of: the cell of each point."""
        order = np.argsort(cell_of, kind="stable")
        super().__init__(np.ascontiguousarray(points[order]), geometry)
        self.names, self.cell_of = order, cell_of
        self.starts = np.searchsorted(cell_of[order], np.arange(len(centres) + 1))
        self.centres, self.around = centres, ExactNeighbours(points[centres], geometry)
        self.probes = 1

    @classmethod
    def build(cls, points: np.ndarray, geometry: str, cells: int, seed: int) -> Self:
        """Draw the centres of this number of cells and assign each point to the nearest."""
        drawn = np.random.default_rng(seed).choice(len(points), cells, replace=False)
        centres = np.sort(drawn)
        nearest, _ = ExactNeighbours(points[centres], geometry).search(points, 1)
        return cls(points, geometry, centres, nearest[:, 0].astype(np.int32))

    @classmethod
    def schema(cls, prefix: str, points: str) -> Schema:
        """Declare the arrays of `state`, for so many points."""
        return [
            *kind_schema(prefix, cls.kind),
            ints(f"{prefix}centres", f"{prefix}cells", limit=points),
            ints(f"{prefix}cell_of", points, limit=f"{prefix}cells"),
            ints(f"{prefix}probes", 1, low=1),
        ]

    @classmethod
    def restore(cls, points: np.ndarray, geometry: str, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the index whose `state` the arrays are."""
        index = cls(points, geometry, arrays["centres"], arrays["cell_of"])
        index.probes, index.recall = int(arrays["probes"][0]), float(arrays["recall"][0])
        return index

    def set_probes(self, probes: int) -> None:
        """Search this number of cells per query."""
        self.probes = probes

    def state(self) -> dict[str, np.ndarray]:
        return {
            "kind": stored_kind(self.kind),
            "centres": self.centres,
            "cell_of": self.cell_of,
            "probes": np.array([self.probes]),
            "recall": np.array([self.recall]),
        }

    def _candidates(self, queries: np.ndarray, k: int) -> np.ndarray:
        probed, _ = self.around.search(queries, min(self.probes, len(self.centres)))
        places = np.full((len(queries), min(k + MARGIN, len(self.points))), -1, np.int64)

        def block(start: int, stop: int) -> None:
            _scan_cells(
                *(queries[start:stop], self.points, self.weights, self.starts),
                *(probed[start:stop], places[start:stop]),
            )

        parallel_blocks(len(queries), block, block=16)
        return places


@loop
def _scan_cells(queries, points, weights, starts, probed, places):  # type: ignore[no-untyped-def]
    values = np.full(places.shape[1], -np.inf, np.float32)
    for row in range(len(queries)):
        query, best_places, filled = queries[row], places[row], 0
        for cell in probed[row]:
            for place in range(starts[cell], starts[cell + 1]):
                value = -weights[place] * spread(query, points[place])
                filled = keep_best(value, place, values, best_places, filled)
