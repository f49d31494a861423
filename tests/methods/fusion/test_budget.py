"""The time limit of a fusion: estimates, and the members that are trained within it."""

from __future__ import annotations

import numpy as np
import pytest

from labelspace.components.near_duplicates import WORK_PER_SECOND
from labelspace.components.training_data import Shape
from labelspace.methods import timing
from labelspace.methods.fusion import budget, plan
from labelspace.methods.fusion.budget import TrainingBudget
from labelspace.methods.fusion.columns import MemberColumns
from labelspace.methods.fusion.fitting import plan_within
from labelspace.methods.fusion.method import Fusion
from labelspace.methods.fusion.plan import Member
from support.planted import planted

FEW = Shape(5000, 2000, 150, 300_000, 12_000)
MEASURED = {"knn": 0.1, "linear": 1.0, "hierarchicalxc": 2.0}  # seconds; an epoch of dxml takes 0.2


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until the test moves it, and members of known speed."""
    now = [100.0]
    monkeypatch.setattr(budget.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(budget, "COMBINATION", 0.0)
    monkeypatch.setattr(budget, "MARGIN", 1.0)

    def measured(_self, name, _parameters, epochs):
        return (MEASURED.get(name, 0.0), 0.2 if epochs else 0.0)

    monkeypatch.setattr(TrainingBudget, "_measured", measured)
    return now


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    ("seconds", "expected", "epochs"),
    [
        (0.1, ["linear"], None),
        (2.2, ["linear", "knn"], None),  # both are refitted
        (4.0, ["linear", "dxml"], 10),
        (5.9, ["linear", "dxml"], 10),
        (6.1, ["linear", "dxml"], 20),
        (10.3, ["linear", "dxml", "knn", "hierarchicalxc"], 20),
    ],
)
def test_the_longest_plan_that_fits_is_chosen(seconds, expected, epochs):
    chosen = plan_within(Fusion(budget=seconds), TrainingBudget(seconds), FEW)
    assert [member.method for member in chosen] == expected
    assert [m.parameters["epochs"] for m in chosen if m.method == "dxml"] == [epochs] * bool(epochs)


def test_reserve_accepts_members_that_fit_and_keeps_time_to_refit_them(clock):
    limit = TrainingBudget(10.0)
    assert limit.reserve(Member("hierarchicalxc", {}), refits=False)  # 2 s of 10
    clock[0] += 3.0
    assert limit.reserve(Member("dxml", {"epochs": 10}), refits=True)  # 4 s of the 7 left
    clock[0] += 2.0
    # 5 s are left, of which 2 are reserved.
    assert not limit.reserve(Member("dxml", {"epochs": 16}), refits=False)
    assert limit.reserve(Member("dxml", {"epochs": 14}), refits=False)
    assert TrainingBudget(None).reserve(Member("dxml", {"epochs": 10**9}), refits=True)


@pytest.mark.usefixtures("clock")
def test_fits_adds_up_the_times_of_a_plan():
    limit = TrainingBudget(6.0)
    linear, tree = Member("linear", {}), Member("hierarchicalxc", {})
    assert limit.fits([(linear, True), (tree, True)])
    assert not limit.fits([(linear, True), (tree, True), (Member("knn", {}), False)])
    assert TrainingBudget(None).fits([(Member("dxml", {"epochs": 10**9}), True)])


def test_a_limit_bounds_the_search_for_near_duplicates():
    assert TrainingBudget(30.0).duplicates_work == pytest.approx(3.0 * WORK_PER_SECOND)
    assert TrainingBudget(None).duplicates_work is None


@pytest.mark.usefixtures("clock")
def test_a_member_that_cannot_fit_is_not_measured(monkeypatch):
    monkeypatch.setattr(TrainingBudget, "_measured", None)
    assert not TrainingBudget(1.0).fits([(Member("dxml", {"epochs": 1}, seconds=1.1), False)])


def test_times_are_measured_on_a_sample_and_scaled_to_all_examples(monkeypatch):
    X, Y = planted(300)
    monkeypatch.setattr(timing, "SAMPLE", 100)
    taken = []

    def fit(_self, name, parameters, rows, _held):
        taken.append((name, len(rows)))
        return 0.01 * len(rows) * parameters.get("epochs", 1)

    monkeypatch.setattr(timing.TimingSample, "_fit", fit)
    monkeypatch.setattr(budget, "MARGIN", 1.0)
    limit = TrainingBudget(100.0)
    limit.calibrate(X, Y, MemberColumns(), 0)
    n = len(limit._sample.rows)
    assert limit.seconds_of(Member("knn", {})) == pytest.approx(0.01 * n)
    assert taken == [("knn", 100), ("knn", 100)]
    assert limit.seconds_of(Member("knn", {"seed": 1})) == pytest.approx(0.01 * n)
    assert len(taken) == 2  # another seed is not measured again
    # An epoch on the sample takes 1 s, which is scaled to all examples.
    assert limit.seconds_of(Member("dxml", {"epochs": 5})) == pytest.approx(0.05 * n)


@pytest.mark.parametrize("objective", ["precision", "psp", "f1"])
def test_without_time_for_a_hold_out_one_member_ranks_by_its_own_probabilities(objective):
    X, Y = planted(300)
    model = Fusion(budget=0.5, objective=objective).fit(X, Y)
    (member,) = model.members_
    assert len(model.row_order_) == 0
    found, alone = model.predict(X, 5), member.predict(X, 5)
    np.testing.assert_array_equal(found.labels, alone.labels)
    np.testing.assert_allclose(found.scores, alone.scores, atol=2e-5)  # clipped at 1e-5
    model.partial_fit(X[:20], Y[:20])
    assert model.predict(X, 5).labels.shape == (300, 5)


@pytest.mark.parametrize(
    ("shape", "method"),
    [
        (FEW, "linear"),
        (Shape(15_000, 9000, 9000, 150_000, 70_000), "hierarchicalxc"),
        (Shape(90_000, 90_000, 40_000, 9_000_000, 250_000), "knn"),
    ],
)
def test_the_single_member_is_the_best_that_is_quick_enough(shape, method):
    assert plan.single_member(shape).method == method


@pytest.mark.parametrize(("budget", "count"), [(1e-9, 1), (1e6, 6)])
def test_at_least_one_member_is_trained_and_all_if_there_is_time(budget, count, monkeypatch):
    quick = Member("dxml", {**plan.DXML_PARAMETERS, "epochs": 1})
    monkeypatch.setattr(plan, "dxml_member", lambda _: quick)
    X, Y = planted(300)
    model = Fusion(budget=budget).fit(X, Y)
    assert len(model.members_) == count
    assert model.predict(X, 5).labels.shape == (300, 5)
