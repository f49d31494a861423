"""JSON lines, CSV, TSV and Parquet: what they mean, and what is said when they are broken."""

from __future__ import annotations

import csv
import gzip
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.sparse import csr_matrix

from labelspace._core import machine
from labelspace.data import Columns, Dataset, iter_batches, read, write
from labelspace.errors import DataError, MemoryBudgetError, ParameterError

ROWS: list[dict[str, Any]] = [
    {"id": "a", "text": "first, with comma", "labels": ["zebra", "apple"]},
    {"id": "b", "text": 'second "quoted"\nover two lines', "labels": []},
    {"id": "c", "text": "drittens: größer", "labels": ["apple", "mango", "apple"]},
]
LABELS = [[1, 0, 1], [0, 0, 0], [1, 1, 0]]  # apple, mango, zebra


def write_rows(path: Path, rows: list[dict[str, Any]], separator: str = "|") -> Path:
    """Write the rows in the format of the suffix, by other libraries."""
    kind = path.name.removesuffix(".gz").rsplit(".")[-1]
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
        return path
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", encoding="utf-8", newline="") as stream:
        if kind == "jsonl":
            stream.writelines(json.dumps(row) + "\n" for row in rows)
        else:
            table = csv.writer(stream, delimiter="," if kind == "csv" else "\t")
            table.writerow(rows[0])
            for row in rows:
                table.writerow(
                    separator.join(cell) if isinstance(cell, list) else cell
                    for cell in row.values()
                )
    return path


def jsonl(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def of_names(dataset: Dataset) -> list[list[str]]:
    names = dataset.names()
    return [[names[j] for j in dataset.labels[i].indices] for i in range(len(dataset))]


@pytest.mark.parametrize(
    "name", ["t.jsonl", "t.jsonl.gz", "t.csv", "t.csv.gz", "t.tsv", "t.parquet", "strange.name"]
)
def test_every_format_gives_the_same(tmp_path: Path, name: str) -> None:
    path = write_rows(tmp_path / name.replace("strange.name", "t.jsonl"), ROWS)
    path = path.rename(tmp_path / name)
    dataset = read(path)
    assert dataset.ids == ["a", "b", "c"]
    assert dataset.texts == [row["text"] for row in ROWS]
    assert dataset.label_names == ("apple", "mango", "zebra")
    np.testing.assert_array_equal(dataset.labels.toarray(), LABELS)
    assert dataset.labels.dtype == np.float32
    assert dataset.labels.indices.dtype == np.int32
    assert dataset.labels.has_sorted_indices
    assert dataset.features is None
    assert dataset.taxonomy is None
    assert dataset.source == str(path)


def test_label_ids_do_not_hang_on_the_order_of_rows(tmp_path: Path) -> None:
    forth = read(write_rows(tmp_path / "a.jsonl", ROWS))
    back = read(write_rows(tmp_path / "b.jsonl", ROWS[::-1]))
    assert forth.label_names == back.label_names
    np.testing.assert_array_equal(forth.labels.toarray(), back.labels.toarray()[::-1])


def test_byte_order_mark_blank_lines_and_windows_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"text": "a", "labels": ["x"]}\r\n\r\n  \n{"text": "b"}\r\n\n')
    assert read(path).texts == ["a", "b"]
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xef\xbb\xbftext,labels\r\na,x\r\n\r\nb,\r\n")
    dataset = read(path)
    assert dataset.texts == ["a", "b"]
    assert of_names(dataset) == [["x"], []]


def test_several_text_columns_are_joined_and_missing_ones_skipped(tmp_path: Path) -> None:
    rows = [
        {"title": "T", "body": "B", "tag": "x"},
        {"title": "T", "body": None, "tag": "x"},
        {"title": "", "body": "B", "tag": "x"},
        {"title": None, "body": None, "tag": "x"},
    ]
    columns = Columns(text=("title", "body"), labels=("tag",))
    for name in ("t.jsonl", "t.csv", "t.parquet"):
        assert read(write_rows(tmp_path / name, rows), columns=columns).texts == [
            "T\nB",
            "T",
            "B",
            "",
        ]


