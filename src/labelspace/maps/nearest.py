"""The nearest labels of each label, in the space of a model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from labelspace.search.geometry.build import build_neighbours

RECALL = 0.95  # of the true nearest labels, for models with many
_FEWEST_CODED = 22_500  # labels from which on approximate search is faster


class Near(NamedTuple):
    """The nearest labels of each, in the space of all dimensions; -1 and inf pad a row."""

    labels: np.ndarray
    distances: np.ndarray


def nearest_labels(vectors: np.ndarray, geometry: str, k: int) -> Near:
    """Return the k nearest labels of each label, without itself."""
    n = len(vectors)
    # Fewer than for examples: here every point is a query too.
    kind = "codes" if n >= _FEWEST_CODED else "exact"
    index = build_neighbours(vectors, geometry, kind=kind, k=k + 1, recall=RECALL)
    if index.recall < RECALL:
        index = build_neighbours(vectors, geometry, kind="exact")
    found, distances = index.search(vectors, k + 1)
    own = found == np.arange(n)[:, None]
    own[~own.any(axis=1), -1] = True  # among many equal points the label itself may be missing
    return Near(
        found[~own].reshape(n, k).astype(np.int32),
        distances[~own].reshape(n, k).astype(np.float32),
    )
