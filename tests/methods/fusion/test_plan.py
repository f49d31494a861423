"""Members of a fusion: those that suit the data, and no more than the time allows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace.components.training_data import Shape
from labelspace.methods.fusion import plan as fusion_members
from labelspace.methods.fusion.method import Fusion
from labelspace.methods.fusion.plan import Clock, Step, briefer, longer, shorter, space, steps
from labelspace.methods.registry import method_class
from support.planted import planted

FEW = Shape(5000, 2000, 150, 300_000, 12_000)
SHOP = Shape(18_000, 20_000, 11_000, 200_000, 100_000)
MORE = Shape(100_000, 50_000, 20_000, 10**6, 10**6)
RARE = Shape(100_000, 50_000, 20_000, 10**6, 10**5)
MANY = Shape(500_000, 10**6, 10**5, 10**8, 10**6)


def names(members, shape):
    return [step.name for step in steps(members, shape)]


def test_members_suit_the_size_of_the_data_or_are_named():
    assert names("auto", FEW) == ["linear", "dxml"]
    assert names("auto", SHOP) == ["hierarchicalxc", "knn", "linear"]
    assert names("auto", MORE) == ["dxml", "linear"]
    assert names("auto", RARE) == ["hierarchicalxc", "knn", "linear"]
    assert names("auto", MANY) == ["hierarchicalxc", "knn", "linear"]
    assert names("knn, linear", FEW) == ["knn", "linear"]


@pytest.mark.parametrize(
    ("shape", "expected", "common"),
    [
        (SHOP, ["hierarchicalxc", "knn", "dxml", "linear"], 0.5),
        (RARE, ["hierarchicalxc", "knn", "linear"], 0.5),
        (replace(SHOP, features=100), ["hierarchicalxc", "knn", "linear"], None),
    ],
)
def test_with_dense_features_beside_sparse_ones_raw_neighbours_leave_them_out(
    shape, expected, common
):
    plan = steps("auto", replace(shape, common_features=64))
    assert [step.name for step in plan] == expected
    knn = next(step for step in plan if step.name == "knn")
    assert knn.settings.get("max_document_frequency") == common


def test_common_features_are_those_that_more_than_half_of_the_examples_have():
    X = csr_matrix(np.array([[1, 1, 0], [1, 1, 0], [1, 0, 2], [1, 0, 0]]))
    assert Shape.of(X, X).common_features == 1


@pytest.mark.parametrize("shape", [FEW, SHOP, MORE, RARE, MANY])
def test_what_judges_follows_what_finds_and_can_judge(shape):
    first, *others = steps("auto", shape)
    assert not first.can_rerank
    assert all(method_class(step.name).can_rerank for step in others if step.can_rerank)
    for plan in longer([first, *others], shape):
        assert plan[: 1 + len(others)] == [first, *others]
    assert not any(step.can_rerank for step in shorter(shape))


def test_a_space_has_more_passes_over_fewer_examples():
    epochs = [space(n).settings["epochs"] for n in (1, 5000, 12_000, 24_000, 290_000)]
    assert epochs == [30, 30, 25, 12, 5]
    assert steps("auto", FEW)[1].settings["epochs"] == 30


def test_with_less_time_a_space_sees_the_examples_less_often():
    linear, dxml = steps("auto", FEW)
    half, quarter = briefer([linear, dxml])
    assert half[0] == quarter[0] == linear
    assert [plan[1].settings["epochs"] for plan in (half, quarter)] == [15, 8]
    assert [plan[1].cost / dxml.cost for plan in (half, quarter)] == [0.5, 0.25]


@pytest.mark.parametrize(("seconds", "epochs"), [(1000.0, 30), (15.0, 30), (13.0, 15), (8.0, 8)])
def test_a_plan_is_cut_as_short_as_the_time_asks(seconds, epochs, monkeypatch):
    monkeypatch.setattr(fusion_members.time, "monotonic", lambda: 0.0)
    clock = Clock(seconds)
    clock.tree = 1.0  # classifiers 2.5 s, twice; a space 9 s
    plan = Fusion(budget=seconds)._plan(clock, FEW)
    assert [step.name for step in plan[:2]] == ["linear", "dxml"]
    assert plan[1].settings["epochs"] == epochs
    assert (len(plan) > 2) == (seconds == 1000.0)


def test_without_torch_there_is_no_learned_space(monkeypatch):
    monkeypatch.setattr(fusion_members, "find_spec", lambda _: None)
    assert names("auto", FEW) == ["linear", "knn"]
    assert names("auto", MORE) == ["hierarchicalxc", "knn", "linear"]
    assert {step.name for step in shorter(FEW)} == {"knn", "linear", "hierarchicalxc"}


def test_a_member_is_taken_while_it_fits(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(fusion_members.time, "monotonic", lambda: now[0])
    clock = Clock(60.0)
    clock.tree = 2.0
    assert clock.allows(Step("a", {}, 10.0), twice=False)  # 20 s of 60
    now[0] += 25.0
    assert clock.allows(Step("b", {}, 5.0), twice=True)  # 20 s of the 35 left
    now[0] += 10.0
    assert not clock.allows(Step("c", {}, 8.0), twice=False)  # 25 left, of which 10 are promised
    assert clock.allows(Step("d", {}, 7.0), twice=False)
    assert Clock(None).allows(Step("e", {}, 1e9), twice=True)


def test_there_is_time_for_a_plan_or_not(monkeypatch):
    monkeypatch.setattr(fusion_members.time, "monotonic", lambda: 0.0)
    clock = Clock(60.0)
    clock.tree = 2.0
    assert clock.covers([(Step("a", {}, 10.0), True), (Step("b", {}, 10.0), False)])  # 60 s
    assert not clock.covers([(Step("a", {}, 10.0), True), (Step("b", {}, 10.1), False)])
    assert not clock.covers([(Step("a", {}, 1.0, seconds=61.0), False)])
    assert Clock(None).covers([(Step("c", {}, 1e9), True)])


@pytest.mark.parametrize(("budget", "count"), [(1e-9, 1), (1e6, 6)])
def test_a_budget_has_one_member_at_least_and_all_if_there_is_time(budget, count, monkeypatch):
    quick = Step("dxml", {**fusion_members.SPACE, "epochs": 1}, 4.0)
    monkeypatch.setattr(fusion_members, "space", lambda _: quick)
    X, Y = planted(300)
    model = Fusion(budget=budget).fit(X, Y)
    assert len(model.members_) == count
    assert model.predict(X, 5).labels.shape == (300, 5)