def test_several_label_columns_make_a_union(tmp_path: Path) -> None:
    rows = [{"text": "t", "labels": ["x", "y"], "brand": "x"}, {"text": "t", "brand": "z"}]
    columns = Columns(labels=("labels", "brand"))
    assert of_names(read(jsonl(tmp_path / "t.jsonl", *rows), columns=columns)) == [
        ["x", "y"],
        ["z"],
    ]


def test_one_column_may_be_named_without_a_tuple() -> None:
    assert Columns(text="title", labels="tag") == Columns(text=("title",), labels=("tag",))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "separator", "cell", "expected"),
    [
        ("t.csv", None, "a | b|c", ["a", "b", "c"]),
        ("t.csv", ";", "a;b|c", ["a", "b|c"]),
        ("t.csv", "", "a|b", ["a|b"]),
        ("t.tsv", None, "a|b", ["a", "b"]),
        ("t.csv", None, "fruit| |", ["fruit"]),
        ("t.csv", None, '["a", "b|c"]', ["a", "b|c"]),
        ("t.csv", None, "['a, b', \"it's\"]", ["a, b", "it's"]),
        ("t.tsv", None, "['a' 'b']", ["a", "b"]),
        ("t.csv", None, "[1, 22]", ["1", "22"]),
        ("t.csv", None, "[]", []),
        ("t.csv", None, "[archived]", ["[archived]"]),
        ("t.csv", None, "['a' + 'b']", ["['a' + 'b']"]),
        ("t.csv", "", '["a", "b"]', ['["a", "b"]']),
        ("t.csv", ",", '["a", "b"]', ['"b"]', '["a"']),
        ("t.parquet", None, "['a', 'b']", ["a", "b"]),
        ("t.jsonl", None, "a|b", ["a", "b"]),
        ("t.jsonl", "", "a|b", ["a|b"]),
        ("t.jsonl", None, ["a|b"], ["a|b"]),
        ("t.jsonl", "|", "a| b", ["a", "b"]),
        ("t.jsonl", "|", ["a|b"], ["a|b"]),
        ("t.jsonl", None, [7, 12], ["12", "7"]),
        ("t.jsonl", None, 7, ["7"]),
        ("t.jsonl", None, None, []),
        ("t.jsonl", None, "", []),
        ("t.parquet", None, "a|b", ["a", "b"]),
        ("t.parquet", None, ["a|b"], ["a|b"]),
        ("t.parquet", None, [7, 12], ["12", "7"]),
    ],
)
def test_label_cells(
    tmp_path: Path, name: str, separator: str | None, cell: Any, expected: list[str]
) -> None:
    path = write_rows(tmp_path / name, [{"text": "t", "labels": cell}])
    assert of_names(read(path, columns=Columns(label_separator=separator))) == [expected]


def test_ids_may_be_whole_numbers_or_absent(tmp_path: Path) -> None:
    assert read(jsonl(tmp_path / "t.jsonl", {"id": 7, "text": "t", "labels": []})).ids == ["7"]
    rows = [{"text": "t", "labels": []}, {"id": "x", "text": "t"}, {"id": "", "text": "t"}]
    assert read(jsonl(tmp_path / "t.jsonl", *rows)).ids == [1, "x", 3]
    assert read(jsonl(tmp_path / "t.jsonl", rows[0])).ids is None
    assert read(jsonl(tmp_path / "t.jsonl", *rows), columns=Columns(id=None)).ids is None


@pytest.mark.parametrize("size", [1, 2, 3, 10])
@pytest.mark.parametrize("name", ["t.jsonl", "t.csv", "t.parquet"])
def test_ids_do_not_hang_on_the_batch(tmp_path: Path, name: str, size: int) -> None:
    rows = [{"id": i, "text": "t", "labels": "x"} for i in ("a", None, None, None, "e")]
    path = write_rows(tmp_path / name, rows)
    batches = list(iter_batches(path, batch_size=size))
    assert [i for batch in batches for i in batch.ids or ()] == ["a", 2, 3, 4, "e"]
    batches = list(iter_batches(path, batch_size=size, columns=Columns(id=None)))
    assert [i for batch in batches for i in batch.ids or ()] == [1, 2, 3, 4, 5]


