"""The examples in docstrings give the output that they show."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest

MODULES = [
    "labelspace.errors",
    "labelspace.labels.propensity",
    "labelspace.methods.baselines",
    "labelspace.methods.fusion.method",
    "labelspace.methods.hierarchicalxc.method",
    "labelspace.methods.knn",
    "labelspace.methods.linear",
    "labelspace.methods.registry",
    "labelspace.metrics.ranking",
    "labelspace.metrics.reliability",
    "labelspace.metrics.thresholds",
    "labelspace.ranking",
    "labelspace.runs.callbacks",
    "labelspace.runs.history",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    result = doctest.testmod(import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
