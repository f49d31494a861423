"""The metrics of the shared task on small known answers, and the script on a tiny set."""

from __future__ import annotations

import gzip
import importlib.util
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from labelspace.data import read
from labelspace.labels.propensity import LabelCounts
from labelspace.model.tagger import load
from labelspace.model.training import train
from labelspace.ranking import Ranking

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Load the script, with results in a temporary folder."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.delitem(sys.modules, "kept", raising=False)
    spec = importlib.util.spec_from_file_location("llms4subjects", BENCHMARKS / "llms4subjects.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(sys.modules["kept"], "RESULTS", tmp_path / "results")
    yield module
    sys.modules.pop("kept", None)


HITS = np.zeros((3, 50), bool)
HITS[0, [0, 5]] = HITS[1, 19] = HITS[2, 49] = True
N_TRUE = np.array([2, 25, 1])


def test_annif_counts_all_true_labels_in_the_ideal(script):
    found = script.annif(HITS, N_TRUE, np.array([50, 50, 50]))
    ideal = [sum(1 / math.log2(i + 2) for i in range(n)) for n in N_TRUE]
    ndcg = [(1 + 1 / math.log2(7)) / ideal[0], 1 / math.log2(21) / ideal[1], 0.0]
    assert found["nDCG@20"] == pytest.approx(100 * sum(ndcg) / 3)
    assert found["F1@5"] == pytest.approx(100 * (2 * 1 / (5 + 2)) / 3)


def test_the_shared_task_takes_f1_of_means(script):
    kinds = [("Book", "de"), ("Book", "de"), ("Thesis", "en")]
    rows = script.official(HITS, N_TRUE, kinds)
    by_key = {(row["type"], row["language"], row["metric"]): row for row in rows}
    assert len(rows) == 3 * (2 + 2 + 2 + 1)
    book = by_key["Book", "de", "precision"]
    assert book["records"] == 2
    assert book["@5"] == pytest.approx(100 * (1 / 5 + 0) / 2)
    recall = by_key["Book", "de", "recall"]
    assert (recall["@5"], recall["@20"]) == pytest.approx((25.0, 100 * (1 + 1 / 25) / 2))
    assert by_key["Book", "de", "F1"]["@5"] == pytest.approx(2 * 10 * 25 / 35)
    thesis = by_key["Thesis", "en", "recall"]
    assert (thesis["@45"], thesis["@50"]) == (0.0, 100.0)
    assert by_key["Thesis", "en", "F1"]["@45"] == 0.0
    # A type with one language is that cell; the overall figures are plain means over cells.
    assert by_key["Book", "all", "F1"]["@5"] == by_key["Book", "de", "F1"]["@5"]
    overall = by_key["mean", "of cells", "recall"]
    assert overall["@20"] == pytest.approx((52.0 + 0.0) / 2)
    assert by_key["mean", "of cells", "F1"]["@50"] == pytest.approx(
        (by_key["Book", "de", "F1"]["@50"] + by_key["Thesis", "en", "F1"]["@50"]) / 2
    )


def test_recall_by_the_number_of_training_examples(script):
    rows = [{"id": "a", "text": "x", "labels": ["b", "c"]}, {"id": "b", "text": "y", "labels": "a"}]
    data = read(rows)
    ranking = Ranking(np.array([[2, 0], [1, 0]]), np.ones((2, 2), np.float32))
    counts = LabelCounts(np.array([3, 0]), 10)  # c, the third label, is not in the model
    found = script.evaluate(ranking, data, counts, [("Book", "de"), ("Book", "en")])
    assert found["unseen recall@20"] == 50.0  # c of b and c
    assert found["1-5 recall@5"] == 100.0  # a
    assert script.recall_by_count(ranking, data, counts.widened(3), 1, 5, 1) == 0.0
    assert found["F1@5 de"] == 50.0
    assert found["F1@5"] == pytest.approx((50.0 + 200 / 3) / 2)


@pytest.fixture
def folder(tmp_path):
    """Write a set in the form of tib-gnd."""
    words = {"gnd:1": "steel", "gnd:2": "law", "gnd:3": "music"}
    types = []
    for split, n in (("train", 30), ("dev", 6), ("test", 6)):
        with gzip.open(tmp_path / f"{split}.jsonl.gz", "wt", encoding="utf-8") as file:
            for i in range(n):
                label = f"gnd:{1 + i % 3}"
                text = f"{words[label]} {words[label]} thing"
                record = {"id": f"{i}", "text": text, "labels": [label], "lang": "de"}
                file.write(json.dumps(record) + "\n")
                types.append(f"{split}\t{i}\t{'de' if i % 2 else 'en'}\tBook\n")
    with gzip.open(tmp_path / "types.tsv.gz", "wt", encoding="utf-8") as file:
        file.write("".join(types))
    return tmp_path


def run(script, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["llms4subjects.py", *map(str, arguments)])
    script.main()
    return script.keep.__globals__["kept"]("llms4subjects")


def test_a_model_that_is_given_predicts_dev_and_test(script, folder, monkeypatch):
    train(folder / "train.jsonl.gz", method="knn").save(folder / "model")
    rows = run(script, monkeypatch, folder, "--model", folder / "model")
    assert [(row["part"], row["system"], row["records"]) for row in rows] == [
        ("dev", "knn", 6),
        ("test", "knn", 6),
    ]
    assert rows[0]["nDCG@20"] == rows[0]["nDCG@20 de"] == rows[0]["nDCG@20 en"] == 100.0
    written = json.loads((folder / "results" / "llms4subjects-official.json").read_text())
    assert {row["type"] for row in written} == {"Book", "all", "mean"}
    with pytest.raises(SystemExit):
        run(script, monkeypatch, folder, "--model", folder / "model", "--cut", 5)


def test_a_cut_of_the_training_file_is_predicted_instead(script, folder, monkeypatch):
    (row,) = run(
        script, monkeypatch, folder, "--cut", 9, "--name", "x", "--method", "knn",
        "--out", folder / "model",
    )  # fmt: skip
    assert (row["part"], row["system"], row["records"]) == ("cut of 9, seed 0", "x", 9)
    assert row["nDCG@20"] == 100.0
    assert "unseen recall@20" not in row
    assert load(folder / "model").metadata["data"]["points"] == 21
