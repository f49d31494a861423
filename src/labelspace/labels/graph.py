"""The label graph: edges between labels that share examples, or those of a given taxonomy.

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
        Measure of `CooccurrenceTarget` that gives the edge weights, so that walks prefer similar
        labels to frequent ones; by default every edge has weight 1.
    max_labels_per_row : int
        Number of labels per example that make edges; of more, a sample is drawn.
    seed : int
        Seed of that sample.

    Returns
    -------
    csr_matrix of shape (labels, labels)

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_matrix
    >>> Y = csr_matrix(np.array([[1, 1, 0], [0, 0, 1]], np.float32))
    >>> cooccurrence_graph(Y).toarray()
    array([[0., 1., 0.],
           [1., 0., 0.],
           [0., 0., 0.]], dtype=float32)
    """
    similarity = CooccurrenceTarget(
        Y, weights or "arithmetic", max_labels_per_row=max_labels_per_row, seed=seed
    ).U
    similarity.setdiag(0.0)
    return _as_graph(similarity, keep_weights=weights is not None)


def taxonomy_graph(taxonomy: Taxonomy) -> csr_matrix:
    """Return the graph with an edge between each child and its parent, of weight 1.

    Parameters
    ----------
    taxonomy : Taxonomy

    Returns
    -------
    csr_matrix of shape (nodes, nodes)
        The first nodes are the labels.
    """
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
