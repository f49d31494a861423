"""Members that are left out: those without which the combination ranks as well on the hold-out."""

from __future__ import annotations

import numpy as np
import pytest

from labelspace.methods.fusion import plan, selection
from labelspace.methods.fusion.method import Fusion
from labelspace.methods.fusion.selection import leave_out_members
from support.planted import planted

pytest.importorskip("torch", reason="torch is not installed")

MEMBERS = "hierarchicalxc,knn,dxml"
WEAK_DXML = "dxml.epochs=1; dxml.dim=4; dxml.raw_neighbours=False"
BAD_DXML = "dxml.epochs=1; dxml.lr=1e-9; dxml.dim=2; dxml.raw_neighbours=False"
BAD_OTHERS = "hierarchicalxc.C=1e-5; knn.neighbours=1"


@pytest.fixture(scope="module")
def cut():
    X, Y = planted(1600, 60, seed=3)
    return X[:1000], Y[:1000], X[1000:], Y[1000:]


def fitted(cut, settings):
    return Fusion(members=MEMBERS, member_settings=settings, validation=0.1).fit(*cut[:2])


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        (BAD_DXML, ["hierarchicalxc", "knn"]),
        (BAD_OTHERS, ["dxml"]),
        (f"{BAD_OTHERS}; {WEAK_DXML}", ["hierarchicalxc", "knn", "dxml"]),
    ],
)
def test_members_that_do_not_help_are_left_out(cut, settings, kept):
    model = fitted(cut, settings)
    leave_out_members(model, cut[2], cut[3], cut[1], np.ones(600))
    assert [member.method for member in model.plan_] == kept
    assert [member.name for member in model.members_] == kept


def test_few_held_out_examples_decide_nothing(cut):
    model = fitted(cut, BAD_DXML)
    rows = slice(selection.ENOUGH - 1)
    weights = np.ones(selection.ENOUGH - 1)
    leave_out_members(model, cut[2][rows], cut[3][rows], cut[1], weights)
    assert len(model.members_) == 3


def test_only_members_that_nobody_named_are_left_out(cut, monkeypatch):
    X, Y = cut[:2]
    monkeypatch.setattr(selection, "ENOUGH", 50)
    named = Fusion(members=MEMBERS, member_settings=BAD_DXML, validation=0.2).fit(X, Y)
    assert len(named.members_) == 3
    chosen = [plan.Member(name, {}) for name in MEMBERS.split(",")]
    monkeypatch.setattr(plan, "plan_members", lambda *_: chosen)
    model = Fusion(member_settings=BAD_DXML, validation=0.2).fit(X, Y)
    assert [member.name for member in model.members_] == ["hierarchicalxc", "knn"]
    assert model.predict(cut[2], 3).labels.min() >= 0
