"""Training on tables in memory, with methods as objects; and its estimates of memory."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pytest

import labelspace as ls
from labelspace.errors import ParameterError
from labelspace.features.spec import make_features
from labelspace.model.training import needed_memory

ROWS = [
    {"text": "ripe apple and pear", "labels": ["fruit", "sweet"]},
    {"text": "ripe plum and apple", "labels": ["fruit"]},
    {"text": "steel hammer", "labels": ["tool"]},
    {"text": "steel saw, a hammer", "labels": ["tool"]},
] * 3
SMALL = {"dim": 8, "epochs": 4, "batch_size": 4, "feature_damping": 0.0}
TABLES = {
    "dictionaries": lambda rows: rows,
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow": lambda rows: pl.DataFrame(rows).to_arrow(),
}


@pytest.mark.parametrize("kind", TABLES)
def test_tables_in_memory_serve_as_files_do(kind):
    table = TABLES[kind](ROWS)
    tagger = ls.train(table, valid=table, method="glas", **SMALL)
    assert tagger.label_names == ["fruit", "sweet", "tool"]
    texts = [row["text"] for row in ROWS]
    assert tagger.tag_many(table) == tagger.tag_many(texts)
    assert tagger.evaluate(table) == tagger.evaluate(ls.read(ROWS))
    tagger.update(table)
    assert tagger.metadata["updates"][0]["points"] == len(ROWS)


def test_a_column_of_texts_is_texts():
    tagger = ls.train(ROWS, method="knn")
    expected = tagger.tag_many([row["text"] for row in ROWS])
    assert tagger.tag_many(pd.DataFrame(ROWS)["text"]) == expected
    assert tagger.tag_many(pl.DataFrame(ROWS)["text"]) == expected
    assert tagger.tag_many([]) == []


def test_a_method_may_be_an_object():
    given = ls.KNN(neighbours=3)
    tagger = ls.train(ROWS, method=given)
    assert tagger.method.neighbours == 3
    assert tagger.method is not given
    assert tagger.tag_many(ROWS) == ls.train(ROWS, method="knn", neighbours=3).tag_many(ROWS)
    with pytest.raises(ParameterError, match="neighbours: set parameters on the knn instance"):
        ls.train(ROWS, method=given, neighbours=5)
    with pytest.raises(ParameterError, match="expected a name or an instance"):
        ls.train(ROWS, method=None)


def test_features_may_be_an_object():
    tagger = ls.train(ROWS, method="knn", features=make_features("hashing"))
    assert tagger.pipeline.text.kind == "hashing"
    with pytest.raises(ParameterError, match="tfidf"):
        ls.train(ROWS, method="knn", features=5)


@pytest.mark.parametrize("source", [None, 5])
def test_what_is_no_data_is_refused(source):
    tagger = ls.train(ROWS, method="glas", **SMALL)
    for take in (ls.train, tagger.evaluate, tagger.update, tagger.tag_many, tagger.predict_file):
        with pytest.raises(ParameterError, match="expected a file, a DataFrame or a list"):
            take(source)


def test_validation_labels_are_matched_by_name():
    data = ls.read(ROWS)
    other = ls.read([{"text": "steel saw", "labels": ["tool", "new"]}])
    assert list(other.label_names) == ["new", "tool"]
    tagger = ls.train(data, valid=other, method="glas", threshold_for="micro-f1", **SMALL)
    assert tagger.metadata["threshold"]["examples"] == 1
    assert tagger.metadata["threshold"]["recall"] <= 50.0  # "new" cannot be given


def test_memory_is_estimated_as_training_does():
    parts = needed_memory(ROWS, method="glas", **SMALL)
    assert parts["the data"] > 0
    assert sum(parts.values()) > parts["the data"]
