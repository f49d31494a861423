"""Predictions as files: ids, formats, paths, documents, and nothing left behind on failure."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pyarrow.parquet as pq
import pytest

import labelspace as ls

NAMES = ("title", "L0", "L1", "brand")
PRODUCTS = [
    ("cotton shirt", "Cloth", "Shirts", "Loom"),
    ("silk dress", "Cloth", "Dresses", "Weft"),
    ("steel hammer", "Tools", "Hammers", "Forge"),
]


@pytest.fixture
def model(shop, command):
    assert command("train", shop / "train.jsonl", "--method", "knn", "--out", shop / "m")[0] == 0
    return shop / "m"


@pytest.fixture
def catalogue(tmp_path):
    rows = [dict(zip(NAMES, row, strict=True)) for row in PRODUCTS]
    columns = ls.Columns(text=("title",), labels=("brand",), path=("L0", "L1"))
    ls.train(rows * 8, method="linear", columns=columns).save(tmp_path / "catalogue")
    (tmp_path / "new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "catalogue"


def lines(out):
    return [json.loads(line) for line in out.splitlines()]


def test_ids_do_not_depend_on_the_batch(shop, model, command):
    new = shop / "new.jsonl"
    new.write_text('{"text": "apple"}\n{"id": "x", "text": "saw"}\n{"text": "pear"}\n')
    for size in (1, 2, 99):
        code, out, _ = command("predict", model, new, "--batch-size", size)
        assert code == 0
        assert [answer["id"] for answer in lines(out)] == ["1", "x", "3"]


def test_labels_are_neither_needed_nor_checked(shop, model, command):
    new = shop / "new.jsonl"
    new.write_text('{"text": "apple", "labels": 3.5}\n{"text": "saw", "labels": ["no such"]}\n')
    code, out, err = command("predict", model, new)
    assert (code, err) == (0, "")
    assert len(lines(out)) == 2


@pytest.fixture
def numbered(tmp_path, command):
    train = tmp_path / "train.txt"
    train.write_text("6 3 2\n" + "0 0:1\n1 1:1 2:1\n" * 3)
    code, _, err = command("train", train, "--method", "knn", "--out", tmp_path / "numbered")
    assert code == 0, err
    return tmp_path / "numbered"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("new.txt", "2 3 0\n 0:1\n 1:1\n"),
        ("new.txt", "2 3 7\n5,6 0:1\n 1:1\n"),
        ("new.svm", "7 1:1\n9 2:1 3:1\n"),
        ("tst_X_Xf.txt", "2 3\n0:1\n1:1\n"),
    ],
)
def test_numbered_files_need_no_labels(tmp_path, numbered, command, name, content):
    (tmp_path / name).write_text(content)
    code, out, err = command("predict", numbered, tmp_path / name, "--top", "1")
    assert code == 0, err
    assert [answer["id"] for answer in lines(out)] == ["1", "2"]
    assert [answer["labels"][0]["name"] for answer in lines(out)] == ["0", "1"]


def test_csv_and_parquet_hold_what_json_holds(shop, model, command):
    expected = lines(command("predict", model, shop / "test.jsonl", "--top", "2")[1])
    for name in ("tags.csv", "tags.parquet"):
        arguments = ("--top", "2", "--out", shop / name)
        assert command("predict", model, shop / "test.jsonl", *arguments)[0] == 0
    with (shop / "tags.csv").open(newline="", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    parquet = pq.read_table(shop / "tags.parquet").to_pylist()
    for answer, row, record in zip(expected, table, parquet, strict=True):
        names = [tag["name"] for tag in answer["labels"]]
        scores = [tag["score"] for tag in answer["labels"]]
        assert row["id"] == record["id"] == answer["id"]
        assert row["labels"] == "|".join(names)
        assert [float(score) for score in row["scores"].split("|")] == scores
        assert record["labels"] == names
        assert record["scores"] == pytest.approx(scores, abs=1e-6)
    assert set(table[0]) == {"id", "labels", "scores"}
    code, out, _ = command("predict", model, shop / "test.jsonl", "--format", "csv", "--top", "2")
    assert code == 0
    assert out == (shop / "tags.csv").read_text()


def test_names_that_hold_the_separator_survive_csv(tmp_path):
    rows = [{"text": "apple", "labels": ["a|b", "=1+2"]}, {"text": "saw", "labels": ["c"]}]
    tagger = ls.train(rows * 5, method="knn")
    tagger.predict_file(rows, tmp_path / "tags.csv")
    with (tmp_path / "tags.csv").open(newline="", encoding="utf-8") as file:
        first, second = (row["labels"] for row in csv.DictReader(file))
    assert set(json.loads(first)) == {"a|b", "=1+2"}
    assert second == "c"


def test_wrong_formats_are_refused_before_anything_is_read(shop, model, command):
    missing = shop / "nothing.jsonl"
    code, _, err = command("predict", model, missing, "--format", "xml")
    assert code == 2
    assert "jsonl, csv, parquet" in err
    assert command("predict", model, missing, "--out", shop / "x.parquet.gz")[0] == 2


def test_the_likeliest_path_in_every_format(tmp_path, catalogue, command):
    new = tmp_path / "new.jsonl"
    code, out, err = command("predict", catalogue, new, "--likeliest-path")
    assert code == 0, err
    for answer, (_, top, below, brand) in zip(lines(out), PRODUCTS, strict=True):
        assert answer["path"] == [top, below]
        assert answer["kinds"] == {"brand": brand}
        assert len(answer["labels"]) == 5
    for name in ("tags.csv", "tags.parquet"):
        arguments = ("--likeliest-path", "--top", "1", "--out", tmp_path / name)
        assert command("predict", catalogue, new, *arguments)[0] == 0
    table = list(csv.DictReader(io.StringIO((tmp_path / "tags.csv").read_text())))
    parquet = pq.read_table(tmp_path / "tags.parquet").to_pylist()
    for rows in (table, parquet):
        assert [(row["L0"], row["L1"], row["brand"]) for row in rows] == [
            product[1:] for product in PRODUCTS
        ]


def test_a_path_needs_a_taxonomy(shop, model, command):
    code, _, err = command("predict", model, shop / "test.jsonl", "--likeliest-path")
    assert code == 2
    assert "no taxonomy" in err


def test_documents_are_tagged_file_by_file(shop, model, command):
    folder = shop / "documents"
    folder.mkdir()
    (folder / "a.txt").write_text("ripe apple\nand pear\n")
    (folder / "b.txt").write_text("steel hammer")
    (folder / "notes.md").write_text("not read")
    code, out, err = command("predict", model, folder, "--top", "1", "--batch-size", "1")
    assert code == 0, err
    assert [(a["id"], a["labels"][0]["name"]) for a in lines(out)] == [
        ("a.txt", "fruit"),
        ("b.txt", "tool"),
    ]
    code, out, _ = command("predict", model, folder / "b.txt", "--top", "1")
    assert [answer["id"] for answer in lines(out)] == ["b.txt"]
    (folder / "c.txt").write_bytes(b"caf\xe9")
    code, _, err = command("predict", model, folder)
    assert code == 1
    assert "--encoding" in err
    assert command("predict", model, folder, "--encoding", "cp1252")[0] == 0
    empty = shop / "empty"
    empty.mkdir()
    code, _, err = command("predict", model, empty)
    assert code == 1
    assert "no .txt files" in err


def test_a_folder_of_data_sets_is_no_folder_of_documents(tmp_path, numbered, command):
    code, _, err = command("predict", numbered, tmp_path)
    assert code == 1
    assert "name it by itself" in err


def test_failure_leaves_nothing_behind(shop, model, command):
    bad = shop / "bad.jsonl"
    bad.write_text('{"text": "apple"}\n{"text": \n')
    before = set(shop.iterdir())
    for name in ("x.jsonl", "x.csv", "x.parquet"):
        code, _, err = command("predict", model, bad, "--batch-size", "1", "--out", shop / name)
        assert code == 1
        assert f"{bad}:2" in err
    code, _, err = command("predict", model, bad, "--out", shop / "no" / "such" / "x.jsonl")
    assert code == 1
    assert "cannot be written" in err
    assert set(shop.iterdir()) == before


def test_terminal_escapes_in_names_do_not_reach_the_output(capsys):
    name = "a\x9b2Jb\u202e"
    tagger = ls.train([{"text": "apple", "labels": [name]}] * 4, method="knn")
    assert tagger.predict_file([{"text": "apple"}]) == 1
    out = capsys.readouterr().out
    assert not set(out) & {"\x9b", "\u202e"}
    assert json.loads(out)["labels"][0]["name"] == name


def test_predict_file_from_python_is_the_command(shop, model, command):
    tagger = ls.load(model)
    done = []
    assert (
        tagger.predict_file(
            shop / "test.jsonl", shop / "a.jsonl", k=2, batch_size=5, on_batch=done.append
        )
        == 12
    )
    assert done == [5, 10, 12]
    command("predict", model, shop / "test.jsonl", "--top", "2", "--out", shop / "b.jsonl")
    assert (shop / "a.jsonl").read_bytes() == (shop / "b.jsonl").read_bytes()
    batches = list(tagger.iter_batches(shop / "test.jsonl", batch_size=7))
    assert [len(batch) for batch in batches] == [7, 5]
    ranking = np.concatenate([tagger.predict(batch, 2).labels for batch in batches])
    assert np.array_equal(ranking, tagger.predict(tagger.read(shop / "test.jsonl"), 2).labels)
