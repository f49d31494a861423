"""The time limit of a fusion: estimates, and the members that are trained within it."""

from __future__ import annotations

import pytest

from labelspace.components.training_data import Shape
from labelspace.methods.fusion import budget, plan
from labelspace.methods.fusion.budget import TrainingBudget
from labelspace.methods.fusion.method import Fusion
from labelspace.methods.fusion.plan import Member
from support.planted import planted

FEW = Shape(5000, 2000, 150, 300_000, 12_000)


@pytest.mark.parametrize(("seconds", "epochs"), [(1000.0, 30), (15.0, 30), (13.0, 15), (8.0, 8)])
def test_the_longest_plan_that_fits_is_chosen(seconds, epochs, monkeypatch):
    monkeypatch.setattr(budget.time, "monotonic", lambda: 0.0)
    limit = TrainingBudget(seconds)
    limit.tree_seconds = 1.0  # linear takes 2.5 s, twice; dxml 9 s
    chosen = Fusion(budget=seconds)._plan_within(limit, FEW)
    assert [member.method for member in chosen[:2]] == ["linear", "dxml"]
    assert chosen[1].parameters["epochs"] == epochs
    assert (len(chosen) > 2) == (seconds == 1000.0)


def test_reserve_accepts_members_that_fit_and_keeps_time_to_refit_them(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(budget.time, "monotonic", lambda: now[0])
    limit = TrainingBudget(60.0)
    limit.tree_seconds = 2.0
    assert limit.reserve(Member("a", {}, cost=10.0), refits=False)  # 20 s of 60
    now[0] += 25.0
    assert limit.reserve(Member("b", {}, cost=5.0), refits=True)  # 20 s of the 35 left
    now[0] += 10.0
    # 25 s are left, of which 10 are reserved.
    assert not limit.reserve(Member("c", {}, cost=8.0), refits=False)
    assert limit.reserve(Member("d", {}, cost=7.0), refits=False)
    assert TrainingBudget(None).reserve(Member("e", {}, cost=1e9), refits=True)


def test_fits_adds_up_the_times_of_a_plan(monkeypatch):
    monkeypatch.setattr(budget.time, "monotonic", lambda: 0.0)
    limit = TrainingBudget(60.0)
    limit.tree_seconds = 2.0

    def member(cost, seconds=0.0):
        return Member("a", {}, cost=cost, seconds=seconds)

    assert limit.fits([(member(10.0), True), (member(10.0), False)])  # 60 s
    assert not limit.fits([(member(10.0), True), (member(10.1), False)])
    assert not limit.fits([(member(1.0, seconds=61.0), False)])
    assert TrainingBudget(None).fits([(member(1e9), True)])


@pytest.mark.parametrize(("budget", "count"), [(1e-9, 1), (1e6, 6)])
def test_at_least_one_member_is_trained_and_all_if_there_is_time(budget, count, monkeypatch):
    quick = Member("dxml", {**plan.DXML_PARAMETERS, "epochs": 1}, cost=4.0)
    monkeypatch.setattr(plan, "dxml_member", lambda _: quick)
    X, Y = planted(300)
    model = Fusion(budget=budget).fit(X, Y)
    assert len(model.members_) == count
    assert model.predict(X, 5).labels.shape == (300, 5)
