"""`labelspace plan`: the values of "auto" for a file, and the memory that training would need."""

from __future__ import annotations

import json

import pytest

from labelspace.components.training_data import Shape
from labelspace.methods.parameters import is_auto
from labelspace.methods.registry import method_class
from labelspace.model.training import train


def cells(table):
    """Return the rows of a printed table as lists of cells."""
    lines = [line for line in table.splitlines() if "│" in line]
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


def test_auto_is_printed_as_the_value_for_the_data(shop, command):
    code, out, err = command("plan", shop / "train.jsonl", "--method", "linear")
    assert code == 0, err
    rows = dict(row for row in cells(out) if len(row) == 2)
    assert rows["negatives"] == "all"
    assert rows["C"] == "0.5"
    assert rows["validation"] == "0.1"
    assert "shortlist" not in rows  # 100, whatever the data
    assert "available" in out + err


def test_members_of_a_fusion_are_printed_with_their_parameters(shop, command):
    out = command("plan", shop / "train.jsonl")[1]
    flat = "".join(out.split())
    assert "linear(negatives=all)" in flat
    assert "dxml(" in flat or "knn(" in flat


def test_a_parameter_that_is_given_is_not_printed_as_chosen(shop, command):
    given = ("--method", "linear", "--set", "C=2", "--set", "negatives=hard")
    out = command("plan", shop / "train.jsonl", *given)[1]
    rows = dict(row for row in cells(out) if len(row) == 2)
    assert "C" not in rows
    assert "negatives" not in rows
    planned = json.loads(command("plan", shop / "train.jsonl", *given, "--json")[1])["parameters"]
    assert (planned["C"], planned["negatives"]) == (2.0, "hard")


@pytest.mark.parametrize("method", ["knn", "linear", "hierarchicalxc", "most-common", "fusion"])
def test_the_plan_is_what_training_uses(shop, command, method):
    arguments = () if method != "fusion" else ("--set", "members=knn,linear")
    call = ("plan", shop / "train.jsonl", "--method", method, *arguments, "--json")
    planned = json.loads(command(*call)[1])
    params = {} if method != "fusion" else {"members": "knn,linear"}
    model = train(shop / "train.jsonl", method=method, **params).method
    assert planned["parameters"] == json.loads(json.dumps(vars(model.params_)))
    assert not any(
        is_auto(value) and not model.parameters[name].tuned
        for name, value in planned["parameters"].items()
    )


def test_memory_adds_up_and_grows_with_the_data(shop, command):
    planned = json.loads(command("plan", shop / "train.jsonl", "--method", "knn", "--json")[1])
    assert planned["total"] == sum(planned["bytes"].values()) > 0
    assert planned["fits"] == (planned["total"] <= planned["available"])
    knn = method_class("knn")
    large = Shape(10**6, 10**6, 10**5, 10**8, 10**7)
    assert (
        sum(knn.memory(large, knn.resolve(knn().get_params(), large)).values()) > planned["total"]
    )
