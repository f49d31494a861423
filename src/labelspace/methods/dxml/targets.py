"""Label vectors of DXML, towards which examples are trained by some losses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.errors import InputError
from labelspace.labels.deepwalk import deepwalk
from labelspace.labels.graph import cooccurrence_graph, taxonomy_graph
from labelspace.nn.encoder import unit_array

if TYPE_CHECKING:
    from labelspace.data.taxonomy import Taxonomy
    from labelspace.methods.dxml.method import DXML


def label_points(method: DXML, Y: csr_matrix, taxonomy: Taxonomy | None) -> np.ndarray:
    """V: DeepWalk on the label graph that the method wants."""
    if method.params_.graph == "cooccurrence":
        weights = method.params_.graph_weights
        graph = cooccurrence_graph(Y, weights=weights, seed=method.params_.seed)
    elif taxonomy is None:
        raise InputError("graph='taxonomy' needs a taxonomy, and the data have none")
    else:
        graph = taxonomy_graph(taxonomy)
    vectors = deepwalk(
        graph,
        method.params_.dim,
        walks=method.params_.walks,
        length=method.params_.walk_length,
        window=method.params_.window,
        seed=method.params_.seed,
    )
    return vectors[: Y.shape[1]]


def place_labels(vectors: np.ndarray, Y: csr_matrix, points: np.ndarray) -> np.ndarray:
    """Label vectors with the new labels' behind them, as many as Y has columns.

    A new label goes to the mean of the known labels it occurs with in Y, or else to the mean of
    its examples' points; without examples it has none, and stays at zero.
    """
    known, new = len(vectors), Y[:, len(vectors) :]
    beside = csr_matrix(new.T) @ Y[:, :known]
    placed = np.asarray(beside @ vectors, np.float32)
    alone = np.diff(beside.indptr) == 0
    placed[alone] = np.asarray(new.T @ points)[alone]
    return np.vstack([vectors, unit_array(placed)])
