"""What every method's parameters have in common: help, documentation and the values of "auto"."""

from __future__ import annotations

import inspect
import re

import pytest

from labelspace.components.training_data import Shape
from labelspace.methods.base import Method
from labelspace.methods.parameters import AUTO, integer, is_auto
from labelspace.methods.registry import method_class, method_names
from support.planted import planted

MAX_USUAL = 8  # parameters that `labelspace methods NAME` shows without --all
SHAPES = {
    "one example": Shape(1, 1, 1, 1, 1),
    "no features": Shape(3, 0, 2, 0, 2),
    "a few examples": Shape(6, 40, 12, 30, 9, labels_with_examples=5),
    "few labels": Shape(5000, 2000, 150, 300_000, 12_000, label_pairs=40_000),
    "dense features": Shape(18_000, 20_000, 11_000, 2_000_000, 100_000, common_features=64),
    "more labels than examples": Shape(2000, 5000, 300_000, 100_000, 6000),
    "many examples": Shape(400_000, 50_000, 20_000, 10**7, 10**6),
    "three million labels": Shape(2_000_000, 10**6, 3_000_000, 2 * 10**8, 10**8),
}


@pytest.fixture(params=method_names())
def cls(request):
    return method_class(request.param)


@pytest.fixture(params=SHAPES.values(), ids=SHAPES)
def shape(request):
    return request.param


def test_few_parameters_are_usual(cls):
    usual = [name for name, parameter in cls.parameters.items() if parameter.group == "usual"]
    assert "seed" in usual
    assert len(usual) <= MAX_USUAL


def test_help_is_a_sentence(cls):
    for name, parameter in cls.parameters.items():
        assert re.fullmatch(r"[A-Z][^\n]*\.", parameter.help), name
        # `Parameter.sentence` adds the full stop of these.
        assert not (parameter.auto or "").endswith("."), name
        assert not (parameter.none or "").endswith("."), name


def test_the_docstring_lists_all_parameters_with_their_help(cls):
    lines = inspect.getdoc(cls).splitlines()
    assert lines[0].endswith(".")
    start = lines.index("Parameters") + 2
    ends = [i for i, line in enumerate(lines) if i > start and line and set(line) == {"-"}]
    section = lines[start : ends[0] - 1 if ends else None]
    headings = [line.partition(" : ")[0] for line in section if line and not line.startswith(" ")]
    assert headings == list(cls.parameters)
    text = " ".join(" ".join(section).split())
    for parameter in cls.parameters.values():
        assert " ".join(parameter.sentence().split()) in text


def test_auto_becomes_a_value_unless_training_tunes_it(cls, shape):
    for params in (cls().get_params(), every_auto(cls)):
        resolved = cls.resolve(params, shape)
        assert resolved.keys() == cls.parameters.keys()
        for name, value in resolved.items():
            assert not is_auto(value) or cls.parameters[name].tuned, name
        cls().check_resolved(resolved)


def every_auto(cls):
    """Return the parameters with "auto" for all that allow it."""
    allowed = {name: AUTO for name, own in cls.parameters.items() if own.auto is not None}
    return {**cls().get_params(), **allowed}


def test_values_that_were_given_are_kept(cls, shape):
    given = {
        name: own.default if own.low is None else type(own.low)(max(own.low, 1))
        for name, own in cls.parameters.items()
        if own.kind == "integer" and own.auto is not None
    }
    resolved = cls.resolve({**cls().get_params(), **given}, shape)
    assert {name: resolved[name] for name in given} == given


def test_resolving_twice_changes_nothing(cls, shape):
    resolved = cls.resolve(cls().get_params(), shape)
    assert cls.resolve(resolved, shape) == resolved


def test_memory_is_estimated_from_resolved_parameters_alone(cls, shape):
    needs = cls.memory(shape, cls.resolve(cls().get_params(), shape))
    assert all(isinstance(size, int) and size >= 0 for size in needs.values())
    assert sum(needs.values()) > 0


def test_the_fitted_parameters_are_the_resolved_ones():
    X, Y = planted()
    for name in ("knn", "linear", "hierarchicalxc", "most-common"):
        model = method_class(name)().fit(X, Y)
        assert vars(model.params_) == model.resolve(model.get_params(), Shape.of(X, Y))


def test_a_method_that_does_not_resolve_a_parameter_is_an_error():
    class Unresolved(Method):
        """Forgets to resolve."""

        name = "unresolved"
        size: int = integer("A size.", default=AUTO, auto="never")

    with pytest.raises(NotImplementedError, match="unresolved does not resolve size"):
        Unresolved.resolve({"size": AUTO}, SHAPES["few labels"])
    assert Unresolved.resolve({"size": 3}, SHAPES["few labels"]) == {"size": 3}
