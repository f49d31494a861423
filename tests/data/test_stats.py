"""Statistics against counting by hand, and the bands against their definition."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from labelspace.data import (
    Columns,
    Dataset,
    Taxonomy,
    label_bands,
    read,
    read_split,
    statistics,
)
from labelspace.data.stats import samples, suspicions
from labelspace.errors import InputError


def bands_by_definition(counts: list[int]) -> list[int]:
    total, passed = sum(counts), 0
    bands = [2] * len(counts)
    for label in sorted(range(len(counts)), key=lambda i: (-counts[i], i)):
        if counts[label]:
            share = Fraction(passed, total)
            bands[label] = 0 if share < Fraction(1, 2) else 1 if share < Fraction(85, 100) else 2
        passed += counts[label]
    return bands


@given(st.lists(st.integers(0, 50), max_size=40))
@settings(max_examples=150, deadline=None)
def test_bands(counts: list[int]) -> None:
    assert label_bands(np.array(counts, np.int64)).tolist() == bands_by_definition(counts)


def test_bands_of_a_small_case() -> None:
    # 10 + 5 reach half of 20 only with the first label; 5 and 2 lie before 17.
    assert label_bands(np.array([1, 5, 0, 10, 2, 1, 1])).tolist() == [2, 1, 2, 0, 1, 2, 2]
    assert label_bands(np.array([0, 0])).tolist() == [2, 2]
    assert label_bands(np.array([3, 3], np.uint8)).tolist() == [0, 1]
    for wrong in ([-1], [0.5], [[1]]):
        with pytest.raises(InputError):
            label_bands(np.array(wrong))


def test_statistics_by_hand() -> None:
    features = csr_matrix(np.array([[1, 0, 2], [0, 0, 0], [0, 3, 0]], np.float32))
    features.data[0] = 0  # stored, but nothing
    dataset = Dataset(
        labels=csr_matrix(np.array([[1, 1, 0, 0], [0, 0, 0, 0], [1, 0, 0, 1]], np.float32)),
        features=features,
        taxonomy=Taxonomy.from_names([("1", "0"), ("2", "1")], ["0", "1", "2", "3"]),
    )
    assert statistics(dataset) == {
        "points": 3,
        "features": 3,
        "labels": 4,
        "points_per_label": 1.0,
        "labels_per_point": pytest.approx(4 / 3),
        "features_per_point": pytest.approx(2 / 3),
        "labels_used": 3,
        "rows_without_labels": 1,
        "rows_without_features": 1,
        "head_labels": 1,
        "torso_labels": 2,
        "tail_labels": 1,
        "taxonomy_edges": 2,
        "taxonomy_depth": 2,
    }


def test_statistics_of_texts_of_dense_features_and_of_nothing() -> None:
    labels = csr_matrix(np.ones((2, 1), np.float32))
    of_texts = statistics(Dataset(labels, texts=["words", " \n"]))
    assert of_texts["features"] is None
    assert of_texts["features_per_point"] is None
    assert of_texts["rows_without_features"] == 1
    assert "taxonomy_edges" not in of_texts
    of_dense = statistics(Dataset(labels, features=np.array([[0, 0], [1, 2]], np.float32)))
    assert of_dense["features_per_point"] == 1
    assert of_dense["rows_without_features"] == 1
    empty = statistics(Dataset(csr_matrix((0, 0), dtype=np.float32)))
    assert empty["points"] == empty["labels"] == empty["labels_per_point"] == 0


def test_published_figures_of_bibtex(shared_data) -> None:
    train, test = read_split(shared_data("bibtex"))
    first, second = statistics(train), statistics(test)
    assert (first["points"], second["points"]) == (4880, 2515)
    assert (first["features"], first["labels"]) == (1836, 159)
    everything = train.labels.nnz + test.labels.nnz
    assert everything / 7395 == pytest.approx(2.40, abs=0.005)
    assert everything / 159 == pytest.approx(111.71, abs=0.01)


def test_rows_as_they_were_understood(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("id,text,w,labels\na," + "word " * 100 + ",1.5,x|y\n,b,,x\nc,c,2,y\nd,d,3,x\n")
    dataset = read(file, columns=Columns(numbers=("w",)))
    first, second, third = samples(dataset)
    assert first["id"] == "a"
    assert len(first["text"]) == 200
    assert first["text"].endswith("…")
    assert (first["labels"], first["numbers"]) == (["x", "y"], {"w": 1.5})
    assert second == {"id": 2, "text": "b", "labels": ["x"], "numbers": {"w": None}}
    assert third["labels"] == ["y"]
    assert statistics(dataset)["missing_numbers"] == 1
    assert suspicions(dataset) == []


def test_one_label_each_is_suspicious_in_a_table(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text('text,labels\na,"x, y"\nb,"y, z"\n')
    assert "--label-separator" in suspicions(read(file))[0]
    file = tmp_path / "t.txt"
    file.write_text("2 3 2\n0 0:1\n1 1:1\n")
    assert suspicions(read(file)) == []
    assert samples(read(file))[1] == {"labels": ["1"], "features": 1}
