"""Parameters as data: what is allowed, read from text, and named when wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest

from labelspace._core.suggest import unknown
from labelspace.errors import ParameterError
from labelspace.methods import parameters as declare
from labelspace.methods.parameters import plain


def integer(**options):
    return declare.integer("", default=1, **options)


def number(**options):
    return declare.number("", default=1.0, **options)


def flag(**options):
    return declare.flag("", default=True, **options)


def choice(*names, **options):
    return declare.choice("", *names, default=names[0], **options)


def numbers(**options):
    return declare.numbers("", default=(1.0,), **options)


def layers(**options):
    return declare.layers("", default=(), **options)


@pytest.mark.parametrize(
    ("parameter", "good", "bad"),
    [
        (integer(low=1, high=9), [1, 9], [0, 10, 1.5, "1", True, None]),
        (integer(none="x"), [None, -5], ["none", "auto", 10**31]),
        (integer(auto="x"), ["auto", 5], ["none", None]),
        (number(low=0.0), [0, 0.5, 1e30], [-0.1, 1e31, math.nan, math.inf, "1", True]),
        (
            numbers(low=0.0),
            [(1,), [0.5, 0.0]],
            [(), (-0.1,), (math.nan,), (1e31,), (True,), 0.5, "0.5", None],
        ),
        (flag(), [True, False], [1, "true", None]),
        (choice("a", "b"), ["a"], ["c", None, 1]),
        (layers(), [(), (512,), [64, 32]], [(0,), (1.5,), 512, "512"]),
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
        (integer(), "1_000", 1000),
        (integer(none="x"), "None", None),
        (integer(auto="x"), "AUTO", "auto"),
        (number(), "1e-3", 1e-3),
        (flag(), "yes", True),
        (flag(), "False", False),
        (choice("a", "b"), "b", "b"),
        (layers(), "512,256", (512, 256)),
        (layers(), "", ()),
        (numbers(), "1,0.5,2e-1", (1.0, 0.5, 0.2)),
        (numbers(none="x"), "none", None),
    ],
)
def test_parse(parameter, text, value):
    assert parameter.parse("p", text) == value


@pytest.mark.parametrize(
    ("parameter", "text"),
    [
        (integer(), "1.5"),
        (number(), "nan"),
        (flag(), "maybe"),
        (layers(), "a,b"),
        (numbers(), "1,,2"),
    ],
)
def test_parse_names_what_it_cannot_read(parameter, text):
    with pytest.raises(ParameterError, match=f"p='?{text}'?: expected"):
        parameter.parse("p", text)


def test_unknown_names_get_the_nearest_or_the_list():
    assert "did you mean 'neighbours'" in unknown("neighbors", "parameter", ["neighbours", "seed"])
    assert "there are: neighbours, seed" in unknown("zzz", "parameter", ["seed", "neighbours"])
    assert "did you mean 'knn'" in unknown("KNN", "method", ["knn", "linear"])


def test_numbers_of_numpy_are_taken_as_pythons():
    integer(low=1, high=9).check("p", np.int64(5))
    number(low=0.0).check("p", np.float32(0.5))
    flag().check("p", np.bool_(True))
    layers().check("p", (np.int64(512), 64))
    for parameter, bad in (
        (integer(high=9), np.int64(10)),
        (integer(), np.float32(1.0)),
        (integer(), np.bool_(True)),
        (number(), np.float32("nan")),
        (number(), np.datetime64("2024-01-01")),
        (layers(), (np.int64(0),)),
    ):
        with pytest.raises(ParameterError, match="p="):
            parameter.check("p", bad)
    given = plain(np.int64(5)), plain(np.float32(0.5)), plain((np.int64(3), 4)), plain("a")
    assert given == (5, 0.5, (3, 4), "a")
    assert [type(value) for value in (given[0], given[1], given[2][0])] == [int, float, int]
