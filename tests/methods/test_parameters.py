"""Parameters as data: what is allowed, read from text, and named when wrong."""

from __future__ import annotations

import math

import pytest

from labelspace.errors import ParameterError
from labelspace.methods.parameters import choice, flag, integer, layers, number, unknown


@pytest.mark.parametrize(
    ("parameter", "good", "bad"),
    [
        (integer("", low=1, high=9), [1, 9], [0, 10, 1.5, "1", True, None]),
        (integer("", none=True), [None, -5], ["none"]),
        (number("", low=0.0), [0, 0.5, 1e30], [-0.1, math.nan, math.inf, "1", True]),
        (flag(""), [True, False], [1, "true", None]),
        (choice("", "a", "b"), ["a"], ["c", None, 1]),
        (layers(""), [(), (512,), [64, 32]], [(0,), (1.5,), 512, "512"]),
    ],
)
def test_check(parameter, good, bad):
    for value in good:
        parameter.check("p", value)
    for value in bad:
        with pytest.raises(ParameterError, match="p="):
            parameter.check("p", value)


@pytest.mark.parametrize(
    ("parameter", "text", "value"),
    [
        (integer(""), "1_000", 1000),
        (integer("", none=True), "None", None),
        (number(""), "1e-3", 1e-3),
        (flag(""), "yes", True),
        (flag(""), "False", False),
        (choice("", "a", "b"), "b", "b"),
        (layers(""), "512,256", (512, 256)),
        (layers(""), "", ()),
    ],
)
def test_parse(parameter, text, value):
    assert parameter.parse("p", text) == value


@pytest.mark.parametrize(
    ("parameter", "text"),
    [(integer(""), "1.5"), (number(""), "nan"), (flag(""), "maybe"), (layers(""), "a,b")],
)
def test_parse_names_what_it_cannot_read(parameter, text):
    with pytest.raises(ParameterError, match=f"p='?{text}'?: expected"):
        parameter.parse("p", text)


def test_unknown_names_get_the_nearest_or_the_list():
    assert "did you mean 'neighbours'" in unknown("neighbors", "parameter", ["neighbours", "seed"])
    assert "there are: neighbours, seed" in unknown("zzz", "parameter", ["seed", "neighbours"])
