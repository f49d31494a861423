"""Initial biases and vectors of TreeSpace, from counts and centroids of the training data."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.methods.treespace.nodes import Nodes
from labelspace.methods.treespace.vectors import Layout, LevelEncoder
from labelspace.nn.encoder import unit_array


def log_odds(nodes: Nodes, counts: np.ndarray) -> np.ndarray:
    """Return the log odds of each node given its parent, from the examples of both."""
    parents = counts[np.maximum(nodes.main, 0)]
    odds = (counts + 0.5) / (parents - counts + 0.5)
    return np.asarray(np.log(odds), np.float32)


def centroids(
    encoder: LevelEncoder,
    X: csr_matrix,
    layout: Layout,
    above: csr_matrix,
    rng: np.random.Generator,
) -> list[np.ndarray]:
    """Return the initial vectors of the nodes of each space: centroids of their examples."""
    points, found = encoder.encode(X)[1], []
    for space in range(len(layout.dims)):
        here = np.flatnonzero(layout.space == space)
        part = points[:, layout.starts[space] : layout.starts[space + 1]]
        sums = np.asarray(above[:, here].T @ part, np.float32)
        empty = np.abs(sums).max(axis=1, initial=0.0) == 0  # of rows without features
        sums[empty] = rng.standard_normal((int(empty.sum()), part.shape[1]), np.float32)
        found.append(unit_array(sums) * np.float32(encoder.geometry.start))
    return found
