"""Columns that are given once, in training, and kept with the model."""

from __future__ import annotations

import csv
import json

import pytest

import labelspace as ls

PRODUCTS = [
    ("s1", "cotton shirt", "blue sleeve", "Cloth", "Shirts", "Loom"),
    ("s2", "cotton shirt", "red sleeve", "Cloth", "Shirts", "Weft"),
    ("s3", "silk dress", "long", "Cloth", "Dresses", "Loom"),
    ("s4", "steel hammer", "grip", "Tools", "Hammers", "Forge"),
    ("s5", "steel saw", "handle", "Tools", "Saws", "Forge"),
]
NAMES = ("sku", "title", "description", "L0", "L1", "brand")
COLUMNS = (
    "--text-columns", "title,description", "--path-columns", "L0,L1",
    "--label-columns", "brand", "--id-column", "sku",
)  # fmt: skip


def write(path, rows, names=NAMES, delimiter=",", encoding="utf-8"):
    with path.open("w", newline="", encoding=encoding) as file:
        writer = csv.DictWriter(file, names, delimiter=delimiter, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(dict(zip(NAMES, row, strict=True)) for row in rows)
    return path


@pytest.fixture
def catalogue(tmp_path, command):
    write(tmp_path / "train.csv", PRODUCTS * 8)
    write(tmp_path / "test.csv", PRODUCTS)
    arguments = (*COLUMNS, "--method", "linear", "--out", tmp_path / "model")
    code, _, err = command("train", tmp_path / "train.csv", *arguments)
    assert code == 0, err
    return tmp_path


def test_evaluate_and_predict_need_no_columns(catalogue, command):
    code, out, err = command("evaluate", catalogue / "model", catalogue / "test.csv", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["P@1"] == 100.0
    assert found["unknown_labels"] == {"labels": 0, "count": 0, "share": 0.0}
    code, out, err = command("predict", catalogue / "model", catalogue / "test.csv", "--top", "3")
    assert code == 0, err
    answers = [json.loads(line) for line in out.splitlines()]
    assert [answer["id"] for answer in answers] == ["s1", "s2", "s3", "s4", "s5"]
    assert {tag["name"] for tag in answers[3]["labels"]} == {
        "Tools", "Tools > Hammers", "brand: Forge"
    }  # fmt: skip


def test_the_model_keeps_what_was_given_and_no_more(catalogue, command):
    kept = json.loads(command("info", catalogue / "model", "--json")[1])["columns"]
    assert kept == {
        "text": ["title", "description"],
        "labels": ["brand"],
        "path": ["L0", "L1"],
        "id": "sku",
    }
    assert "title, description" in command("info", catalogue / "model")[1]
    assert ls.load(catalogue / "model").columns == ls.Columns(
        text=("title", "description"), labels=("brand",), path=("L0", "L1"), id="sku"
    )


def test_a_model_that_keeps_no_columns_has_the_default_ones(shop, command):
    assert command("train", shop / "train.jsonl", "--method", "knn", "--out", shop / "m")[0] == 0
    header = json.loads((shop / "m" / "model.json").read_text())
    del header["columns"]
    (shop / "m" / "model.json").write_text(json.dumps(header))
    assert ls.load(shop / "m").columns == ls.Columns()
    header["columns"] = {"text": 5}
    (shop / "m" / "model.json").write_text(json.dumps(header))
    code, _, err = command("predict", shop / "m", shop / "test.jsonl")
    assert code == 1
    assert "not the columns of a table" in err


def test_one_of_several_text_columns_may_be_missing(catalogue, command):
    some = write(catalogue / "some.csv", PRODUCTS, names=("title",))
    code, out, err = command("predict", catalogue / "model", some, "--top", "3")
    assert code == 0, err
    assert [json.loads(line)["id"] for line in out.splitlines()] == ["1", "2", "3", "4", "5"]
    assert err.count("'description'") == 1
    none = write(catalogue / "none.csv", PRODUCTS, names=("sku", "brand"))
    code, _, err = command("predict", catalogue / "model", none)
    assert code == 1
    assert "neither a text column 'title'" in err


def test_short_names_of_column_options_mean_the_same(catalogue, command):
    names = {"text-columns": "text", "path-columns": "path", "label-columns": "label",
             "id-column": "id"}  # fmt: skip
    short = [f"--{names[word[2:]]}" if word.startswith("--") else word for word in COLUMNS]
    for out, columns in ((catalogue / "long", COLUMNS), (catalogue / "short", short)):
        call = ("train", catalogue / "train.csv", "--method", "knn", "--out", out, *columns)
        code, _, err = command(*call)
        assert code == 0, err
    assert ls.load(catalogue / "short").columns == ls.load(catalogue / "long").columns


def test_a_column_that_is_named_now_must_exist(catalogue, command):
    code, out, err = command(
        "predict", catalogue / "model", catalogue / "test.csv", "--text-columns", "title,descripton"
    )
    assert (code, out) == (1, "")
    assert "no column 'descripton'; did you mean 'description'?" in err


@pytest.mark.parametrize("delimiter", [";", ","])
def test_another_file_may_have_another_delimiter_and_encoding(tmp_path, delimiter):
    rows = [("1", "größe ähre", "", "", "", "Bücher"), ("2", "straße öl", "", "", "", "Straßen")]
    train = write(tmp_path / "train.csv", rows * 8, delimiter=";", encoding="utf-8")
    columns = ls.Columns(text=("title",), labels=("brand",), delimiter=";", encoding="cp1252")
    dataset = ls.read([dict(zip(NAMES, row, strict=True)) for row in rows * 8], columns=columns)
    tagger = ls.train(dataset, method="knn", columns=columns)
    other = write(tmp_path / "other.csv", rows, delimiter=delimiter)
    chosen = tagger.columns_for(other)
    assert chosen.encoding is None
    assert chosen.delimiter == (";" if delimiter == ";" else None)
    assert tagger.columns_for(train).delimiter == ";"
    latin = write(tmp_path / "latin.csv", rows, delimiter=";", encoding="cp1252")
    assert tagger.columns_for(latin).encoding == "cp1252"


def test_labels_that_the_model_does_not_know_are_counted_and_said(catalogue, command):
    new = ("s6", "silk scarf", "", "Cloth", "Scarves", "Loom")
    test = write(catalogue / "odd.csv", [*PRODUCTS, new])
    code, out, err = command("evaluate", catalogue / "model", test, "--json")
    assert code == 0
    unknown = json.loads(out)["unknown_labels"]
    assert (unknown["labels"], unknown["count"]) == (1, 1)
    assert unknown["share"] == pytest.approx(100 / 18)
    assert "1 of 18 label assignments (5.6 percent)" in err
    assert "'Cloth > Scarves'" in err


def test_data_of_which_no_label_is_known_are_refused(catalogue, command):
    code, out, err = command(
        "evaluate",
        catalogue / "model",
        catalogue / "test.csv",
        "--label-columns",
        "sku",
        "--path-columns",
        "",
    )
    assert (code, out) == (1, "")
    for part in (
        "of column sku",
        "'s1', 's2', 's3'",
        "brand, L0, L1",
        "'Cloth'",
        "--label-columns",
    ):
        assert part in err


def test_a_model_that_gives_no_label_is_measured_as_zero(shop, command):
    assert command("train", shop / "train.jsonl", "--method", "knn", "--out", shop / "m")[0] == 0
    (shop / "odd.jsonl").write_text('{"text": "zyzzyva", "labels": ["fruit"]}\n')
    code, out, err = command("evaluate", shop / "m", shop / "odd.jsonl", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["P@1"] == 0.0
    assert found["calibration"] == {"k": 5, "ECE": None, "pairs": 0, "bins": []}
    code, out, _ = command("evaluate", shop / "m", shop / "odd.jsonl")
    assert code == 0
    assert "-" in out


@pytest.mark.parametrize("option", ["--cutoffs", "--k"])
@pytest.mark.parametrize("k", ["", ",", "0", "1,-3", "x"])
def test_cut_offs_that_are_none_are_refused(shop, command, option, k):
    code, _, err = command("evaluate", shop / "m", shop / "test.jsonl", option, k)
    assert code == 2
    assert "expected integers of at least 1" in err


def test_levels_without_examples_show_a_dash(catalogue, command):
    flat = [(*row[:4], "", row[5]) for row in PRODUCTS]
    test = write(catalogue / "flat.csv", flat)
    code, out, err = command("evaluate", catalogue / "model", test, "--levels")
    assert code == 0, err
    (line,) = [line for line in out.splitlines() if line.startswith("│ L1") and " 0 " in line][:1]
    assert line.count(" - ") >= 2  # recall and accuracy of no example


def test_update_keeps_the_meaning_of_columns_and_adds_edges(catalogue, command):
    small = ("dim=8", "epochs=4", "batch_size=8", "feature_damping=0")
    settings = [word for pair in small for word in ("--set", pair)]
    model = catalogue / "glas"
    arguments = (*COLUMNS, "--method", "glas", *settings, "--out", model)
    assert command("train", catalogue / "train.csv", *arguments)[0] == 0
    before = set(ls.load(model).label_names)
    rows = [("s7", "electric bicycle", "", "Vehicles", "Bicycles", "Forge"), *PRODUCTS]
    more = write(catalogue / "more.csv", rows * 4)
    code, _, err = command("update", model, more, "--text", "title", "--label", "brand")
    assert code == 0, err
    updated = ls.load(model)
    assert set(updated.label_names) - before == {"Vehicles", "Vehicles > Bicycles"}
    assert ("Vehicles > Bicycles", "Vehicles") in set(updated.taxonomy.pairs())
    assert set(ls.load(model).columns.path) == {"L0", "L1"}
    only = write(catalogue / "brands.csv", rows * 4, names=("title", "brand"))
    code, _, err = command("update", model, only, "--out", catalogue / "glas2")
    assert code == 0, err
    assert set(ls.load(catalogue / "glas2").label_names) == set(updated.label_names)
    assert "'L0', 'L1'" in err


def test_update_drops_a_threshold_with_a_warning(shop, command):
    settings = [
        word for pair in ("dim=8", "epochs=2", "feature_damping=0") for word in ("--set", pair)
    ]
    model = shop / "m"
    code, _, err = command(
        *("train", shop / "train.jsonl", "--method", "glas", *settings, "--out", model),
        *("--threshold-for", "micro-f1"),
    )
    assert code == 0, err
    assert "threshold" in ls.load(model).metadata
    code, _, err = command("update", model, shop / "test.jsonl")
    assert code == 0, err
    assert "the threshold was chosen before this update" in err
    assert "threshold" not in ls.load(model).metadata


def test_plots_and_maps_know_the_columns(catalogue, command):
    pytest.importorskip("matplotlib")
    model = catalogue / "model"
    model.rename(catalogue / "$m_{$")  # no formula in a title
    picture = catalogue / "r.png"
    arguments = (catalogue / "$m_{$", catalogue / "test.csv", "--out", picture)
    code, _, err = command("plot", "reliability", *arguments)
    assert code == 0, err
    assert picture.read_bytes().startswith(b"\x89PNG")
    settings = [
        word for pair in ("dim=4", "epochs=1", "feature_damping=0") for word in ("--set", pair)
    ]
    arguments = (*COLUMNS, "--method", "glas", *settings, "--out", catalogue / "glas")
    assert command("train", catalogue / "train.csv", *arguments)[0] == 0
    page = catalogue / "map.html"
    arguments = ("--data", catalogue / "test.csv", "--out", page)
    code, _, err = command("map", catalogue / "glas", *arguments)
    assert code == 0, err
    assert "Dresses" in page.read_text() or page.stat().st_size > 1000


def test_a_place_that_cannot_hold_a_model_is_refused_before_reading(catalogue, command):
    for place in (catalogue, ".", catalogue / "train.csv"):
        code, _, err = command("train", catalogue / "no such.csv", "--out", place)
        assert code == 1
        assert "no such" not in err
        assert len(err.splitlines()) == 1


def test_a_budget_for_a_method_without_one_is_a_wrong_call(catalogue, command):
    arguments = ("--method", "knn", "--budget", "1m", "--out", catalogue / "m")
    assert command("train", catalogue / "train.csv", *arguments)[0] == 2