def test_row_numbers_are_not_written_as_ids(tmp_path: Path) -> None:
    rows = [{"id": "a", "text": "t", "labels": "x"}, {"id": None, "text": "u", "labels": "x"}]
    dataset = read(jsonl(tmp_path / "t.jsonl", *rows))
    for name in ("u.jsonl", "u.parquet"):
        write(dataset.take(np.array([1, 0])), tmp_path / name)
        assert read(tmp_path / name).ids == [1, "a"]


# Category paths -------------------------------------------------------------------------------


def check_paths(dataset: Dataset) -> None:
    assert of_names(dataset) == [["A", "A > B", "A > B > C"], ["A"], ["A", "A > D"], []]
    taxonomy = dataset.taxonomy
    assert taxonomy is not None
    assert taxonomy.n_labels == dataset.n_labels == len(taxonomy)
    names = taxonomy.node_names
    assert {(names[c], names[p]) for c, p in taxonomy.edges} == {
        ("A > B", "A"),
        ("A > B > C", "A > B"),
        ("A > D", "A"),
    }


def test_path_in_a_list_column(tmp_path: Path) -> None:
    paths = [["A", "B", "C"], ["A", None], ["A", "D"], None]
    rows = [{"text": "t", "path": path} for path in paths]
    for name in ("t.jsonl", "t.parquet"):
        check_paths(read(write_rows(tmp_path / name, rows), columns=Columns(path="path")))  # type: ignore[arg-type]


