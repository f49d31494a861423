"""What every preset of every method has in common."""

from __future__ import annotations

import pytest
from sklearn.base import clone

from labelspace.methods.base import Method
from labelspace.methods.parameters import integer, number
from labelspace.methods.presets import Preset, chosen, preset, presets_of, stated
from labelspace.methods.registry import method_class, method_names

PRESETS = [
    (name, each) for name in method_names() for each in presets_of(method_class(name).parameters)
]
PAPER = Preset("As printed.", dim=stated(100, "section 4"), lr=chosen(0.5, "not given"))


class Declared(Method):
    """A method with a preset."""

    name = "declared"
    dim: int = integer("A dimension.", default=7)
    lr: float = number("A rate.", default=0.1)
    seed: int = integer("A seed.", default=0)
    preset: str | None = preset(
        paper=PAPER, paper_large=PAPER.but("As printed, large.", dim=stated(300, "section 4"))
    )


@pytest.mark.parametrize(("name", "chosen"), PRESETS)
def test_a_preset_sets_every_parameter_and_each_has_a_source(name, chosen):
    cls = method_class(name)
    preset = presets_of(cls.parameters)[chosen]
    assert set(preset.settings) == set(cls.parameters) - {"preset", "seed"}
    made = cls.create(preset=chosen)
    made.check_parameters()
    for key, setting in preset.settings.items():
        assert getattr(made, key) == setting.value, key
        assert len(setting.source) > 3, key
    assert made.preset == chosen


def test_names_of_presets_and_what_the_help_says():
    parameter = Declared.parameters["preset"]
    assert parameter.options == ("paper", "paper-large")
    assert "As printed, large." in parameter.sentence()


def test_a_parameter_given_beside_a_preset_has_precedence_even_if_it_is_the_default():
    made = Declared(preset="paper", dim=7)
    assert (made.dim, made.lr) == (7, 0.5)


def test_a_clone_and_scikit_learns_set_params_know_presets():
    copied = clone(Declared(preset="paper-large", lr=0.1))
    assert (copied.dim, copied.lr, copied.preset) == (300, 0.1, "paper-large")
    changed = Declared(lr=3.0).set_params(preset="paper", dim=9)
    assert (changed.dim, changed.lr) == (9, 0.5)
    assert Declared(preset="paper").set_params(lr=2.0).dim == 100


def test_an_unknown_preset_is_refused_by_the_check_and_not_by_the_constructor():
    made = Declared(preset="papper")
    assert made.dim == 7
    with pytest.raises(ValueError, match="paper, paper-large"):
        made.check_parameters()


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        (Preset("Too few.", dim=stated(1, "section 1")), "does not set lr"),
        (PAPER.but("Too many.", width=stated(1, "section 1")), "sets width"),
        (PAPER.but("Wrong.", dim=stated("many", "section 1")), "dim='many'"),
    ],
)
def test_a_preset_that_does_not_fit_its_method_is_an_error_of_the_declaration(broken, problem):
    body = {**{k: Declared.parameters[k] for k in ("dim", "lr")}, "preset": preset(paper=broken)}
    annotations = {"dim": int, "lr": float, "preset": str}
    with pytest.raises((TypeError, ValueError), match=problem):
        type("Broken", (Method,), {"__doc__": "A method.", "name": "broken",
                                   "__annotations__": annotations, **body})  # fmt: skip
