"""Targets of the paper's losses: points of label sets, made of DeepWalk vectors of the labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.dense import unit_array
from labelspace.errors import InputError
from labelspace.labels.deepwalk import deepwalk
from labelspace.labels.graph import cooccurrence_graph, taxonomy_graph

if TYPE_CHECKING:
    from labelspace.data.taxonomy import Taxonomy
    from labelspace.methods.dxml.method import DXML


def graph_vectors(model: DXML, Y: csr_matrix, taxonomy: Taxonomy | None) -> np.ndarray:
    """Return V, the DeepWalk vectors of the labels on the label graph, (labels, dim).

    Raises
    ------
    InputError
        If the graph is to be the taxonomy and there is none.
    """
    params = model.params_
    if params.graph == "cooccurrence":
        graph = cooccurrence_graph(Y, weights=params.graph_weights, seed=params.seed)
    elif taxonomy is None:
        raise InputError(
            "graph='taxonomy' needs a taxonomy and the data have none: "
            "pass one to fit, or set graph='cooccurrence'"
        )
    else:
        graph = taxonomy_graph(taxonomy)
    vectors = deepwalk(
        graph,
        params.dim,
        walks=params.walks,
        length=params.walk_length,
        window=params.window,
        negatives=params.negatives,
        unit=params.unit_targets,
        seed=params.seed,
    )
    return vectors[: Y.shape[1]]


def targets(Y: csr_matrix, vectors: np.ndarray, *, unit: bool = True) -> np.ndarray:
    """Return f_y = V y / nnz(y) of each row; with `unit` of length 1, as points have."""
    sums = np.asarray(Y @ vectors, np.float32)
    if unit:
        return unit_array(sums)
    sums /= np.maximum(np.diff(Y.indptr), 1).astype(np.float32)[:, None]
    return sums