def test_path_in_a_column_a_level(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cells = [("A", "B", "C"), ("A", "", "gap"), ("A", "D", ""), ("", "", "")]
    rows = [{"text": "t", "l0": a, "l1": b, "l2": c} for a, b, c in cells]
    columns = Columns(path=("l0", "l1", "l2"))
    for name in ("t.csv", "t.jsonl", "t.parquet"):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            check_paths(read(write_rows(tmp_path / name, rows), columns=columns))
        assert "1 category paths were cut at a missing level" in caplog.text


def test_path_and_labels_together(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "t.jsonl", {"text": "t", "labels": ["x"], "path": ["A", "B"]})
    dataset = read(path, columns=Columns(path=("path",)))
    assert of_names(dataset) == [["A", "A > B", "x"]]


# Numbers and features -------------------------------------------------------------------------


def test_numbers_become_dense_features(tmp_path: Path) -> None:
    rows = [{"w": 1, "h": 2.5, "labels": ["x"]}, {"w": -3, "h": 1e-3, "labels": ["y"]}]
    for name in ("t.jsonl", "t.csv", "t.parquet"):
        dataset = read(write_rows(tmp_path / name, rows), columns=Columns(numbers=("h", "w")))
        assert isinstance(dataset.features, np.ndarray)
        assert dataset.features.dtype == np.float32
        np.testing.assert_array_equal(
            dataset.features, np.array([[2.5, 1], [1e-3, -3]], np.float32)
        )
        assert dataset.texts is None


@pytest.mark.parametrize("cell", ["nan", "NA", "inf", "1_0", "ten", "1,5", "1e39"])
def test_a_cell_that_is_no_number(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f'w,labels\n1,x\n"{cell}",x\n')
    with pytest.raises(DataError, match="'w'") as caught:
        read(path, columns=Columns(numbers=("w",)))
    assert caught.value.line == 3
    assert ("leave the cell empty if it is missing" in str(caught.value)) == (
        cell not in ("inf", "1e39")
    )


def test_a_missing_number_is_nan(tmp_path: Path) -> None:
    rows = [{"w": 1.5, "labels": "x"}, {"w": None, "labels": "x"}, {"w": -2.0, "labels": "x"}]
    for name in ("t.jsonl", "t.csv", "t.parquet"):
        dataset = read(write_rows(tmp_path / name, rows), columns=Columns(numbers=("w",)))
        expected = np.array([[1.5], [np.nan], [-2]], np.float32)
        np.testing.assert_array_equal(dataset.features, expected)
    path = jsonl(tmp_path / "t.jsonl", {"labels": "x"}, {"w": 3, "labels": "x"})
    assert np.isnan(read(path, columns=Columns(numbers=("w",))).features[0, 0])


@pytest.mark.parametrize("value", ["5", True, [1], 10**400, 1e39])
def test_a_field_that_is_no_number(tmp_path: Path, value: Any) -> None:
    path = jsonl(tmp_path / "t.jsonl", {"w": value, "labels": []})
    with pytest.raises(DataError, match="'w'") as caught:
        read(path, columns=Columns(numbers=("w",)))
    assert caught.value.line == 1


def test_sparse_features_in_json(tmp_path: Path) -> None:
    rows = [{"features": {"7": 0.5, "2": 1}, "labels": ["x"]}, {"features": {}, "labels": []}]
    path = jsonl(tmp_path / "t.jsonl", *rows)
    dataset = read(path)
    assert isinstance(dataset.features, csr_matrix)
    assert dataset.features.shape == (2, 8)
    assert dataset.features.indices.tolist() == [2, 7]
    assert dataset.features.data.tolist() == [1, 0.5]
    assert read(path, n_features=20).n_features == 20
    with pytest.raises(DataError, match="feature 7 is not one of 0 to 4"):
        read(path, n_features=5)


@pytest.mark.parametrize(
    ("rows", "line", "message"),
    [
        ([{"features": {"1": 1}}, {"text": "t"}], 2, "has no features"),
        ([{"text": "t"}, {"features": {"1": 1}}], 2, "the first that has features"),
        ([{"features": {"1": 1, "01": 2}}], 1, "occurs twice"),
        ([{"features": {"1": None}}], 1, "no value"),
        ([{"features": {"1": "x"}}], 1, "must be a number"),
        ([{"features": {"9999999999": 1}}], 1, "is not one of"),
        ([{"feature_indices": [1], "feature_values": [1, 2]}], 1, "1 feature indices for 2"),
        ([{"feature_indices": [1.5], "feature_values": [1]}], 1, "whole numbers"),
        ([{"feature_indices": [-1], "feature_values": [1]}], 1, "-1 is not one of"),
        ([{"feature_indices": [1]}], 1, "must be lists"),
    ],
)
def test_broken_features(tmp_path: Path, rows: list[Any], line: int, message: str) -> None:
    path = jsonl(tmp_path / "t.jsonl", *({"labels": []} | row for row in rows))
    with pytest.raises(DataError, match=message) as caught:
        read(path)
    assert caught.value.line == line


@pytest.mark.parametrize("size", [1, 2, 10])
def test_empty_features_settle_nothing(tmp_path: Path, size: int) -> None:
    labels = {"labels": ["x"]}
    other = [{"features": {}}, {"features": {"colour": "red"}}, {"features": {}}, {}]
    path = jsonl(tmp_path / "t.jsonl", *({"text": "t"} | labels | row for row in other))
    assert read(path).features is None
    assert [len(batch) for batch in iter_batches(path, batch_size=size)] == (
        {1: [1] * 4, 2: [2, 2], 10: [4]}[size]
    )
    sparse = [{"features": {}}, {"features": {}}, {"features": {"1": 0.5}}]
    path = jsonl(tmp_path / "t.jsonl", *({"text": "t"} | labels | row for row in sparse))
    assert read(path).features.toarray().tolist() == [[0, 0], [0, 0], [0, 0.5]]
    batches = list(iter_batches(path, batch_size=size, n_features=2))
    stacked = np.vstack([batch.features.toarray() for batch in batches])
    assert stacked.tolist() == [[0, 0], [0, 0], [0, 0.5]]


def test_a_field_called_features_that_is_something_else_is_ignored(tmp_path: Path) -> None:
    for value in (["waterproof"], {"colour": "red"}, "light"):
        path = jsonl(tmp_path / "t.jsonl", {"text": "t", "labels": ["x"], "features": value})
        assert read(path).features is None


# What is wrong, and where ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "line", "column", "message"),
    [
        (b'{"text": "a", "labels": []}\n{"text": "b" "labels": []}\n', 2, 14, "delimiter"),
        (b'{"text": "a", "labels": []}\n{"text": "b\n', 2, 10, "unterminated string"),
        (b'{"text": "a", "labels": []}\n["b"]\n', 2, None, "object in braces"),
        (b'{"text": 5, "labels": []}', 1, None, "'text' must be text"),
        (b'{"text": "a", "labels": {"x": 1}}', 1, None, "must hold names, not an object"),
        (b'{"text": "a", "labels": [1.5]}', 1, None, "must hold names, not a fraction"),
        (b'{"text": "a", "labels": [true]}', 1, None, "must hold names, not true or false"),
        (b'{"text": "a", "labels": [""]}', 1, None, "a label in 'labels' is empty"),
        (b'{"text": "a", "labels": [null]}', 1, None, "must hold names, not nothing"),
        (b'{"text": "a", "labels": [], "id": [1]}', 1, None, "'id' must be text or a whole"),
        (b'{"text": "a", "labels": [], "x": NaN}', 1, None, "NaN is not a JSON number"),
        (b'{"text": "a", "labels": [], "x": -Infinity}', 1, None, "Infinity"),
        (b'{"text": "\\ud800", "labels": []}', 1, None, "surrogate"),
        (b'{"text": "a", "labels": ["\\uDC00"]}', 1, None, "surrogate"),
        ('{"text": "ä'.encode() + b"\xff", 1, 12, "0xff is not UTF-8"),
        (b'{"text": "a", "labels": []}\n{"text": "' + "é".encode("latin-1"), 2, 11, "UTF-8"),
        (b'{"x": ' + b"[" * 100_000, 1, None, "not valid JSON"),
        (b'{"x": ' + b"1" * 5000 + b"}", 1, None, "not valid JSON"),
        (b"", None, None, "empty"),
        (b"\n\n", None, None, "empty"),
        (b"\xef\xbb\xbf", None, None, "empty"),
    ],
)
def test_broken_json(
    tmp_path: Path, content: bytes, line: int | None, column: int | None, message: str
) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read(path)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert str(path) in str(caught.value)


