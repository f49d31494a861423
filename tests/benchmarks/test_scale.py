"""The scale benchmark: slopes, series, and a small run from data to table."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def scale(tmp_path, monkeypatch):
    """Load the script, with results in a temporary folder."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for name in ("kept", "scale_phases"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    spec = importlib.util.spec_from_file_location("scale", BENCHMARKS / "scale.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for place in (module, sys.modules["kept"]):
        monkeypatch.setattr(place, "RESULTS", tmp_path / "results")
    yield module
    for name in ("kept", "scale_phases"):
        sys.modules.pop(name, None)


def row(method, labels, points, **costs):
    return {"method": method, "labels": labels, "points": points, "processor": "p", **costs}


def test_a_slope_is_the_power_of_growth(scale):
    sizes = [10, 100, 1000]
    assert scale.slope(sizes, [3 * size**1.2 for size in sizes]) == pytest.approx(1.2)
    assert scale.slope(sizes, [5, 5, 5]) == pytest.approx(0.0)


def test_slopes_are_of_runs_that_differ_in_one_size_alone(scale):
    rows = [
        row("a", 100, 10, fit_s=1.0),
        row("a", 1000, 10, fit_s=10.0, graph_s=1.0),
        row("a", 1000, 20, fit_s=40.0),
        row("a", 10_000, 10, error="stopped"),
        row("b", 100, 10, fit_s=1.0),
    ]
    found = {(each["method"], each["against"]): each for each in scale.slopes(rows)}
    assert set(found) == {("a", "labels"), ("a", "points")}
    assert found["a", "labels"]["sizes"] == [100, 1000]
    assert found["a", "labels"]["fit_s"] == 1.0
    assert "graph_s" not in found["a", "labels"]  # one run has none
    assert found["a", "points"]["fit_s"] == 2.0
    scale.report(rows)
    text = (scale.RESULTS / "scale.md").read_text()
    assert "| a | 1,000 | 20 |" in text
    assert "stopped" in text
    assert (scale.RESULTS / "scale-labels.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_a_finished_run_is_kept_and_not_repeated(scale, tmp_path, monkeypatch):
    monkeypatch.setattr(scale, "TEST", 30)
    monkeypatch.setattr(scale, "FEATURES", 500)
    monkeypatch.setattr(scale, "compiled_loops", dict)
    monkeypatch.setattr(scale, "HOLDERS", 1)
    bench = scale.Bench(40, 200, tmp_path, limit=100.0)
    bench.measure("most-common")
    assert bench.is_done("most-common")
    assert not bench.is_done("knn")
    (found,) = scale.kept(scale.RUNS)
    for name in ("read_s", "fit_mb", "save_s", "load_s", "first_s", "one_ms_p50", "pss_mb"):
        assert found[name] > 0
    assert found["first_s"] >= found["load_s"]
    assert found["rss_mb"] >= found["pss_mb"]
