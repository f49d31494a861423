"""The same seed gives the same bits on any number of threads, where a method promises it.

Sizes are such that torch and BLAS do divide the work: they leave small tensors to one thread.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from scipy.sparse import random as random_sparse
from threadpoolctl import threadpool_limits

from labelspace.methods.registry import method_class

EXAMPLES, FEATURES = 700, 203

# Odd sizes: the ends of the threads' parts then lie within vector registers.
PROMISED = {
    "fusion": (131, {}),
    "dxml": (131, {"epochs": 2, "ensemble": 1, "hidden": (253,)}),
    "dual-encoder": (1501, {"epochs": 1, "batch_size": 255, "dim": 129}),
    "glas": (1501, {"epochs": 1, "batch_size": 255, "dim": 513}),
    "neuralxc": (501, {"epochs": 1, "batch_size": 255, "ensemble": 1, "input_layers": (257,)}),
    "treespace": (501, {"epochs": 1, "batch_size": 255, "dim": 129, "top_dim": 61, "width": 257}),
    "hyperbolic": (501, {"epochs": 1, "batch_size": 255}),
}


def data(n_labels):
    rng = np.random.default_rng(0)
    X = random_sparse(EXAMPLES, FEATURES, 0.1, format="csr", dtype=np.float32, random_state=1)
    scores = X @ rng.standard_normal((FEATURES, n_labels)).astype(np.float32)
    best = np.argsort(-scores, axis=1)[:, :3]
    ends = np.arange(EXAMPLES + 1) * 3
    Y = csr_matrix((np.ones(best.size, np.float32), best.ravel(), ends), (EXAMPLES, n_labels))
    return X, Y


def fitted(name, params, n_labels, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with threadpool_limits(threads, "blas"):
            return method_class(name)(**params).fit(*data(n_labels))
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("name", PROMISED)
def test_bits_do_not_depend_on_the_number_of_threads(name):
    n_labels, params = PROMISED[name]
    one, two = (fitted(name, params, n_labels, threads).state() for threads in (1, 2))
    assert one.keys() == two.keys()
    assert [key for key in one if not np.array_equal(one[key], two[key])] == []


def test_seq2seq_scores_hardly_depend_on_the_number_of_threads():
    params = {"epochs": 1, "width": 32, "layers": 1, "heads": 2, "beams": 4, "linear_tree": False}
    X, _ = data(31)
    one, two = (fitted("seq2seq", params, 31, threads).predict(X[:20], 5) for threads in (1, 2))
    assert np.abs(one.scores - two.scores).max() < 1e-3
