"""Batches and parts of the data without labels, and a single example with one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.sparse import random as random_sparse

from labelspace.methods.registry import method_class

GLAS = {"epochs": 1, "batch_size": 8, "dim": 8}
TREE = {"epochs": 1, "batch_size": 8, "dim": 8, "top_dim": 4, "width": 8, "n_negatives": 1}
DXML = {"epochs": 1, "batch_size": 8, "dim": 8, "hidden": (), "ensemble": 1}
NEURAL = {"epochs": 1, "batch_size": 8, "input_layers": (8,), "output_layers": (8,), "ensemble": 1}
BALL = {"epochs": 1, "batch_size": 8, "dim": 4}

SETTINGS = [
    ("glas", {**GLAS, "regulariser": "glas"}),
    ("glas", {**GLAS, "regulariser": "spread-out"}),
    ("glas", {**GLAS, "regulariser": "gravity"}),
    ("glas", {**GLAS, "regulariser": "laplacian"}),
    ("glas", {**GLAS, "negatives": "in-batch"}),
    ("glas", {**GLAS, "negatives": "in-batch", "loss": "softmax"}),
    ("glas", {**GLAS, "negatives": "in-batch", "loss": "margin"}),
    ("glas", {**GLAS, "negatives": "in-batch", "loss": "mined-margin"}),
    ("treespace", TREE),
    ("treespace", {**TREE, "regularisation": 0.0, "consistency": 0.0, "linear_tree": False}),
    ("dxml", DXML),
    ("dxml", {**DXML, "loss": "triplet"}),
    ("neuralxc", NEURAL),
    ("neuralxc", {**NEURAL, "exact": 0, "samples": 1}),
    ("hyperbolic", {**BALL, "n_negatives": 0}),
    ("hyperbolic", {**BALL, "n_negatives": 0, "geometry": "euclidean"}),
    ("seq2seq", {"epochs": 1, "batch_size": 8, "width": 8, "layers": 1, "heads": 2, "beams": 2}),
]


@pytest.mark.parametrize("labelled", [[7], [1, 2, 3]])
@pytest.mark.parametrize(("name", "params"), SETTINGS)
def test_most_examples_may_lack_labels(name, params, labelled):
    X = random_sparse(33, 20, 0.3, format="csr", dtype=np.float32, random_state=3)
    Y = np.zeros((33, 6), np.float32)
    Y[labelled, [row % 6 for row in labelled]] = 1.0
    best = method_class(name)(**params).fit(X, csr_matrix(Y)).predict(X, 3)
    assert np.isfinite(best.scores).all()
