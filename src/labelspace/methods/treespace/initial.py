"""Where TreeSpace's training begins: what the data say before the first step."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.components.training_counts import MANY_EXAMPLES, RARE_PER_LABEL, row_lr_scale
from labelspace.methods.treespace.nodes import Nodes
from labelspace.methods.treespace.vectors import Layout, LevelEncoder
from labelspace.nn.encoder import unit_array


def feature_pace(rare: float | None, X: csr_matrix, Y: csr_matrix) -> np.ndarray | None:
    """As in `glas_rules`, but labels with few examples are left all of their rare features."""
    features = np.bincount(X.indices, minlength=X.shape[1])
    labels = np.bincount(Y.indices, minlength=Y.shape[1])
    mean = labels.sum() / max(1, np.count_nonzero(labels))
    chosen = RARE_PER_LABEL * mean**2 / MANY_EXAMPLES if rare is None else rare
    return row_lr_scale(chosen, features, labels)


def log_odds(nodes: Nodes, counts: np.ndarray) -> np.ndarray:
    """Of a node where its parent is given, from the examples of both."""
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
    """Where nodes begin, by space: in the directions of their examples' centroids."""
    points, found = encoder.encode(X)[1], []
    for space in range(len(layout.dims)):
        here = np.flatnonzero(layout.space == space)
        part = points[:, layout.starts[space] : layout.starts[space + 1]]
        sums = np.asarray(above[:, here].T @ part, np.float32)
        empty = np.abs(sums).max(axis=1, initial=0.0) == 0  # of rows without features
        sums[empty] = rng.standard_normal((int(empty.sum()), part.shape[1]), np.float32)
        found.append(unit_array(sums) * np.float32(encoder.geometry.start))
    return found
