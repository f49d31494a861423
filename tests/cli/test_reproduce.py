"""`labelspace reproduce`: what it lists, writes and prints, and its errors."""

from __future__ import annotations

import json

import pytest

from labelspace.reproductions import registry
from labelspace.reproductions.experiment import Experiment, Sample, Trial


def trials(quick):
    data = Sample("eurlex", rows=80 if quick else 150, tested=40)
    grid = [{"neighbours": 1}, {"neighbours": 15}]
    return [Trial(data, {"voters": "chosen"}, "knn", grid=grid)]


@pytest.fixture
def _toy(monkeypatch):
    experiment = Experiment("toy-table1", "Voters", "A paper, Table 1", trials)
    monkeypatch.setattr(registry, "experiments", lambda: {"toy-table1": experiment})


def test_the_list_has_every_method_of_the_papers(command):
    code, out, _ = command("reproduce", "--list", "--json")
    assert code == 0
    methods = {each["name"].partition("-")[0] for each in json.loads(out)}
    assert methods == {
        "hyperbolic", "glas", "dxml", "neuralxc", "hierarchicalxc", "treespace", "seq2seq",
    }  # fmt: skip


@pytest.mark.usefixtures("_toy")
def test_a_run_writes_a_report_and_is_not_repeated(command, tmp_path):
    where = ("--data", tmp_path / "none", "--out", tmp_path / "report")
    code, out, err = command("reproduce", "toy-table1", "--quick", *where)
    assert code == 0, err
    assert "chosen" in out
    assert "eurlex not found" in err
    assert err.count("held-out") == 2  # one line for each setting that was compared
    found = json.loads((tmp_path / "report" / "results.json").read_text())
    assert (found["quick"], found["generated in place of"]) == (True, ["eurlex"])
    assert "This is the quick form" in (tmp_path / "report" / "report.md").read_text()
    assert (tmp_path / "report" / "toy-table1.png").stat().st_size > 1000

    code, out, err = command("reproduce", "toy-table1", "--quick", "--json", *where)
    assert code == 0
    assert "held-out" not in err
    assert json.loads(out)["rows"] == found["rows"]


@pytest.mark.usefixtures("_toy")
def test_missing_data_are_named_with_what_to_do(command, tmp_path):
    code, _, err = command("reproduce", "toy-table1", "--data", tmp_path)
    assert code != 0
    assert "no data set eurlex" in err
    assert "--quick" in err


def test_without_a_name_the_list_is_named(command):
    code, _, err = command("reproduce")
    assert code != 0
    assert "--list" in err