ARRAY = """[
  {"text": "a", "labels": ["x"], "nested": [{"y": "]"}]},
  {"text": "b",
   "labels": []}

]
"""


@pytest.mark.parametrize("name", ["t.json", "t.jsonl", "t.txt"])
def test_an_array_of_objects(tmp_path: Path, name: str) -> None:
    for content in (ARRAY, json.dumps(json.loads(ARRAY)), "\n" + ARRAY):
        (tmp_path / name).write_text(content)
        assert read(tmp_path / name).texts == ["a", "b"]


@pytest.mark.parametrize(
    ("damage", "line", "message"),
    [
        (('"b"', "7"), 3, "'text' must be text"),
        (('"b",', '"b"'), 4, "not valid JSON"),
        (("]},\n", "]}\n"), 2, "expected a comma"),
        (("\n]\n", ""), 4, "or the end of the JSON array"),
        (("\n]\n", "] []"), 4, "or the end of the JSON array"),
        (("\n]\n", ', "text"]'), 4, "expected a comma and another object"),
        (('"b"', '"\\ud800"'), 3, "surrogate"),
    ],
)
def test_a_broken_array(tmp_path: Path, damage: tuple[str, str], line: int, message: str) -> None:
    path = tmp_path / "t.json"
    assert ARRAY.count(damage[0]) == 1
    path.write_text(ARRAY.replace(*damage).rstrip(" "))
    with pytest.raises(DataError, match=message) as caught:
        read(path)
    assert caught.value.line == line


