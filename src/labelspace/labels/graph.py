"""The label graph: which labels are neighbours, by shared examples or by a given taxonomy.

A graph is a symmetric CSR matrix without a diagonal, one row per node; its values are edge weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix

from labelspace.labels.cooccurrence import CooccurrenceTarget, Kind

if TYPE_CHECKING:
    from labelspace.data.taxonomy import Taxonomy


def cooccurrence_graph(
    Y: csr_matrix, *, weights: Kind | None = None, max_labels_per_row: int = 100, seed: int = 0
) -> csr_matrix:
    """Return the graph with an edge between labels that share an example (Zhang et al. 2018, 3.2).

    Parameters
    ----------
    Y : csr_matrix of shape (examples, labels)
    weights : str, optional
        A measure of `CooccurrenceTarget` as edge weights, so that walks prefer similar labels to
        mere hubs; by default every edge has weight 1.
    max_labels_per_row : int
        Of examples with more labels only so many, drawn by `seed`, make edges.
    seed : int
    """
    similarity = CooccurrenceTarget(
        Y, weights or "arithmetic", max_labels_per_row=max_labels_per_row, seed=seed
    ).U
    similarity.setdiag(0.0)
    return _as_graph(similarity, keep_weights=weights is not None)


def taxonomy_graph(taxonomy: Taxonomy) -> csr_matrix:
    """Return the graph with an edge between child and parent: labels first, then other nodes."""
    child, parent = taxonomy.edges.T
    ends = np.concatenate([child, parent]), np.concatenate([parent, child])
    ones = np.ones(2 * len(child), np.float32)
    return _as_graph(csr_matrix(coo_matrix((ones, ends), shape=(len(taxonomy),) * 2)))


def _as_graph(matrix: csr_matrix, keep_weights: bool = False) -> csr_matrix:
    matrix.eliminate_zeros()
    matrix.sort_indices()
    if not keep_weights:
        matrix.data[:] = 1.0
    return matrix
