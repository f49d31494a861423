"""Random tables come back as they were; damaged files are read or refused, nothing else."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from labelspace.data import Columns, Dataset, iter_batches, read, write
from labelspace.errors import DataError

# All of Unicode but lone surrogates, which UTF-8 cannot hold.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
names = texts.filter(bool)


@st.composite
def datasets(draw: st.DrawFn) -> Dataset:
    rows = draw(st.lists(st.lists(names, max_size=4, unique=True), min_size=1, max_size=6))
    label_names = sorted({name for row in rows for name in row})
    labels = np.zeros((len(rows), len(label_names)), np.float32)
    for i, row in enumerate(rows):
        labels[i, [label_names.index(name) for name in row]] = 1
    n = len(rows)
    values = st.floats(width=32, allow_nan=False, allow_infinity=False).map(np.float32)
    features = None
    if draw(st.booleans()):
        width = draw(st.integers(1, 5))
        cells = draw(st.lists(values, min_size=n * width, max_size=n * width))
        features = csr_matrix(np.array(cells, np.float32).reshape(n, width))
    has_texts = features is None or draw(st.booleans())
    return Dataset(
        labels=csr_matrix(labels),
        features=features,
        texts=draw(st.lists(texts, min_size=n, max_size=n)) if has_texts else None,
        label_names=tuple(label_names),
        ids=draw(st.none() | st.lists(names, min_size=n, max_size=n)),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@given(dataset=datasets(), name=st.sampled_from(["t.jsonl", "t.jsonl.gz", "t.parquet"]))
@settings(max_examples=80, deadline=None)
def test_round_trip(folder: Path, dataset: Dataset, name: str) -> None:
    write(dataset, folder / name)
    back = read(folder / name, n_features=dataset.n_features)
    assert (back.texts, back.ids) == (dataset.texts, dataset.ids)
    assert back.label_names == dataset.label_names
    assert (back.labels != dataset.labels).nnz == 0
    if dataset.features is None:
        assert back.features is None
    else:
        assert back.features.shape == dataset.features.shape
        np.testing.assert_array_equal(back.features.toarray(), dataset.features.toarray())


# What a CSV cell can hold: no NUL; labels without the separator and without blanks around.
cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
plain = cells.map(lambda text: text.replace("|", "").replace("[", "").strip()).filter(bool)


@given(
    rows=st.lists(st.tuples(cells, st.lists(plain, max_size=3, unique=True)), min_size=1),
    kind=st.sampled_from([("t.csv", ","), ("t.tsv", "\t")]),
)
@settings(max_examples=80, deadline=None)
def test_csv_of_the_standard_library(
    folder: Path, rows: list[tuple[str, list[str]]], kind: tuple[str, str]
) -> None:
    name, delimiter = kind
    with (folder / name).open("w", encoding="utf-8", newline="") as stream:
        table = csv.writer(stream, delimiter=delimiter, quoting=csv.QUOTE_ALL)
        table.writerow(["text", "labels"])
        table.writerows([text, "|".join(labels)] for text, labels in rows)
    dataset = read(folder / name)
    assert dataset.texts == [text for text, _ in rows]
    known = dataset.names()
    assert known == sorted({label for _, labels in rows for label in labels})
    for i, (_, labels) in enumerate(rows):
        assert [known[j] for j in dataset.labels[i].indices] == sorted(labels)


# Damage ---------------------------------------------------------------------------------------

EXAMPLE = Dataset(
    labels=csr_matrix(np.array([[1, 0, 1], [0, 1, 0], [0, 0, 0]], np.float32)),
    features=csr_matrix(np.array([[0.5, 0], [0, 0], [1, 2]], np.float32)),
    texts=["one, two", 'größer "quoted"\n', ""],
    label_names=("a", "b|c", "ü"),
    ids=["1", "2", "3"],
)


def sample(folder: Path, name: str) -> bytes:
    path = folder / f"sample.{name}"
    if not name.endswith("sv"):
        write(EXAMPLE, path)
        return path.read_bytes()
    out = io.StringIO()
    table = csv.writer(out, delimiter="," if name == "csv" else "\t")
    table.writerow(["id", "text", "labels", "weight"])
    table.writerows([["1", t, "a|b", "0.5"] for t in EXAMPLE.texts or ()])
    return out.getvalue().encode()


bit_flips = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=4)


def damage(content: bytes, flips: list[tuple[int, int]], keep: int) -> bytes:
    mutable = bytearray(content)
    for position, byte in flips:
        mutable[position % len(mutable)] = byte
    return bytes(mutable[: max(1, len(mutable) - keep)])


def read_or_refuse(path: Path) -> None:
    columns = (Columns(), Columns(numbers=("weight",)), Columns(path=("labels",), labels=()))
    attempts: list[Callable[[], object]] = [lambda c=c: read(path, columns=c) for c in columns]
    attempts.append(lambda: list(iter_batches(path, batch_size=2, n_features=2, n_labels=3)))
    for attempt in attempts:
        message = str(path)
        try:
            attempt()
        except DataError as error:
            message = str(error)
        assert str(path) in message


@pytest.mark.parametrize("name", ["jsonl", "jsonl.gz", "csv", "tsv", "parquet"])
@given(flips=bit_flips, cut=st.just(0) | st.integers(0, 400))
@settings(max_examples=60, deadline=None)
def test_damaged_files(folder: Path, name: str, flips: list[tuple[int, int]], cut: int) -> None:
    path = folder / f"damaged.{name}"
    path.write_bytes(damage(sample(folder, name), flips, cut))
    read_or_refuse(path)


@given(flips=bit_flips, cut=st.integers(0, 60))
@settings(max_examples=60, deadline=None)
def test_damage_inside_gzip(folder: Path, flips: list[tuple[int, int]], cut: int) -> None:
    path = folder / "inside.jsonl.gz"
    path.write_bytes(gzip.compress(damage(sample(folder, "jsonl"), flips, cut), 1, mtime=0))
    read_or_refuse(path)


@given(
    content=st.binary(max_size=60),
    name=st.sampled_from(["jsonl", "json", "csv", "tsv", "txt", "svm"]),
)
@settings(max_examples=100, deadline=None)
def test_rubbish(folder: Path, content: bytes, name: str) -> None:
    path = folder / f"rubbish.{name}"
    path.write_bytes(content)
    read_or_refuse(path)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
fields = st.sampled_from(["id", "text", "labels", "features", "weight", "feature_indices", "x"])
indexed = st.dictionaries(st.sampled_from(["0", "1", "01", "99999999999"]), json_values, max_size=3)


@given(rows=st.lists(st.dictionaries(fields, json_values | indexed), min_size=1, max_size=4))
@settings(max_examples=80, deadline=None)
def test_any_json_objects(folder: Path, rows: list[dict[str, object]]) -> None:
    path = folder / "objects.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    read_or_refuse(path)