def test_a_surrogate_pair_is_a_character(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"text": "\\ud83d\\ude00", "labels": []}')
    assert read(path).texts == ["\U0001f600"]


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        (b"text,labels\na,x\nb\n", 3, "1 cells where the header has 2"),
        (b'text,labels\n"a\nb",x\nc,x,y\n', 4, "3 cells"),
        (b'text,labels\na,x\n"b,x\nc,x\n', 3, "broken"),
        (b'text,labels\n"a"b,x\n', 2, "broken"),
        (b"text,labels\na,x\nb\0c,x\n", 3, "NUL"),
        (b"text,text,labels\na,b,x\n", 1, "twice: text"),
        (b"text,labels\n\xff,x\n", 2, "UTF-8"),
        (b"text,labels\n", None, "no examples"),
        (b"text\na\n", None, "no label column 'labels'"),
        (b"a,labels\na,x\n", None, "neither a text column 'text'"),
    ],
)
def test_broken_csv(tmp_path: Path, content: bytes, line: int | None, message: str) -> None:
    for name in ("t.csv", "t.tsv"):
        path = tmp_path / name
        path.write_bytes(content if name == "t.csv" else content.replace(b",", b"\t"))
        with pytest.raises(DataError, match=message) as caught:
            read(path)
        assert caught.value.line == line


def test_long_cells(tmp_path: Path) -> None:
    text = "word " * 200_000
    for name in ("t.csv", "t.jsonl"):
        path = write_rows(tmp_path / name, [{"text": text, "labels": ["x"]}])
        assert read(path).texts == [text]


def test_broken_parquet(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "t.parquet", ROWS)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="not a readable Parquet file"):
        read(path)
    path.write_text("no parquet")
    with pytest.raises(DataError, match="not a readable Parquet file"):
        read(path)
    pq.write_table(pa.table({"text": [b"\xff"], "labels": [["x"]]}), path)
    with pytest.raises(DataError, match="'text' must be text, not bytes"):
        read(path)
    pq.write_table(pa.table({"text": pa.array([], pa.string()), "labels": []}), path)
    with pytest.raises(DataError, match="no examples"):
        read(path)


def test_parquet_of_more_rows_than_memory_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.parquet"
    n = 1_000_000
    row = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), pa.array(["same"]))
    pq.write_table(pa.table({"text": row, "labels": row}), path)
    assert path.stat().st_size < 20_000
    monkeypatch.setattr(machine, "available_bytes", lambda: 10_000_000)
    with pytest.raises(MemoryBudgetError, match=r"1,000,000 rows need more than 80\.0 MB"):
        read(path)
    assert len(next(iter_batches(path, batch_size=10))) == 10


def test_truncated_gzip(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "t.jsonl.gz", ROWS * 100)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DataError, match="gzip"):
        read(path)


def test_a_missing_column_is_named_with_its_neighbour(tmp_path: Path) -> None:
    rows = [{"titel": "t", "tags": ["x"], "id": "1"}]
    for name in ("t.jsonl", "t.csv", "t.parquet"):
        path = write_rows(tmp_path / name, rows)
        with pytest.raises(DataError, match=r"'title'.*did you mean 'titel'.*id, tags, titel"):
            read(path, columns=Columns(text=("title",), labels=("tags",)))
        with pytest.raises(DataError, match=r"no column 'tag'.*did you mean 'tags'"):
            read(path, columns=Columns(text=("titel",), labels=("tag",)))
        with pytest.raises(DataError, match="no column 'key'"):
            read(path, columns=Columns(text=("titel",), labels=("tags",), id="key"))
        with pytest.raises(DataError, match="no column 'width'"):
            read(path, columns=Columns(labels=("tags",), numbers=("width",)))


@pytest.mark.parametrize("size", [1, 5, 5000])
def test_a_misspelt_column_is_found_before_any_row_is_given(tmp_path: Path, size: int) -> None:
    rows = [{"title": "t", "labels": []}] * 3000
    columns = Columns(text=("title", "bodi"))
    for source in (jsonl(tmp_path / "t.jsonl", *rows), rows):
        with pytest.raises(DataError, match="no column 'bodi'"):
            next(iter_batches(source, batch_size=size, columns=columns))
    rows[900] = {"title": "t", "bodi": "late"}
    path = jsonl(tmp_path / "t.jsonl", *rows)
    assert len(next(iter_batches(path, batch_size=size, columns=columns))) == min(size, 3000)
    assert len(read(path, columns=columns)) == 3000


