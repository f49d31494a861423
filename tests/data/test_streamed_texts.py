"""Texts that stay in their file: the same ones in the same order, however they are asked for."""

from __future__ import annotations

import csv
import gzip
import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labelspace.data import Columns, Dataset, read
from labelspace.data.streamed_texts import StreamedTexts
from labelspace.errors import DataError
from labelspace.features import make_features

ROWS = [
    {
        "id": None if number % 5 == 0 else f"row {number}",
        "title": f"title {number}" if number % 3 else None,
        "text": f"text {number}, with a comma\nand äöü {'word ' * (number % 4)}",
        "labels": ["odd" if number % 2 else "even", f"tens {number // 10}"],
    }
    for number in range(100)
]
COLUMNS = Columns(text=("title", "text"))


def written(folder: Path, kind: str) -> Path:
    path = folder / f"data.{kind}"
    lines = "".join(json.dumps(row) + "\n\n" for row in ROWS)
    if kind == "jsonl":
        path.write_text(lines, encoding="utf-8")
    elif kind == "jsonl.gz":
        path.write_bytes(gzip.compress(lines.encode()))
    elif kind == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    else:
        with path.open("w", newline="", encoding="utf-8") as stream:
            table = csv.DictWriter(stream, list(ROWS[0]), delimiter="\t" if kind == "tsv" else ",")
            table.writeheader()
            table.writerows({**row, "labels": "|".join(row["labels"])} for row in ROWS)
    return path


@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz", "csv", "tsv", "parquet"])
def test_a_file_is_read_as_if_its_texts_were_in_memory(tmp_path, kind):
    path = written(tmp_path, kind)
    held, streamed = read(path, columns=COLUMNS), read(path, columns=COLUMNS, most_letters=500)
    assert isinstance(streamed.texts, StreamedTexts)
    assert list(streamed.texts) == held.texts
    assert (streamed.ids, streamed.label_names) == (held.ids, held.label_names)
    assert (streamed.labels != held.labels).nnz == 0
    assert [streamed.texts[place] for place in (0, 57, -1)] == [held.texts[p] for p in (0, 57, -1)]
    assert streamed.texts[3:9:2] == held.texts[3:9:2]
    for ours, theirs in zip(streamed.split(0.3), held.split(0.3), strict=True):
        assert isinstance(ours.texts, StreamedTexts)
        assert list(ours.texts) == theirs.texts
        some = np.array([5, 2, 2, -1, 0])
        assert list(ours.take(some).texts) == theirs.take(some).texts
        found = [text for batch in ours.batches(7) for text in batch.texts]
        assert found == theirs.texts


def test_texts_within_the_limit_are_in_memory(tmp_path):
    path = written(tmp_path, "jsonl")
    whole = sum(map(len, read(path, columns=COLUMNS).texts))
    assert isinstance(read(path, columns=COLUMNS, most_letters=whole).texts, list)
    assert isinstance(read(path, columns=COLUMNS, most_letters=whole - 1).texts, StreamedTexts)


def test_a_pipe_can_be_read_again(tmp_path):
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    if os.fork() == 0:
        pipe.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
        os._exit(0)
    streamed = read(pipe, columns=COLUMNS, most_letters=10)
    os.wait()
    assert isinstance(streamed.texts, StreamedTexts)
    assert list(streamed.texts) == read(ROWS, columns=COLUMNS).texts


@pytest.mark.parametrize("spec", ["tfidf", "chars", "tfidf+0.5*chars", "hashing"])
def test_features_are_those_of_texts_in_memory_to_the_bit(tmp_path, spec):
    path = written(tmp_path, "jsonl")
    streamed = read(path, columns=COLUMNS, most_letters=10).texts
    ours, theirs = make_features(spec), make_features(spec)
    rows, expected = ours.fit_transform(streamed), theirs.fit_transform(list(streamed))
    assert ours.feature_names() == theirs.feature_names()
    for again in (rows, ours.transform(streamed)):
        for part in ("indptr", "indices", "data"):
            np.testing.assert_array_equal(getattr(again, part), getattr(expected, part))


def test_a_file_that_has_changed_is_an_error(tmp_path):
    path = written(tmp_path, "jsonl")
    data = read(path, columns=COLUMNS, most_letters=10)
    with path.open("a") as stream:
        stream.write(json.dumps(ROWS[0]) + "\n")
    with pytest.raises(DataError, match="changed while it was read"):
        list(data.texts)
    path.unlink()
    with pytest.raises(DataError, match="cannot be read again"):
        list(data.texts)


def test_batches_of_a_dataset_in_memory():
    data = Dataset(read(ROWS, columns=COLUMNS).labels, texts=[row["text"] for row in ROWS])
    sizes = [(len(batch), len(batch.texts)) for batch in data.batches(30)]
    assert sizes == [(30, 30), (30, 30), (30, 30), (10, 10)]
