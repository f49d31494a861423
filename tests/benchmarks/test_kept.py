"""Rows of benchmark results: replaced by their keys, with date and commit, and as Markdown."""

import importlib.util
import json
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "kept.py"


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Load the script, with results in a temporary folder."""
    spec = importlib.util.spec_from_file_location("kept", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    return module


def test_rows_replace_those_with_the_same_keys(kept, tmp_path):
    (tmp_path / "x.json").write_text(json.dumps([{"set": "a", "P@1": 1.0}, {"set": "b"}]))
    kept.keep("x", [{"set": "a", "P@1": 2.0}], ("set",))
    other, new = kept.kept("x")
    assert other == {"set": "b"}
    assert new == {"set": "a", "P@1": 2.0, **kept.provenance()}
    head, _, *rows = (tmp_path / "x.md").read_text().splitlines()
    assert head.startswith("| set | P@1 | date |")
    assert rows[0].startswith("| b |  |  |")
    assert rows[1].startswith("| a | 2.00 | 20")


def test_a_commit_is_marked_where_the_package_was_changed(kept, monkeypatch):
    answers = {"rev-parse": "abc1234\n", "status": " M src/labelspace/ranking.py\n"}
    monkeypatch.setattr(kept, "_git", lambda command, *_: answers[command])
    assert kept.provenance()["commit"] == "abc1234 with changes"
    answers["status"] = ""
    assert kept.provenance()["commit"] == "abc1234"


def test_outside_of_a_checkout_there_is_the_date_alone(kept, tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert set(kept.provenance()) == {"date"}
