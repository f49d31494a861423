"""The benchmark of updates: its rows, and what it is measured on."""

from __future__ import annotations

import gzip
import importlib.util
import json
import sys
from pathlib import Path

import pytest

from support.named import named

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def update(tmp_path, monkeypatch):
    """Load the script, with results in a temporary folder."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.delitem(sys.modules, "kept", raising=False)
    spec = importlib.util.spec_from_file_location("update", BENCHMARKS / "update.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(sys.modules["kept"], "RESULTS", tmp_path / "results")
    yield module
    sys.modules.pop("kept", None)


@pytest.fixture
def folder(tmp_path):
    data = named(240)
    names = data.label_names
    for name, start, stop in (("train", 0, 200), ("test", 200, 240)):
        with gzip.open(tmp_path / f"{name}.jsonl.gz", "wt", encoding="utf-8") as file:
            for row in range(start, stop):
                labels = [names[label] for label in data.labels[row].indices]
                file.write(json.dumps({"text": data.texts[row], "labels": labels}) + "\n")
    texts = "".join(f"{name}\tname of {name}\n" for name in names)
    (tmp_path / "label_texts.tsv").write_text("id\tname\n" + texts)
    return tmp_path


@pytest.mark.parametrize("labels", [False, True])
def test_all_rows_are_written(update, folder, labels):
    update.measure(folder, "knn", 3, None, cut=False, labels=labels)
    rows = json.loads((folder / "results" / "update.json").read_text())
    assert [row["model"] for row in rows] == ["first half", "3 portions", "all at once"]
    first, updated, whole = rows
    assert first["set"] == folder.name + (" (label texts)" if labels else "")
    for row in rows:
        assert {"P@1", "P@3", "P@5", "ECE", "MB", "seconds", "cpu"} <= row.keys()
    assert {"single", "single cpu", "longest single", "P@1 change", "longest cpu"} <= updated.keys()
    assert {"new labels", "new labels at once"} <= updated.keys()
    assert whole["P@1"] == pytest.approx(updated["P@1"], abs=10.0)


def test_a_cut_is_spread_over_the_file_and_not_trained_on(update, folder):
    train, test = update.split(folder, None, cut=True)
    lines = update.records(folder / "train.jsonl.gz")
    assert (len(train), len(test)) == (180, 20)
    assert test == lines[9::10]
    assert train[8:10] == [lines[8], lines[10]]
    fewer, _ = update.split(folder, 50, cut=False)
    assert len(fewer) == 50
    assert (fewer[0], fewer[-1]) == (lines[0], lines[-1])
