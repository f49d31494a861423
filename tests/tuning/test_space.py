"""The search space: what is drawn, and from which ranges."""

from __future__ import annotations

import pytest

from labelspace.components.training_data import Shape
from labelspace.methods.registry import method_class, method_names
from labelspace.tuning.space import SearchSpace

optuna = pytest.importorskip("optuna")

SHAPE = Shape(points=5000, features=3000, labels=400, feature_nnz=200_000, label_nnz=12_000)


def space_of(name, only=(), **given):
    return SearchSpace(method_class(name), given, SHAPE, tuple(only))


def draw(space, seed=0):
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    return space.draw(study.ask())


def tuned_methods():
    """Return the package's own methods that have something to search."""
    own = [n for n in method_names() if method_class(n).__module__.startswith("labelspace.")]
    return [name for name in own if name not in ("most-common", "random")]


@pytest.mark.parametrize("name", tuned_methods())
def test_what_is_drawn_are_parameters_of_the_method(name):
    pytest.importorskip("torch")
    space = space_of(name)
    space.check()
    for seed in range(5):
        drawn = draw(space, seed)
        assert drawn
        method_class(name).create(**space.parameters(drawn)).check_parameters()


def test_defaults_are_values_of_the_space():
    assert space_of("knn").defaults() == {"neighbours": 20, "power": 2.0}
    # "auto" is what it becomes on these data, if it is in the range.
    found = space_of("glas").defaults()
    assert found["dim"] == 512
    fusion = space_of("fusion").defaults()
    assert fusion["members"] == "auto"
    assert "linear.C" in fusion


def test_members_decide_which_parameters_are_drawn():
    of_linear = draw(space_of("fusion", members="linear,knn"))
    assert {"linear.C", "knn.neighbours"} <= of_linear.keys()
    assert not any(name.startswith(("dxml.", "hierarchicalxc.")) for name in of_linear)
    assert "members" not in of_linear
    given = draw(space_of("fusion", members="linear,knn", member_settings="linear.C=2"))
    assert not any("." in name for name in given)


def test_only_named_parameters_are_drawn():
    assert draw(space_of("linear", only=("C",))).keys() == {"C"}
    assert draw(space_of("linear", loss="logistic")).keys().isdisjoint({"loss"})


def test_members_that_use_label_texts_are_kept_in_every_choice():
    shape = Shape(
        points=5000, features=3000, labels=400, feature_nnz=200_000, label_nnz=12_000,
        match_nnz=9000,
    )  # fmt: skip
    lists = method_class("fusion").search_ranges(shape)["members"].values
    assert lists[0] == "auto"
    assert all(names.startswith("lexical,") for names in lists[1:])
