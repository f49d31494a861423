"""Label texts of a data set: files beside it, labels without examples, broader labels."""

from __future__ import annotations

import json

import pytest

from labelspace.data import read, read_label_texts, read_split
from labelspace.data.stats import statistics
from labelspace.errors import DataError

ROWS = [{"text": "ripe apple", "labels": ["c2"]}, {"text": "saw", "labels": ["c3"]}]
TEXTS = "id\tname\tbroader\nc1\tfruit\t\nc2\tapple\tc1\nc3\ttool\t\nc4\tpear\tc1\n"


@pytest.fixture
def folder(tmp_path):
    for name in ("train", "test"):
        lines = "".join(json.dumps(row) + "\n" for row in ROWS)
        (tmp_path / f"{name}.jsonl").write_text(lines)
    return tmp_path


def test_none_are_read_unless_wanted(folder):
    (folder / "label_texts.tsv").write_text(TEXTS)
    assert read(folder / "train.jsonl").label_texts is None
    assert read(folder / "train.jsonl", label_texts="auto").label_texts is not None


def test_labels_of_the_file_are_labels_without_examples(folder):
    (folder / "label_texts.tsv").write_text(TEXTS)
    data = read(folder / "train.jsonl", label_texts="auto")
    assert data.label_names == data.label_texts.ids == ("c2", "c3", "c1", "c4")
    assert data.labels.toarray().tolist() == [[1, 0, 0, 0], [0, 1, 0, 0]]
    assert data.label_texts.names() == ["apple", "tool", "fruit", "pear"]
    assert sorted(data.taxonomy.pairs()) == [("c2", "c1"), ("c4", "c1")]
    assert data.label_texts.broader == ()
    figures = statistics(data)
    assert (figures["labels"], figures["labels_used"], figures["tail_labels"]) == (4, 2, 2)


@pytest.mark.parametrize(
    "name", ["label_texts.tsv", "label_texts.tsv.gz", "train.jsonl.label_texts.tsv"]
)
def test_files_beside_the_data(folder, name):
    import gzip

    content = TEXTS.encode()
    (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert read(folder / "train.jsonl", label_texts="auto").n_labels == 4


def test_broader_labels_are_joined_with_the_hierarchy(folder):
    (folder / "label_texts.tsv").write_text(TEXTS)
    (folder / "hierarchy.tsv").write_text("c3\tthings\n")
    pairs = read(folder / "train.jsonl", label_texts="auto").taxonomy.pairs()
    assert sorted(pairs) == [("c2", "c1"), ("c3", "things"), ("c4", "c1")]
    assert read(folder / "train.jsonl", label_texts="auto", taxonomy=None).taxonomy is None
    (folder / "hierarchy.tsv").write_text("c1\tc2\n")
    with pytest.raises(DataError, match=r"label_texts.tsv: .*cycle.*contradict the hierarchy"):
        read(folder / "train.jsonl", label_texts="auto")


def test_texts_of_other_labels_are_an_error_if_named_and_else_a_warning(folder, caplog):
    (folder / "label_texts.tsv").write_text("x1\tone\nx2\ttwo\n")
    assert read(folder / "train.jsonl", label_texts="auto").label_texts is None
    assert "not used" in caplog.text
    with pytest.raises(DataError, match=r"label_texts.tsv: none of the labels is in this file"):
        read(folder / "train.jsonl", label_texts=folder / "label_texts.tsv")


def test_damaged_files_beside_the_data_are_errors(folder):
    (folder / "label_texts.tsv").write_text("c2\tone\nc2\ttwo\n")
    with pytest.raises(DataError, match=r"label_texts.tsv:2"):
        read(folder / "train.jsonl", label_texts="auto")


def test_texts_that_were_read_before(folder):
    (folder / "a.tsv").write_text(TEXTS)
    texts = read_label_texts(folder / "a.tsv")
    data = read(folder / "train.jsonl", label_texts=texts)
    assert data.label_texts.names() == ["apple", "tool", "fruit", "pear"]
    assert data.take([1]).label_texts is data.label_texts


def test_numbered_labels_have_texts_but_no_further_labels(folder, caplog):
    (folder / "data.txt").write_text("2 3 2\n0 0:1.0\n1 1:1.0\n")
    (folder / "label_texts.tsv").write_text("0\tfruit\n1\ttool\n2\tcloth\n")
    data = read(folder / "data.txt", label_texts="auto")
    assert data.n_labels == 2
    assert data.label_texts.names() == ["fruit", "tool"]
    assert "1 labels are left out" in caplog.text


def test_a_split_numbers_labels_of_the_test_set_last(folder):
    (folder / "label_texts.tsv").write_text(TEXTS)
    (folder / "test.jsonl").write_text('{"text": "pear", "labels": ["c4", "c9"]}\n')
    train, test = read_split(folder, label_texts="auto")
    assert train.label_names == ("c2", "c3", "c1", "c4")
    assert test.label_names == ("c2", "c3", "c1", "c4", "c9")
    assert test.labels.toarray().tolist() == [[0, 0, 0, 1, 1]]
    assert sorted(train.taxonomy.pairs()) == [("c2", "c1"), ("c4", "c1")]


def test_texts_in_another_order_are_refused(folder):
    from dataclasses import replace

    (folder / "a.tsv").write_text(TEXTS)
    data = read(folder / "train.jsonl")
    with pytest.raises(DataError, match="not in the order of the labels"):
        replace(data, label_texts=read_label_texts(folder / "a.tsv"))
