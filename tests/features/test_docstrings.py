"""The examples in the docstrings of the features and of the engine run."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest

MODULES = ["engine.local", "features.hashing", "features.numbers", "features.pipeline"]
MODULES += ["features.spec", "features.tfidf"]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    failed, tried = doctest.testmod(import_module(f"labelspace.{name}"))
    assert tried
    assert not failed
