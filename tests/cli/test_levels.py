"""A catalogue with a path, a brand and missing values, from Parquet to a table of its levels."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

PRODUCTS = [
    ("cotton shirt blue sleeve", "Cloth", "Shirts", None, "Loom"),
    ("cotton shirt red sleeve", "Cloth", "Shirts", None, None),
    ("silk dress long", "Cloth", "Dresses", "Evening", "Loom"),
    ("steel hammer grip", "Tools", "Hammers", None, "Forge"),
    ("steel saw handle", "Tools", "Saws", None, None),
    ("gift card", "Tools", None, None, "Tools"),
]
COLUMNS = (
    "--text-columns",
    "title,store",
    "--path-columns",
    "L0,L1,L2",
    "--label-columns",
    "brand",
)


@pytest.fixture
def catalogue(tmp_path):
    names = ("title", "L0", "L1", "L2", "brand")
    rows = [dict(zip(names, product, strict=True)) for product in PRODUCTS]
    for i, row in enumerate(rows):
        row["store"] = row["brand"] if i % 2 else None
        row["price"] = float("nan")
    pq.write_table(pa.Table.from_pylist(rows * 8), tmp_path / "train.parquet")
    new = dict(rows[0], L1="Trousers")  # a category that training never saw
    pq.write_table(pa.Table.from_pylist([*rows, new]), tmp_path / "test.parquet")
    return tmp_path


def test_a_catalogue_is_measured_level_by_level(catalogue, command):
    model = catalogue / "model"
    code, _, err = command("train", catalogue / "train.parquet", *COLUMNS, "--out", model)
    assert code == 0, err
    arguments = ("evaluate", model, catalogue / "test.parquet", *COLUMNS, "--levels")
    found = json.loads(command(*arguments, "--json")[1])["by_level"]
    assert found["chosen"] == "likeliest path"
    assert list(found["levels"]) == ["L0", "L1", "L2", "brand"]
    assert found["levels"]["L0"]["accuracy"] == 100.0
    assert found["levels"]["L2"]["NA"]["examples"] == 6
    assert found["levels"]["L1"]["recall"] == pytest.approx(500 / 6)
    assert found["exact path"] == pytest.approx(600 / 7)
    code, out, _ = command(*arguments)
    assert code == 0
    assert "Tail labels" in out
    assert "hierarchical F1" in out


def test_compare_reports_levels(catalogue, command):
    report = catalogue / "report.json"
    code, _, err = command(
        *("compare", "--train", catalogue / "train.parquet", "--test"),
        *(catalogue / "test.parquet", "--methods", "knn", "--json", report, *COLUMNS),
    )
    assert code == 0, err
    (entrant,) = json.loads(report.read_text())["entrants"]
    assert entrant["by_level"]["levels"]["L0"]["accuracy"] == 100.0


def test_levels_need_a_taxonomy(shop, command):
    command("train", shop / "train.jsonl", "--out", shop / "model")
    code, _, err = command("evaluate", shop / "model", shop / "test.jsonl", "--levels")
    assert code != 0
    assert "hierarchy.tsv" in err
