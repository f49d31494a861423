"""Tables in memory are read as files of the same rows are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from labelspace.data import Columns, iter_batches, read, read_split
from labelspace.errors import DataError, ParameterError

ROWS: list[dict[str, Any]] = [
    {"id": "a", "text": "one", "labels": ["x", "y"], "price": 1.5, "L0": "A", "L1": "B"},
    {"id": "b", "text": None, "labels": [], "price": 2.0, "L0": "A", "L1": None},
    {"id": "c", "text": "three", "labels": ["y"], "price": -1.0, "L0": None, "L1": None},
]
COLUMNS = (
    Columns(),
    Columns(numbers=("price",)),
    Columns(path=("L0", "L1"), labels=("labels",)),
    Columns(text=("text", "L0"), id=None),
)


class Stream:
    """Nothing but the Arrow interface."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.table = pa.Table.from_pylist(rows)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


MAKERS: list[Callable[[list[dict[str, Any]]], Any]] = [
    pd.DataFrame,
    pl.DataFrame,
    pa.Table.from_pylist,
    Stream,
    lambda rows: pa.Table.from_pylist(rows).to_reader(),  # can be read only once
    list,
    tuple,
    iter,
]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("columns", COLUMNS)
def test_a_table_in_memory_is_read_as_the_file(
    tmp_path: Path, make: Callable[[Any], Any], columns: Columns
) -> None:
    file = tmp_path / "t.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    expected, found = read(file, columns=columns), read(make(ROWS), columns=columns)
    assert (found.texts, found.ids) == (expected.texts, expected.ids)
    assert found.label_names == expected.label_names
    assert (found.labels != expected.labels).nnz == 0
    assert found.taxonomy == expected.taxonomy
    if expected.features is not None:
        np.testing.assert_array_equal(found.features, expected.features)
    batches = list(iter_batches(make(ROWS), batch_size=2, columns=columns))
    assert [len(batch) for batch in batches] == [2, 1]
    assert [text for batch in batches for text in batch.texts or ()] == expected.texts
    assert found.source == "the table"


@pytest.mark.parametrize("make", MAKERS)
def test_errors_name_the_table_and_the_row(make: Callable[[Any], Any]) -> None:
    rows = [{"text": "t", "labels": ["a"]}, {"text": "t", "labels": ["b"]}]
    with pytest.raises(DataError, match=r"^the table:2: the label 'b' is not among"):
        read(make(rows), label_names=["a"])
    with pytest.raises(DataError, match=r"^the table: there is no column 'txt'.*mean 'text'"):
        read(make(rows), columns=Columns(text=("txt",)))
    with pytest.raises(DataError, match="no label column"):
        read(make([{"text": "t"}]))


def test_only_wanted_columns_are_converted() -> None:
    frame = pd.DataFrame({"text": ["a", "b"], "labels": [["x"], ["y"]], "other": [object(), {1}]})
    assert read(frame).texts == ["a", "b"]
    frame["labels"] = [object(), "x"]
    with pytest.raises(DataError, match=r"^the table: cannot be converted to Arrow") as caught:
        read(frame)
    assert "\n" not in str(caught.value)


def test_an_index_may_be_the_id() -> None:
    frame = pd.DataFrame({"id": [3, 4], "text": ["a", "b"], "labels": ["x", "y"]}).set_index("id")
    assert read(frame).ids == ["3", "4"]
    assert read(frame[frame.text == "b"].reset_index(drop=True)).texts == ["b"]


def test_categories_and_values_of_numpy() -> None:
    frame = pd.DataFrame({"text": ["a", "b"], "labels": pd.Categorical(["x", None])})
    assert read(frame).labels.toarray().tolist() == [[1], [0]]
    rows = [{"text": np.str_("a"), "labels": np.array(["x", "y"]), "id": np.int64(5)},
            {"text": "b", "labels": {"x"}, "id": pd.NA}]  # fmt: skip
    assert read(rows).labels.toarray().tolist() == [[1, 1], [1, 0]]


def test_two_tables_are_a_split(tmp_path: Path) -> None:
    train = pl.DataFrame({"text": ["a", "b"], "labels": [["x"], ["y"]]})
    file = tmp_path / "test.csv"
    file.write_text("text,labels\nc,z|x\n")
    for test in (pd.DataFrame({"text": ["c"], "labels": [["z", "x"]]}), file):
        sets = read_split(train, test)
        assert sets[1].label_names == ("x", "y", "z")
        assert sets[1].labels.toarray().tolist() == [[1, 0, 1]]
    with pytest.raises(DataError, match="second file"):
        read_split(train)


@pytest.mark.parametrize("source", [None, 5, b"t.jsonl", {"text": ["a"]}, np.zeros(3)])
def test_what_is_no_table(source: Any) -> None:
    with pytest.raises(ParameterError, match="expected a file, a DataFrame or a list"):
        read(source)


def test_rows_that_are_no_rows() -> None:
    for column in (pd.Series(["a"]), pl.Series(["a"])):
        with pytest.raises(DataError, match="the table: "):
            read(column)
    with pytest.raises(DataError, match="the table:2: expected a dictionary, found str"):
        read([{"text": "a", "labels": []}, "text"])  # type: ignore[list-item]
    with pytest.raises(DataError, match="the table: there are no examples in this table"):
        read([])
