"""The method that CONTRIBUTING.md adds works, and keeps the contract of methods."""

from __future__ import annotations

import doctest
import importlib.util
import inspect
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.preprocessing import normalize

from contract import test_contract, test_parameters
from labelspace.components.training_data import Shape
from labelspace.methods import registry
from labelspace.methods.descriptions import Description, describe
from support.planted import planted

PAGE = Path(__file__).resolve().parents[1] / "CONTRIBUTING.md"
NAME = "nearest-centroid"


@pytest.fixture(scope="module")
def cls(tmp_path_factory):
    """Import the code of the page as a module, and register its method."""
    page = PAGE.read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    file = tmp_path_factory.mktemp("added") / "nearest_centroid.py"
    file.write_text(code, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("nearest_centroid", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules["nearest_centroid"] = module
    spec.loader.exec_module(module)
    yield registry.register(module.NearestCentroid)
    del registry._registered[NAME], sys.modules["nearest_centroid"]


def promises(module, fixtures):
    """Return the contract tests that need no fixture but these."""
    return [
        test
        for name, test in vars(module).items()
        if name.startswith("test_") and inspect.signature(test).parameters.keys() <= fixtures
    ]


@pytest.mark.parametrize(
    "promise",
    promises(test_contract, {"method", "data", "tmp_path", "monkeypatch"}),
    ids=lambda promise: promise.__name__,
)
def test_it_keeps_the_contract(cls, promise, tmp_path, monkeypatch):
    given = {"method": cls(), "data": planted(), "tmp_path": tmp_path, "monkeypatch": monkeypatch}
    promise(**{name: given[name] for name in inspect.signature(promise).parameters})


@pytest.mark.parametrize("shape", test_parameters.SHAPES.values(), ids=test_parameters.SHAPES)
def test_its_parameters_keep_the_contract(cls, shape):
    for promise in promises(test_parameters, {"cls", "shape"}):
        given = {"cls": cls, "shape": shape}
        promise(**{name: given[name] for name in inspect.signature(promise).parameters})
    assert cls.resolve(cls().get_params(), shape)["prune"] == (0.01 if shape.labels > 10**4 else 0)


def test_it_ranks_by_the_cosine_to_the_mean_of_unit_examples(cls):
    X, Y = planted()
    means = normalize(Y.toarray().T @ normalize(X.toarray()))
    cosines = normalize(X.toarray()) @ means.T
    found = cls().fit(X, Y).predict(X, 3)
    np.testing.assert_allclose(found.scores, -np.sort(-cosines, axis=1)[:, :3], atol=1e-5)
    pruned = cls(prune=0.3).fit(X, Y)
    assert 0 < pruned.centroids_.nnz < cls().fit(X, Y).centroids_.nnz
    assert np.abs(pruned.centroids_.data).min() >= 0.3


def test_its_docstring_and_description(cls):
    module = sys.modules["nearest_centroid"]
    result = doctest.testmod(module)
    assert (result.attempted, result.failed) == (2, 0)
    assert "prune : a number from 0 to 1 or auto, default auto" in cls.__doc__
    assert describe(NAME) == Description("labels whose mean example is closest")


def test_the_lines_that_register_it_are_right(cls):
    page = PAGE.read_text("utf-8")
    line = re.search(r'^    "([\w-]+)": "([\w.]+):(\w+)",$', page, re.MULTILINE)
    assert line.groups() == (cls.name, "labelspace.methods.nearest_centroid", cls.__name__)
    assert f'"{cls.name}": Description("{cls.summary}"),' in page
    assert f"import {cls.__name__} as {cls.__name__}\n" in page


def test_its_memory_estimate_covers_its_arrays(cls):
    X, Y = planted(400)
    model = cls().fit(X, Y)
    shape = Shape.of(X, csr_matrix(Y))
    needed = cls.memory(shape, vars(model.params_))["centroids"]
    assert needed >= sum(array.nbytes for array in model.state().values())
