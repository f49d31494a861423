"""What is done where faiss is not installed: refused before training, or exact search."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace.errors import MissingExtraError
from labelspace.methods.registry import method_class
from labelspace.runs.callbacks import Callback
from labelspace.search import build
from labelspace.search.build import build_index
from labelspace.search.geometry.build import build_neighbours as build_points
from labelspace.search.neighbours.build import build_neighbours
from support.planted import planted


@pytest.fixture(autouse=True)
def _no_faiss(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)


class NothingTrained(Callback):
    def on_start(self, run):
        raise AssertionError(f"training began: {run}")


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("dxml", {"search": "quantised"}),
        ("hyperbolic", {"search": "codes"}),
    ],
)
def test_a_search_that_needs_faiss_is_refused_before_training(name, params):
    with pytest.raises(MissingExtraError, match=r"labelspace\[neural\]"):
        method_class(name)(**params).fit(*planted(), callbacks=[NothingTrained()])


@pytest.mark.parametrize("name", ["dxml", "glas", "neuralxc"])
def test_data_that_will_need_faiss_are_refused_before_training(name, monkeypatch):
    monkeypatch.setattr(build, "_MOST_PROJECTED", 5)
    monkeypatch.setattr(build, "_EXACT_PRODUCTS", 10)
    with pytest.raises(MissingExtraError, match=r"labelspace\[neural\]"):
        method_class(name)().fit(*planted(), callbacks=[NothingTrained()])


def test_search_among_some_ten_thousand_does_without():
    vectors = np.random.default_rng(0).standard_normal((2500, 1024)).astype(np.float32)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    queries = vectors[:20]
    assert build_index(vectors, recall=1.0).search(queries, 1)[0].ravel().tolist() == [*range(20)]
    found, _ = build_neighbours(unit, 5).search(queries, 1)
    assert found.ravel().tolist() == [*range(20)]
    found, _ = build_points(vectors, "euclidean").search(queries, 1)
    assert found.ravel().tolist() == [*range(20)]


def test_hyperbolic_trains_without():
    X, Y = planted()
    method = method_class("hyperbolic")(dim=8, epochs=1)
    assert method.fit(X, csr_matrix(Y)).predict(X, 2).labels.shape == (X.shape[0], 2)
