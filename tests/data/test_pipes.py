"""Pipes: read once and whole, under their own name, with nothing left behind."""

from __future__ import annotations

import gc
import gzip
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from labelspace._core import streams as _files
from labelspace._core.streams import at_rest
from labelspace.data import Dataset, iter_batches, read, read_split, read_taxonomy, write
from labelspace.data.name_files import read_names
from labelspace.data.recognise import recognise
from labelspace.errors import DataError, ParameterError

N = 6000  # rows: more than one block of every reader
SVM = "".join(f"{i % 10} 1:1 {i + 2}:1\n" for i in range(N))
XC = f"{N} {N + 2} 10\n" + "".join(f"{i % 10} 0:1 {i + 1}:1\n" for i in range(N))
# Lines that end at the borders of the first look, which cost whole rows without an error.
JSONL = "".join(f'{{"text": "{i:05} {"x" * 36}", "labels": ["{i % 10}"]}}\n' for i in range(N))
CSV = "text,labels\n" + "".join(f"word {i},{i % 10}\n" for i in range(N))

Feed = Callable[..., Path]


@pytest.fixture
def feed(tmp_path: Path) -> Iterator[Feed]:
    """Return feed(name, content), which makes a FIFO and writes to it from another thread."""
    writers = []

    def make(name: str, content: bytes | str) -> Path:
        path = tmp_path / name
        os.mkfifo(path)
        data = content.encode() if isinstance(content, str) else content
        writers.append(threading.Thread(target=path.write_bytes, args=(data,)))
        writers[-1].start()
        return path

    yield make
    for writer in writers:
        writer.join(timeout=60)
        assert not writer.is_alive()


def same(one: Dataset, other: Dataset) -> bool:
    texts = one.texts == other.texts
    features = one.features is None or (one.features != other.features).nnz == 0
    return bool(texts and features and (one.labels != other.labels).nnz == 0)


@pytest.mark.parametrize(
    ("name", "content"),
    [("a", SVM), ("a", XC), ("a", JSONL), ("a", CSV), ("a.csv", CSV), ("a.svm", SVM)],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_a_fifo_is_read_as_its_content_in_a_file(
    feed: Feed, tmp_path: Path, name: str, content: str, zipped: bool
) -> None:
    packed = gzip.compress(content.encode()) if zipped else content.encode()
    file = tmp_path / "files" / name
    file.parent.mkdir()
    file.write_bytes(packed)
    whole = read(file)
    assert len(whole) == N
    assert same(read(feed(name, packed)), whole)
    (tmp_path / name).unlink()
    sizes = {"n_features": whole.n_features, "n_labels": 10, "label_names": whole.names()}
    batches = list(iter_batches(feed(name, packed), batch_size=1000, **sizes))
    assert sum(len(batch) for batch in batches) == N
    assert np.vstack([batch.labels.toarray() for batch in batches]).sum() == whole.labels.nnz


def test_parquet_through_a_pipe(feed: Feed, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(XC)
    dataset = read(tmp_path / "a.txt")
    write(dataset, tmp_path / "a.parquet")
    back = read(feed("pipe", (tmp_path / "a.parquet").read_bytes()))
    assert (back.features != dataset.features).nnz == 0


def test_two_pipes_are_a_split(feed: Feed) -> None:
    train, test = read_split(feed("one", SVM), feed("two", SVM))
    assert len(train) == len(test) == N
    assert same(train, test)


def test_names_and_hierarchies_through_pipes(feed: Feed) -> None:
    assert read_names(feed("names", "a\nb\n")) == ["a", "b"]
    edges = feed("edges", gzip.compress(b"a\tb\n"))
    assert read_taxonomy(edges, ["a"]).node_names == ("a", "b")


def test_errors_name_the_pipe_and_its_line(feed: Feed) -> None:
    path = feed("broken", JSONL + "{")
    with pytest.raises(DataError, match=rf"^{path}:{N + 1}:"):
        read(path)
    with pytest.raises(DataError, match=r"empty: the file is empty"):
        read(feed("empty", ""))
    assert recognise(feed("again", XC)) == "xc"


def test_nothing_is_looked_for_beside_a_pipe(feed: Feed, tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("".join(f"name {i}\n" for i in range(10)))
    (tmp_path / "hierarchy.tsv").write_text("1\t2\n")
    dataset = read(feed("pipe", XC))
    assert dataset.label_names is None
    assert dataset.taxonomy is None


@pytest.mark.parametrize("nameless", [True, False])
def test_nothing_is_left_behind(
    feed: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nameless: bool
) -> None:
    folder, descriptors = tmp_path / "temporary", Path("/proc/self/fd")
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    if not nameless:
        monkeypatch.setattr(_files, "_DESCRIPTORS", tmp_path / "absent")
    before = set(os.listdir(descriptors)) if descriptors.is_dir() else set()
    path = at_rest(feed("pipe", XC))
    assert len(read(path)) == len(read(path)) == N
    assert len(list(folder.iterdir())) == (0 if nameless and before else 1)
    with pytest.raises(DataError):
        read(feed("broken", XC + "x"))
    batches = iter_batches(feed("half", JSONL), batch_size=10)
    next(batches)
    del path, batches
    gc.collect()
    assert list(folder.iterdir()) == []
    if before:
        assert set(os.listdir(descriptors)) <= before


def test_a_temporary_folder_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\n")))
    with pytest.raises(DataError, match=r"cannot be kept in .*set TMPDIR"):
        at_rest("-")


def test_standard_input(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "labels.txt").write_text("".join(f"name {i}\n" for i in range(10)))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(XC.encode())))
    dataset = read("-")
    assert (len(dataset), dataset.source, dataset.label_names) == (N, "standard input", None)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"text": "a"\n')))
    with pytest.raises(DataError, match=r"^standard input:1:"):
        read("-")
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(DataError, match=r"standard input: .*closed"):
        read("-")


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_the_command_reads_standard_input(name: str) -> None:
    command = [sys.executable, "-m", "labelspace", "data", "info", name, "--json"]
    done = subprocess.run(command, input=SVM, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert (found["points"], found["labels"]) == (N, 10)


def test_what_is_neither_a_file_nor_a_pipe() -> None:
    with pytest.raises(DataError, match="a device, expected a file or a pipe"):
        read("/dev/zero")
    with pytest.raises(DataError, match="not the name of a file"):
        read("a\ud800b")
    for nothing in (None, 5, "a\0b"):
        with pytest.raises(ParameterError):
            read(nothing)  # type: ignore[arg-type]
