"""Data and parameters at the edge give a model with finite numbers, or an error of ours."""

from __future__ import annotations

import pytest

from labelspace.errors import ParameterError
from labelspace.methods.registry import method_class, method_names
from support.degenerate import data_sets, wrong_with
from support.planted import planted
from support.small import SMALL

SETS = data_sets()
QUICKLY = {"epochs": 1, "ensemble": 1}


@pytest.mark.parametrize("name", method_names())
def test_degenerate_data(name):
    declared = method_class(name).parameters
    quickly = {key: value for key, value in QUICKLY.items() if key in declared}
    wrong = {what: wrong_with(name, X, Y, quickly) for what, (X, Y) in SETS.items()}
    assert {what: found for what, found in wrong.items() if found} == {}


def test_numbers_beyond_what_training_computes_with_are_refused():
    X, Y = planted(70)
    refused = 0
    for name in method_names():
        for parameter, declared in method_class(name).parameters.items():
            if declared.kind == "number" and declared.high is None:
                model = method_class(name)(**{**SMALL.get(name, {}), parameter: 1e200})
                with pytest.raises(ParameterError, match=f"{parameter}=1e\\+200: expected"):
                    model.fit(X, Y)
                refused += 1
    assert refused > 20
