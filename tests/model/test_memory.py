"""Memory is estimated before it is used."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace.components.training_data import Shape
from labelspace.errors import MemoryBudgetError
from labelspace.labels.cooccurrence import CooccurrenceTarget
from labelspace.methods.knn import KNN
from labelspace.methods.registry import method_class
from labelspace.model import memory

SMALL = Shape(100, 50, 20, 500, 200)
HUGE = Shape(10**9, 10**9, 10**9, 10**13, 10**10)


def test_what_fits_passes_and_what_does_not_is_refused_in_words():
    memory.refuse_if_too_large(KNN(), SMALL)
    with pytest.raises(MemoryBudgetError, match=r"training knn needs about [\d.]+ TB more"):
        memory.refuse_if_too_large(KNN(), HUGE)


def test_the_shape_of_a_file_that_claims_many_features_is_found_in_little_memory():
    X = csr_matrix((np.ones(2, np.float32), [5, 1_999_999_999], [0, 2]), shape=(1, 2 * 10**9))
    Y = csr_matrix(np.ones((1, 1), np.float32))
    tracemalloc.start()
    shape = Shape.of(X, Y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10**6
    assert (shape.features, shape.feature_nnz, shape.common_features) == (2 * 10**9, 2, 2)


def test_dense_features_have_the_shape_of_sparse_ones():
    X = np.array([[1, 0, 2], [1, 0, 0]], np.float32)
    Y = csr_matrix(np.eye(2, dtype=np.float32))
    assert Shape.of(X, Y) == Shape.of(csr_matrix(X), Y)


def test_a_few_examples_with_many_labels_are_seen_by_the_estimate_of_a_label_graph():
    rng = np.random.default_rng(0)
    lengths = np.where(np.arange(2000) < 20, 100, 1)  # one in a hundred
    labels = np.concatenate([rng.choice(5000, many, replace=False) for many in lengths])
    rows = np.repeat(np.arange(2000), lengths)
    Y = csr_matrix((np.ones(len(rows), np.float32), (rows, labels)), shape=(2000, 5000))
    kept = CooccurrenceTarget(Y).U
    cells = Shape.of(Y, Y).cooccurrences()
    assert kept.nnz <= cells < 2 * kept.nnz
    mean = Shape(2000, 5000, 5000, Y.nnz, Y.nnz).cooccurrences()
    assert mean < kept.nnz / 5  # the estimate without reading single examples


def test_methods_that_keep_a_point_of_every_example_are_refused_where_these_do_not_fit(monkeypatch):
    glas = method_class("glas")(dim=1024, neighbours=0)
    shape = Shape(3_000_000, 1000, 1000, 10**7, 10**7)
    monkeypatch.setattr(memory, "available_bytes", lambda: 8 * 10**9)
    with pytest.raises(MemoryBudgetError, match=r"most of it is for points of all examples"):
        memory.refuse_if_too_large(glas, shape)


@pytest.mark.parametrize(
    ("name", "given", "free", "parameter"),
    [
        ("glas", {"dim": 1024}, 20 * 10**9, "dim"),
        ("fusion", {"members": "knn,linear,dxml"}, 40 * 10**9, "members"),
    ],
)
def test_the_parameter_that_would_make_it_fit_is_named(monkeypatch, name, given, free, parameter):
    method = method_class(name)(**given)
    shape = Shape(10**6, 10**6, 10**6, 10**8, 10**7)
    values = memory.fitting_values(method, shape, free)
    assert parameter in values
    monkeypatch.setattr(memory, "available_bytes", lambda: free)
    with pytest.raises(MemoryBudgetError, match=f"it would fit with .*--set {parameter}="):
        memory.refuse_if_too_large(method, shape)
    for setting, value in values.items():  # each by itself, and not more than is needed
        memory.refuse_if_too_large(method_class(name)(**{**given, setting: value}), shape)


def test_where_no_parameter_helps_that_is_said():
    with pytest.raises(MemoryBudgetError, match="no single parameter makes it fit"):
        memory.refuse_if_too_large(KNN(), HUGE)
