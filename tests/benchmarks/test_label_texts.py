"""The table of label texts: its figures on small known answers, and the script on a tiny set."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace.labels.propensity import LabelCounts
from labelspace.ranking import Ranking
from support.named import N_LABELS, WORDS, named

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Load the script, with results in a temporary folder."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.delitem(sys.modules, "kept", raising=False)
    spec = importlib.util.spec_from_file_location("label_texts", BENCHMARKS / "label_texts.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(sys.modules["kept"], "RESULTS", tmp_path / "results")
    yield module
    sys.modules.pop("kept", None)


def test_recall_by_the_number_of_training_examples(script):
    Y = csr_matrix(np.array([[1, 1, 0, 1], [0, 1, 0, 1]], np.float32))
    labels = np.full((2, 20), -1)
    labels[0, 0], labels[0, 6], labels[1, 0] = 1, 3, 3
    ranking = Ranking(labels, np.where(labels >= 0, 0.5, 0.0))
    found = script.figures(ranking, Y, LabelCounts(np.array([9, 2, 5]), 12))
    assert found["unseen pairs"] == found["1-5 pairs"] == 2
    assert (found["unseen R@5"], found["unseen R@20"]) == (50.0, 100.0)
    assert (found["1-5 R@5"], found["1-5 R@20"]) == (50.0, 50.0)
    assert found["P@1"] == 100.0


def test_the_script_writes_a_row_without_and_with_label_texts(script, tmp_path, monkeypatch):
    folder = tmp_path / "tiny"
    folder.mkdir()
    for part, data in (("train", named(120)), ("test", named(30, seed=1, n_labels=N_LABELS))):
        rows = [
            {"text": text, "labels": [f"c{label}" for label in data.labels[row].indices]}
            for row, text in enumerate(data.texts)
        ]
        (folder / f"{part}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    names = "\n".join(f"c{at}\t{word}" for at, word in enumerate(WORDS))
    (folder / "label_texts.tsv").write_text(names)
    arguments = ["x", str(folder), "--set", "members=knn,lexical", "--methods", "fusion,lexical"]
    monkeypatch.setattr(sys, "argv", arguments)
    script.main()
    kept = tmp_path / "results" / "label-texts.json"
    plain, fused, lexical = json.loads(kept.read_text())
    assert [plain["label texts"], fused["label texts"]] == ["without", "with"]
    assert plain["unseen R@20"] == 0.0
    assert fused["unseen R@20"] > 50.0
    assert lexical["unseen pairs"] == plain["unseen pairs"] > 0
    monkeypatch.setattr(sys, "argv", ["x", str(folder), "--methods", "lexical", "--cut", "40"])
    script.main()
    assert json.loads(kept.read_text())[-1]["part"] == "cut of 40, seed 0"
