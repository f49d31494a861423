"""Lists written as text, names between separators, and cells that were perhaps misread."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelspace.data import Columns, read
from labelspace.data.cells import enumerated, listed, parts, shown
from labelspace.errors import DataError

names = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), max_size=5)


@given(names)
def test_lists_as_python_json_and_numpy_write_them(expected: list[str]) -> None:
    assert listed(str(expected)) == expected
    assert listed(json.dumps(expected)) == expected
    assert listed(f" {json.dumps(expected, ensure_ascii=False)}\n") == expected


def test_an_array_as_numpy_prints_it() -> None:
    expected = [f"name {i}" for i in range(40)]
    assert listed(str(np.array(expected))) == expected  # over several lines, without commas


@pytest.mark.parametrize(
    "text",
    [
        "[archived]", "a", "[", "]", "", "['a'", "['a', b]", "['a',, 'b']", "[,'a']", "['a'x]",
        "[1.5]", "[null]", "[None]", "[['a']]", '[{"a": 1}]', "['a' + 'b']", "[f'a']",
        "[__import__('os')]", '["\\ud800"]', "[" * 100_000 + "]", "[" + "9" * 5000 + "]",
    ],
)  # fmt: skip
def test_what_is_no_list_of_names(text: str) -> None:
    assert listed(text) is None


def test_parts() -> None:
    assert parts("a | b||c|", "|") == (["a", "b", "c"], 2)
    assert parts(" | ", "|") == ([], 2)


def test_names_in_errors_are_short() -> None:
    assert shown("x" * 60) == repr("x" * 60)
    assert len(shown("x" * 2000)) == 62
    listing = enumerated(["x" * 2000] * 100)
    assert len(listing) < 2000
    assert listing.endswith("and 80 more")


# What is read as one name -----------------------------------------------------------------------


def table(path: Path, column: str, cells: list[str]) -> Path:
    path.write_text("".join(json.dumps({"text": "t", column: cell}) + "\n" for cell in cells))
    return path


@pytest.mark.parametrize(
    ("cells", "advice"),
    [
        (["a, b", "b, c", "c", "a, c"], "add --label-separator ','"),
        (["a;b", "b;c", "c;a"], "add --label-separator ';'"),
        (["A > B", "A > C", "A > D"], "read them with --path-columns labels"),
        (["a, b", "b, c", "c", "a|c"], None),
        (["a, b", "b, c"], None),
        ([f"n{i}" for i in range(50)] + ["a, b", "b, c", "c, d"], None),
    ],
)
def test_a_likely_separator_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, cells: list[str], advice: str | None
) -> None:
    with caplog.at_level(logging.WARNING):
        read(table(tmp_path / "t.jsonl", "labels", cells))
    assert caplog.text == "" if advice is None else advice in caplog.text
    caplog.clear()
    # Who names a separator, even none, has decided; and predictions need no labels.
    read(tmp_path / "t.jsonl", columns=Columns(label_separator=""))
    read(tmp_path / "t.jsonl", require_labels=False)
    assert caplog.text == ""


def test_empty_names_are_left_out_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        dataset = read(table(tmp_path / "t.jsonl", "labels", ["fruit|", "a||b", '["c", ""]']))
    assert dataset.label_names == ("a", "b", "c", "fruit")
    assert "3 empty names between separators were left out" in caplog.text
    assert len(caplog.records) == 1


# Paths in one cell ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "separator", "deepest"),
    [
        ("A > B > C", None, "A > B > C"),
        ('["A", "B", "C"]', None, "A > B > C"),
        ("A/B/C", "/", "A > B > C"),
        ("A>B > C", ">", "A > B > C"),
        ("A >> B >> C", ">>", "A > B > C"),
        (["A >> B >> C"], ">>", "A > B > C"),
        (["A", "B", "C"], "/", "A > B > C"),
        ("/A/B/", "/", "A > B"),
        ("A/B", None, "A/B"),
        ("A", None, "A"),
        ("", None, None),
        (None, ">", None),
    ],
)
def test_a_path_in_one_cell(
    tmp_path: Path, cell: Any, separator: str | None, deepest: str | None
) -> None:
    path = table(tmp_path / "t.jsonl", "category", [cell, "Z"])
    columns = Columns(path=("category",), labels=(), path_separator=separator)
    dataset = read(path, columns=columns)
    found = [dataset.names()[label] for label in dataset.labels[0].indices]
    assert (found[-1] if found else None) == deepest
    assert dataset.taxonomy is not None
    assert len(dataset.taxonomy.edges) == (len(found) - 1 if found else 0)


def test_one_label_is_never_two_paths(tmp_path: Path) -> None:
    rows = [["A", "B"], ["A > B"]]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps({"text": "t", "path": row}) + "\n" for row in rows))
    with pytest.raises(DataError, match="the level 'A > B' in 'path' holds ' > '") as caught:
        read(path, columns=Columns(path=("path",), labels=()))
    assert caught.value.line == 2
    path.write_text('{"text": "t", "path": "A > B"}\n')
    with pytest.raises(DataError, match="--path-separator"):
        read(path, columns=Columns(path=("path",), labels=(), path_separator=""))


def test_a_label_may_hold_what_joins_paths(tmp_path: Path) -> None:
    path = table(tmp_path / "t.jsonl", "labels", ["A > B"])
    assert read(path).label_names == ("A > B",)


def test_a_path_that_was_not_split_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = table(tmp_path / "t.jsonl", "category", ["A/B", "A/C", "A/D/E"])
    with caplog.at_level(logging.WARNING):
        read(path, columns=Columns(path=("category",), labels=()))
    assert "add --path-separator '/'" in caplog.text
