"""Descriptions of methods match the classes, and need no import of these."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from labelspace.methods import descriptions, registry
from labelspace.methods.base import Method
from labelspace.methods.descriptions import Description, describe, methods_with
from labelspace.methods.knn import KNN


@pytest.mark.parametrize("name", registry.method_names())
def test_the_description_matches_the_class(name):
    found = describe(name)
    assert replace(found, extra=None, package=None) == Description.of(registry.method_class(name))
    assert (found.extra is None) == (found.package is None)


@pytest.mark.parametrize("name", registry.method_names())
def test_capabilities_are_declared_where_they_are_implemented(name):
    cls = registry.method_class(name)
    assert cls.can_explain == (cls.explain is not Method.explain)
    assert cls.has_space == (cls.label_vectors_ is not Method.label_vectors_)
    assert cls.can_update == (cls._partial_fit is not Method._partial_fit)
    assert cls.can_rerank == (cls._rerank is not Method._rerank)
    assert cls.can_find_examples == (cls.nearest_examples is not Method.nearest_examples)
    assert cls.can_refit_grown == (cls.refit_grown is not Method.refit_grown)
    assert cls.can_compare_labels == (cls.similar_labels is not Method.similar_labels)


def test_methods_with_a_capability_are_those_installed(monkeypatch):
    assert methods_with("explain") == "dual-encoder, fusion, glas, labeltext, lexical, linear"
    assert methods_with("map") == "dual-encoder, dxml, fusion, glas, hyperbolic"
    assert methods_with("neighbours") == "dxml, fusion, knn"
    monkeypatch.setattr(descriptions, "find_spec", lambda _: None)
    assert methods_with("explain") == "fusion, labeltext, lexical, linear"


def test_the_extras_are_what_the_modules_import():
    script = """
import sys
from labelspace.errors import MissingExtraError
from labelspace.methods.registry import method_class, method_names
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
sys.meta_path.insert(0, Absent())
for name in method_names():
    try:
        method_class(name)
    except MissingExtraError:
        print(name)
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300
    )
    needing = {name for name in registry.method_names() if describe(name).extra is not None}
    assert set(ended.stdout.split()) == needing


def test_a_registered_method_is_described_by_its_class(monkeypatch):
    class Mine(KNN):
        name = "mine"
        summary = "my own"

    monkeypatch.setitem(registry._registered, "mine", Mine)
    assert describe("mine") == Description("my own", update=True, neighbours=True)


def test_the_list_imports_no_method():
    script = """
import sys
from labelspace.cli.app import app
app(["methods", "--json"], standalone_mode=False)
heavy = {"torch", "sklearn", "numba", "scipy"} & sys.modules.keys()
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=300, capture_output=True)
