"""Times of answers: the generated titles, and rows that are kept."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from labelspace.comparison.compare import entrants

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def answers(tmp_path, monkeypatch):
    """Load the script, with results in a temporary folder."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for name in ("kept", "titles"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    spec = importlib.util.spec_from_file_location("answers", BENCHMARKS / "answers.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(sys.modules["kept"], "RESULTS", tmp_path)
    yield module
    for name in ("kept", "titles"):
        sys.modules.pop(name, None)


def test_titles_are_short_with_common_words_and_long_tailed_labels(answers):
    titles = answers.generated(20_000, 500)
    X, Y = titles.X, titles.Y
    assert X.shape[0] == Y.shape[0] == 20_000
    assert titles.X_test.shape == (500, X.shape[1])
    assert 5 < X.nnz / X.shape[0] < 10
    assert set(np.diff(Y.indptr)) == {1, 2, 3}
    frequency = np.sort(np.bincount(X.indices, minlength=X.shape[1]))[::-1] / X.shape[0]
    assert 0.3 < frequency[0] < 0.5
    assert frequency[9] > 0.1
    assert np.median(frequency) < 0.001
    counts = np.sort(np.bincount(Y.indices, minlength=Y.shape[1]))[::-1]
    assert counts[:100].sum() > 0.2 * counts.sum()
    assert np.median(counts) < 10


def test_the_same_seed_gives_the_same_titles(answers):
    one, same, other = (answers.generated(300, 20, seed) for seed in (1, 1, 2))
    assert (one.X != same.X).nnz == (one.Y != same.Y).nnz == 0
    assert one.Y.shape != other.Y.shape or (one.Y != other.Y).nnz > 0


def test_rows_are_kept_by_size_and_system(answers, tmp_path):
    for size in (300, 400, 300):
        answers.measure(size, entrants(["most-common"], [], {}))
    rows = json.loads((tmp_path / "answers.json").read_text())
    assert [(row["titles"], row["system"]) for row in rows] == [
        (400, "most-common"),
        (300, "most-common"),
    ]
    assert float(rows[0]["one_ms_p50"]) > 0
