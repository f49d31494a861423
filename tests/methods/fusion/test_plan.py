"""Members of a fusion by the size of the data, and longer and shorter plans."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace.components.training_data import Shape
from labelspace.methods.fusion import plan as fusion_plan
from labelspace.methods.fusion.plan import (
    candidate_plans,
    dxml_member,
    extended_plans,
    other_members,
    plan_members,
    shortened_plans,
)
from labelspace.methods.registry import method_class

FEW = Shape(5000, 2000, 150, 300_000, 12_000)
SHOP = Shape(18_000, 20_000, 11_000, 200_000, 100_000)
MORE = Shape(100_000, 50_000, 20_000, 10**6, 10**6)
RARE = Shape(100_000, 50_000, 20_000, 10**6, 10**5)
MANY = Shape(500_000, 10**6, 10**5, 10**8, 10**6)


def names(members, shape):
    return [member.method for member in plan_members(members, shape)]


def test_members_depend_on_the_size_of_the_data_unless_they_are_named():
    assert names("auto", FEW) == ["linear", "dxml"]
    assert names("auto", SHOP) == ["hierarchicalxc", "knn", "linear"]
    assert names("auto", MORE) == ["hierarchicalxc", "knn", "dxml", "linear"]
    assert names("auto", RARE) == ["hierarchicalxc", "knn", "linear"]
    assert names("auto", MANY) == ["hierarchicalxc", "knn", "linear"]
    assert names("knn, linear", FEW) == ["knn", "linear"]


def test_knn_reads_a_part_of_its_index_where_examples_are_many():
    limits = [
        member.parameters.get("max_postings")
        for shape in (SHOP, RARE, MANY)
        for member in plan_members("auto", shape)
        if member.method == "knn"
    ]
    assert limits == [None, 5_000, 5_000]


@pytest.mark.parametrize(
    ("shape", "expected", "common"),
    [
        (SHOP, ["hierarchicalxc", "knn", "dxml", "linear"], 0.5),
        (RARE, ["hierarchicalxc", "knn", "linear"], 0.5),
        (replace(SHOP, features=100), ["hierarchicalxc", "knn", "linear"], None),
    ],
)
def test_knn_ignores_dense_features_beside_sparse_ones(shape, expected, common):
    plan = plan_members("auto", replace(shape, common_features=64))
    assert [member.method for member in plan] == expected
    knn = next(member for member in plan if member.method == "knn")
    assert knn.parameters.get("max_document_frequency") == common


def test_common_features_are_those_that_more_than_half_of_the_examples_have():
    X = csr_matrix(np.array([[1, 1, 0], [1, 1, 0], [1, 0, 2], [1, 0, 0]]))
    assert Shape.of(X, X).common_features == 1


@pytest.mark.parametrize("shape", [FEW, SHOP, MORE, RARE, MANY])
def test_members_that_rerank_follow_others_and_have_rerank(shape):
    first, *others = plan_members("auto", shape)
    assert not first.reranks
    assert all(method_class(member.method).can_rerank for member in others if member.reranks)
    for plan in extended_plans([first, *others], shape):
        assert plan[: 1 + len(others)] == [first, *others]
    for plan in candidate_plans("auto", shape, 1.0):
        assert not plan[0].reranks


def test_dxml_has_more_epochs_on_fewer_examples():
    epochs = [dxml_member(n).parameters["epochs"] for n in (1, 5000, 12_000, 24_000, 290_000)]
    assert epochs == [20, 20, 25, 12, 5]
    assert plan_members("auto", FEW)[1].parameters["epochs"] == 20


def test_shortened_plans_have_fewer_epochs_of_dxml():
    linear, dxml = plan_members("auto", FEW)
    half, quarter = shortened_plans([linear, dxml])
    assert half[0] == quarter[0] == linear
    assert [plan[1].parameters["epochs"] for plan in (half, quarter)] == [10, 5]


def test_without_torch_dxml_is_not_a_member(monkeypatch):
    monkeypatch.setattr(fusion_plan, "find_spec", lambda _: None)
    assert names("auto", FEW) == ["linear", "knn"]
    assert names("auto", MORE) == ["hierarchicalxc", "knn", "linear"]
    for plan in candidate_plans("auto", FEW, 1.0):
        assert "dxml" not in [member.method for member in plan]


@pytest.mark.parametrize("shape", [FEW, SHOP, MORE, RARE, MANY])
def test_with_a_time_limit_plans_grow_from_one_member_to_all(shape):
    plans = candidate_plans("auto", shape, 1.0)
    assert len(plans[0]) == 1
    assert len(plans[1]) <= 2
    usual = plan_members("auto", shape)
    assert usual in plans
    assert {member.method for member in plans[-1]} >= {m.method for m in other_members(shape)}