def test_labels_to_predict_for_are_not_checked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [{"text": "t", "labels": cell} for cell in (3.5, [None], {"a": 1}, ["x", ""], True)]
    path = jsonl(tmp_path / "t.jsonl", *rows, {"text": "t", "labels": ["x", "z"]})
    with caplog.at_level(logging.WARNING):
        for names in (None, ["x"]):
            (batch,) = iter_batches(path, label_names=names, unknown_labels="drop")
            assert len(batch) == 6
            assert batch.labels[:5].nnz == 0
    assert caplog.text == ""
    with pytest.raises(DataError, match="must hold names"):
        read(path)


def test_batches_share_the_label_names(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "t.jsonl", *ROWS * 2)
    names = ("apple", "mango", "zebra")
    for known, expected in ((names, names), (None, ("zebra", "apple", "mango"))):
        batches = list(iter_batches(path, batch_size=3, label_names=known))
        assert batches[0].label_names == expected
        assert batches[0].label_names is batches[1].label_names


def test_prediction_input_needs_no_labels(tmp_path: Path) -> None:
    for name in ("t.jsonl", "t.csv", "t.parquet"):
        path = write_rows(tmp_path / name, [{"text": "t"}])
        with pytest.raises(DataError, match="no label column"):
            read(path)
        columns = Columns(labels=("tags",), path=("category",))
        dataset = read(path, columns=columns, require_labels=False, label_names=["x", "y"])
        assert dataset.labels.shape == (1, 2)
        assert dataset.labels.nnz == 0


# Known labels ---------------------------------------------------------------------------------


