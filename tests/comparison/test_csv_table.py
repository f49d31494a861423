"""The CSV table of a comparison: one row per system, every figure with its deviation."""

from __future__ import annotations

import csv
import io
import json

from labelspace.comparison.csv_table import comparison_csv
from support.comparisons import report_of


def rows_of(report):
    text = comparison_csv(report)
    assert "\r" not in text
    return list(csv.DictReader(io.StringIO(text)))


def test_every_figure_is_followed_by_its_deviation():
    report = report_of(["a", "b"], [0.8, 0.6], seeds=[0, 1, 2])
    first, second = rows_of(report)
    heads = list(first)
    assert heads[:4] == ["name", "kind", "method", "runs"]
    assert heads[-2:] == ["error", "params"]
    assert heads[5:-2:2] == [f"{head} std" for head in heads[4:-2:2]]
    assert (first["name"], first["runs"], first["error"]) == ("a", "3", "")
    assert float(first["P@1"]) == report["entrants"][0]["P@1"]  # to the last digit
    assert float(second["P@1 std"]) == report["entrants"][1]["std"]["P@1"]
    assert float(first["bands.tail.recall@5 std"]) == 0.75
    assert float(second["peak_mb std"]) == 0.25
    assert json.loads(first["params"]) == {"neighbours": 3}


def test_one_run_has_no_deviations():
    (row,) = rows_of(report_of(["a"], [0.8]))
    assert row["runs"] == "1"
    assert not any(head.endswith(" std") for head in row)


def test_what_a_system_lacks_is_empty():
    report = report_of(["a", "b", "c"], [0.8, 0.6, 0.5])
    report["entrants"][1] = {
        "name": 'x, "y"', "kind": "method", "method": "glas", "params": {}, "error": "no memory\n!"
    }  # fmt: skip
    del report["entrants"][2]["ECE"]
    report["entrants"][0]["by_level"] = {
        "chosen": "likeliest path",
        "levels": {"L0": {"examples": 7, "recall": None}},
    }
    one, failed, other = rows_of(report)
    assert (failed["name"], failed["runs"], failed["error"]) == ('x, "y"', "0", "no memory\\n!")
    assert failed["P@1"] == failed["by_level.levels.L0.examples"] == ""
    assert other["ECE"] == ""
    assert one["by_level.levels.L0.examples"] == "7"
    assert one["by_level.levels.L0.recall"] == ""
    assert "by_level.chosen" not in one
