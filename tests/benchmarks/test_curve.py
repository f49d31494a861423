"""Accuracy against time: limits, means, the lead within a peer's time, runs that are kept."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path

import pytest

from labelspace.errors import LabelspaceError

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def curve(tmp_path, monkeypatch):
    """Load the script, with results and compiled loops in a temporary folder."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.delitem(sys.modules, "kept", raising=False)
    spec = importlib.util.spec_from_file_location("curve", BENCHMARKS / "curve.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for place in (module, sys.modules["kept"]):
        monkeypatch.setattr(place, "RESULTS", tmp_path / "results")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "compiled"))
    yield module
    sys.modules.pop("kept", None)


def row(curve, system, seed, train_s, p1, budget=None):
    costs = dict.fromkeys((*curve.COSTS, *curve.METRICS), 1.0)
    own = {"set": "x", "system": system, "budget_s": budget, "seed": seed, "processor": "p"}
    return {**own, **costs, "train_s": train_s, "P@1": p1}


def test_time_limits_start_at_the_fastest_peer_and_have_those_of_all_others(curve):
    assert curve.budgets([1.2345], 9.0, 2.0) == [1.23, 2.47, 4.94]
    assert curve.budgets([3.0, 1.0, math.inf, 20.0], 9.0, 2.0) == [1.0, 2.0, 3.0, 4.0, 8.0]
    assert curve.budgets([9.0], 9.0, 2.0) == []
    assert curve.budgets([math.inf], 9.0, 2.0) == []
    assert curve.budgets([1.0], math.inf, 2.0) == []


def test_a_peer_is_compared_with_the_best_that_fusion_reaches_in_its_time(curve):
    rows = [
        row(curve, "fusion", 0, 2.0, 60.0, budget=2.0),
        row(curve, "fusion", 1, 4.0, 62.0, budget=2.0),
        row(curve, "fusion", 0, 8.0, 70.0),
        row(curve, "pecos", 0, 5.0, 64.0),
        row(curve, "omikuji", 0, 1.0, 50.0),
        {**row(curve, "omikuji", 1, 1.0, 50.0), "error": "no"},
    ]
    points = curve.with_lead(curve.means(rows))
    assert [(p["system"], p["train_s"], p["P@1"], p["runs"]) for p in points] == [
        ("omikuji", 1.0, 50.0, 1),
        ("fusion", 3.0, 61.0, 2),
        ("pecos", 5.0, 64.0, 1),
        ("fusion", 8.0, 70.0, 1),
    ]
    omikuji, limited, pecos, _ = points
    assert limited["P@1 std"] == pytest.approx(math.sqrt(2))
    assert (pecos["fusion within its time"], pecos["fusion ahead by"]) == (61.0, -3.0)
    assert omikuji["fusion ahead by"] is None
    assert curve.draw(curve.means(rows), "x").startswith(b"\x89PNG")


@pytest.fixture
def folder(tmp_path):
    """Write a tiny set."""
    place = tmp_path / "tiny"
    place.mkdir()
    for name in ("train", "test"):
        (place / f"{name}.jsonl").write_text(2 * '{"text": "ripe apple", "labels": ["fruit"]}\n')
    return place


def test_finished_runs_are_kept_and_compiling_ones_repeated(curve, folder, tmp_path, monkeypatch):
    """Stands in for the processes, which have tests of their own: these would take minutes."""
    ran = []

    def run(job, _, limit):
        assert limit == 50
        ran.append((job["method"], job["seed"], job["params"].get("budget")))
        if job["method"] == "napkinxc":
            raise LabelspaceError("too slow")
        if job["method"] == "fusion":
            (tmp_path / "compiled").mkdir(exist_ok=True)
            (tmp_path / "compiled" / "loop.nbi").open("a").close()  # new the first time only
        seconds = {"pecos": 2.0, "omikuji": 3.0}.get(job["method"], 7.0)
        seconds = job["params"].get("budget", seconds)
        return {**row(curve, "", 0, seconds, 10.0 * seconds), "hits": ""}

    monkeypatch.setattr(curve, "run", run)
    peers = ["omikuji", "pecos", "napkinxc"]
    curve.measure(folder, peers, 1, 2.0, 50)
    assert ran == [
        ("omikuji", 0, None),
        ("pecos", 0, None),
        ("napkinxc", 0, None),
        ("fusion", 0, None),
        ("fusion", 0, None),  # once more, with compiled loops
        ("fusion", 0, 2.0),
        ("fusion", 0, 3.0),
        ("fusion", 0, 4.0),
    ]
    results = tmp_path / "results"
    assert "too slow" in (results / "curve.md").read_text()
    assert (results / "curve-tiny.png").exists()
    ran.clear()
    curve.measure(folder, peers, 1, 2.0, 50)
    assert ran == []
    curve.discard(["pecos"], ["tiny"])
    curve.measure(folder, peers, 1, 2.0, 50)
    assert ran == [("pecos", 0, None)]