def test_known_labels(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write_rows(tmp_path / "t.jsonl", ROWS)
    names = ["zebra", "unused", "Apple pie"]
    extended = read(path, label_names=names, unknown_labels="extend")
    assert extended.label_names == ("zebra", "unused", "Apple pie", "apple", "mango")
    assert of_names(extended) == [["zebra", "apple"], [], ["apple", "mango"]]
    with caplog.at_level(logging.WARNING):
        dropped = read(path, label_names=names, unknown_labels="drop")
    assert dropped.label_names == tuple(names)
    assert of_names(dropped) == [["zebra"], [], []]
    assert "4 unknown labels were dropped" in caplog.text
    assert read(path, label_names=["zebra", "mango", "apple"]).label_names == (
        "zebra",
        "mango",
        "apple",
    )


def test_an_unknown_label_is_an_error_that_names_the_nearest(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "t.jsonl", ROWS)
    with pytest.raises(DataError, match=r"'mango' is not among.*did you mean 'Mangos'") as caught:
        read(path, label_names=["zebra", "apple", "Mangos"])
    assert caught.value.line == 3


def test_impossible_vocabularies(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "t.jsonl", ROWS)
    with pytest.raises(ParameterError, match="twice"):
        read(path, label_names=["a", "a"])
    with pytest.raises(ParameterError, match="unknown_labels"):
        read(path, unknown_labels="ignore")


# Batches --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["t.jsonl.gz", "t.csv", "t.tsv", "t.parquet"])
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_batches_add_up_to_the_whole(tmp_path: Path, name: str, size: int) -> None:
    path = write_rows(tmp_path / name, ROWS * 3)
    batches = list(iter_batches(path, batch_size=size, label_names=("apple", "mango", "zebra")))
    assert [len(batch) for batch in batches[:-1]] == [size] * (len(batches) - 1)
    assert sum(map(len, batches)) == 9
    whole = read(path)
    assert [text for batch in batches for text in batch.texts or ()] == whole.texts
    assert [i for batch in batches for i in batch.ids or ()] == whole.ids
    stacked = np.vstack([batch.labels.toarray() for batch in batches])
    np.testing.assert_array_equal(stacked, whole.labels.toarray())


def test_batches_without_known_labels_keep_their_ids(tmp_path: Path) -> None:
    batches = list(iter_batches(write_rows(tmp_path / "t.jsonl", ROWS), batch_size=1))
    assert [batch.label_names for batch in batches] == [
        ("zebra", "apple"),
        ("zebra", "apple"),
        ("zebra", "apple", "mango"),
    ]
    assert of_names(batches[2]) == [["apple", "mango"]]


def test_batches_need_no_more_of_the_file_than_they_give(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "t.jsonl", *ROWS)
    with path.open("a") as stream:
        stream.write("broken\n")
    batches = iter_batches(path, batch_size=2)
    assert len(next(batches)) == 2
    with pytest.raises(DataError) as caught:
        next(batches)
    assert caught.value.line == 4
    with pytest.raises(ParameterError, match="batch_size"):
        iter_batches(path, batch_size=0)


# Writing --------------------------------------------------------------------------------------


def sample() -> Dataset:
    return Dataset(
        labels=csr_matrix(np.array(LABELS, np.float32)),
        features=csr_matrix(np.array([[0, 0.1, 0, 0], [0, 0, 0, 0], [-3, 0, 1e-9, 0]], np.float32)),
        texts=["one", "zwei\n€", ""],
        label_names=("apple", "mango", "zebra"),
        ids=["a", "b", "c"],
    )


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz", "t.parquet"])
def test_write_and_read(tmp_path: Path, name: str) -> None:
    dataset, path = sample(), tmp_path / name
    write(dataset, path)
    back = read(path, n_features=4 if "json" in name else None)
    assert (back.texts, back.ids) == (dataset.texts, dataset.ids)
    assert back.label_names == dataset.label_names
    for ours, theirs in ((back.labels, dataset.labels), (back.features, dataset.features)):
        assert ours.shape == theirs.shape
        assert (ours != theirs).nnz == 0
    first = path.read_bytes()
    write(dataset, path)
    assert path.read_bytes() == first
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_what_json_lines_look_like(tmp_path: Path) -> None:
    write(sample(), tmp_path / "t.jsonl")
    lines = (tmp_path / "t.jsonl").read_text(encoding="utf-8").splitlines()
    assert lines[0] == (
        '{"id": "a", "text": "one", "labels": ["apple", "zebra"], "features": {"1": 0.1}}'
    )
    assert "€" in lines[1]


def test_written_parquet_is_plain_for_others(tmp_path: Path) -> None:
    write(sample(), tmp_path / "t.parquet")
    table = pq.read_table(tmp_path / "t.parquet")
    assert table.column_names == ["id", "text", "labels", "feature_indices", "feature_values"]
    assert table["labels"].to_pylist() == [["apple", "zebra"], [], ["apple", "mango"]]
    assert table["feature_indices"].to_pylist() == [[1], [], [0, 2]]


def test_dense_features_are_written_as_sparse_ones(tmp_path: Path) -> None:
    dense = np.array([[0.25, 0], [1, 2]], np.float32)
    dataset = Dataset(csr_matrix(np.eye(2, dtype=np.float32)), features=dense)
    for name in ("t.jsonl", "t.parquet"):
        write(dataset, tmp_path / name)
        back = read(tmp_path / name)
        assert back.label_names == ("0", "1")
        assert back.texts is None
        np.testing.assert_array_equal(back.features.toarray(), dense)


@pytest.mark.parametrize("name", ["t.jsonl", "t.parquet"])
def test_a_failed_write_leaves_the_old_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write(sample(), path)
    before = path.read_bytes()
    one = csr_matrix(np.ones((1, 1), np.float32))
    with pytest.raises(DataError, match="no valid text"):
        write(Dataset(one, texts=["bad \ud800"]), path)
    with pytest.raises(DataError, match="NaN"):
        write(Dataset(one, features=np.array([[np.nan]], np.float32)), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == [name]
    with pytest.raises(DataError, match="cannot be written"):
        write(sample(), tmp_path / "nowhere" / name)
