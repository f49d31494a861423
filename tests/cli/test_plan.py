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
    code, out, err = command("plan", shop / "train.jsonl", "--method", "linear", "--no-time")
    assert code == 0, err
    rows = dict(row for row in cells(out) if len(row) == 2)
    assert rows["negatives"] == "all"
    assert rows["C"] == "0.5"
    assert rows["validation"] == "0.1"
    assert "shortlist" not in rows  # 100, whatever the data
    assert "available" in out + err


def test_members_of_a_fusion_are_printed_with_their_parameters(shop, command):
    out = command("plan", shop / "train.jsonl", "--no-time")[1]
    flat = "".join(out.split())
    assert "linear(negatives=all)" in flat
    assert "dxml(" in flat or "knn(" in flat


def test_a_parameter_that_is_given_is_not_printed_as_chosen(shop, command):
    given = ("--method", "linear", "--set", "C=2", "--set", "negatives=hard")
    out = command("plan", shop / "train.jsonl", *given, "--no-time")[1]
    rows = dict(row for row in cells(out) if len(row) == 2)
    assert "C" not in rows
    assert "negatives" not in rows
    planned = json.loads(command("plan", shop / "train.jsonl", *given, "--no-time", "--json")[1])[
        "parameters"
    ]
    assert (planned["C"], planned["negatives"]) == (2.0, "hard")


@pytest.mark.parametrize("method", ["knn", "linear", "hierarchicalxc", "most-common", "fusion"])
def test_the_plan_is_what_training_uses(shop, command, method):
    arguments = () if method != "fusion" else ("--set", "members=knn,linear")
    call = ("plan", shop / "train.jsonl", "--method", method, *arguments, "--no-time", "--json")
    planned = json.loads(command(*call)[1])
    params = {} if method != "fusion" else {"members": "knn,linear"}
    model = train(shop / "train.jsonl", method=method, **params).method
    assert planned["parameters"] == json.loads(json.dumps(vars(model.params_)))
    assert not any(
        is_auto(value) and not model.parameters[name].tuned
        for name, value in planned["parameters"].items()
    )


def test_memory_adds_up_and_grows_with_the_data(shop, command):
    planned = json.loads(
        command("plan", shop / "train.jsonl", "--method", "knn", "--no-time", "--json")[1]
    )
    assert planned["total"] == sum(planned["bytes"].values()) > 0
    assert planned["fits"] is True
    knn = method_class("knn")
    large = Shape(10**6, 10**6, 10**5, 10**8, 10**7)
    assert (
        sum(knn.memory(large, knn.resolve(knn().get_params(), large)).values()) > planned["total"]
    )


def test_seconds_are_shown_by_phase(shop, command):
    call = ("plan", shop / "train.jsonl", "--set", "members=knn,linear")
    seconds = json.loads(command(*call, "--json")[1])["seconds"]
    assert list(seconds) == ["reading", "features", "training knn", "training linear"]
    assert all(taken >= 0 for taken in seconds.values())
    phases = [row[0] for row in cells(command(*call)[1])]
    assert [phase for phase in phases if phase in seconds] == list(seconds)


def test_what_does_not_fit_is_refused_with_the_parameter_that_makes_it_fit(
    shop, command, monkeypatch
):
    def call(dim):
        settings = ("--method", "glas", "--set", f"dim={dim}", "--no-time")
        return ("plan", shop / "train.jsonl", *settings)

    needed = json.loads(command(*call(256), "--json")[1])["bytes"]
    free = sum(needed.values()) - needed["the data"]
    monkeypatch.setattr("labelspace.model.plan.available_bytes", lambda: free)
    code, out, err = command(*call(512))
    assert code == 1
    assert "--set dim=256" in " ".join((out + err).split())
    code, out, _ = command(*call(512), "--json")
    planned = json.loads(out)
    assert (code, planned["fits"], planned["fitting"]["dim"]) == (1, False, 256)
    assert json.loads(command(*call(256), "--json")[1])["fits"] is True
