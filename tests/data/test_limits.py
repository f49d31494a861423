"""Files that claim or unpack to more than they hold: no memory for it, no time, one sentence."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from labelspace._core import machine
from labelspace._core import streams as _files
from labelspace.data import iter_batches, read, read_taxonomy, statistics
from labelspace.data.dataset import Dataset
from labelspace.data.formats import blocks as _blocks
from labelspace.data.name_files import read_names
from labelspace.datasets import download as downloads
from labelspace.errors import DataError, MemoryBudgetError

BILLIONS = 2_000_000_000

# A process of its own: freed memory cannot be distinguished from memory in use.
MEASURED = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
from labelspace.data import read, statistics
from labelspace._core.peak import peak_bytes
found = [statistics(read(path)) for path in sys.argv[1:]]
peak = peak_bytes() >> 20
print(json.dumps({"sizes": [[f["labels"], f["features"]] for f in found], "peak": peak}))
"""


def test_a_claim_takes_no_memory(tmp_path: Path) -> None:
    files = {
        "a.txt": f"1 5 {BILLIONS}\n7 0:1\n",
        "b.txt": f"1 {BILLIONS} 9\n7 0:1\n",
        "a.svm": f"{BILLIONS - 1} 0:1\n",
        "trn_X_Y.txt": f"1 {BILLIONS}\n7:1\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    command = [sys.executable, "-c", MEASURED, *(str(tmp_path / name) for name in files)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["sizes"] == [[BILLIONS, 5], [9, BILLIONS], [BILLIONS, 1], [BILLIONS, None]]
    assert found["peak"] < 600  # MB, most of them numba


def test_unused_labels_are_tail(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(f"3 1 {BILLIONS}\n5\n5,9\n5,9,1000000000\n")
    found = statistics(read(path))
    bands = [found[f"{band}_labels"] for band in ("head", "torso", "tail")]
    assert bands == [1, 2, BILLIONS - 3]
    assert (found["labels_used"], found["labels_per_point"]) == (3, 2.0)


def test_a_long_number_that_is_none_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.svm"
    path.write_text("1 1:" + "1" * 300_000 + "x\n")
    with pytest.raises(DataError, match=r"a\.svm:1:5: expected a number after the colon, found"):
        read(path)


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("a.svm", "1 1:1\n"),
        ("a.txt", "2 5 3\n1 1:1\n"),
        ("a.jsonl", '{"text": "t", "labels": []}\n'),
        ("a.csv", "text,labels\na,b\n"),
    ],
)
def test_a_line_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, head: str, zipped: bool
) -> None:
    monkeypatch.setattr(_files, "LINE_BYTES", 1 << 20)
    monkeypatch.setattr(_blocks, "BLOCK_BYTES", 1 << 12)
    path = tmp_path / name
    content = head.encode() + b"1 " * (1 << 20)
    path.write_bytes(gzip.compress(content) if zipped else content)
    line = head.count("\n") + 1
    with pytest.raises(DataError, match=rf"{name}:{line}: a line of more than 1 MB"):
        read(path)


def test_a_name_and_an_edge_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_files, "LINE_BYTES", 1 << 10)
    path = tmp_path / "labels.txt"
    path.write_bytes(gzip.compress(b"a\n" + b"x" * (1 << 12)))
    for reader in (read_names, lambda place: read_taxonomy(place, ["a"])):
        path.write_bytes(gzip.compress(b"a\tb\n" + b"x" * (1 << 12)))
        with pytest.raises(DataError, match=r"labels\.txt:2: a line of more than"):
            reader(path)


def test_a_line_longer_than_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_blocks, "BLOCK_BYTES", 7)
    path = tmp_path / "a.svm"
    path.write_text("1 " + " ".join(f"{i}:1" for i in range(1, 500)) + "\n0 1:1")
    dataset = read(path)
    assert isinstance(dataset, Dataset)
    assert dataset.features is not None
    assert np.diff(dataset.features.indptr).tolist() == [499, 1]


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_an_archive_that_unpacks_to_far_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    archive, zeros = tmp_path / f"bomb.{kind}", bytes(1 << 20)
    if kind == "zip":
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr("train.txt", zeros)
    else:
        with tarfile.open(archive, "w:gz") as unpacked:
            member = tarfile.TarInfo("train.txt")
            member.size = len(zeros)
            unpacked.addfile(member, io.BytesIO(zeros))
    assert downloads.extract(archive, tmp_path / "small enough")
    monkeypatch.setattr(downloads, "UNPACKED_ANYWAY", 1 << 10)
    with pytest.raises(DataError, match="far more than an archive of its size"):
        downloads.extract(archive, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", "5000 1 1\n" + "\n" * 5000),
        ("a.svm", "0 1:1\n" * 5000),
        ("b_X_Y.txt", "5000 1\n" + "\n" * 5000),
    ],
)
def test_a_file_larger_than_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: str
) -> None:
    path = tmp_path / name
    path.write_text(content)
    monkeypatch.setattr(_blocks, "BLOCK_BYTES", 1 << 10)
    monkeypatch.setattr(_blocks, "CHECKED_BYTES", 1 << 12)
    assert len(read(path)) == 5000
    monkeypatch.setattr(machine, "available_bytes", lambda: 1 << 13)
    with pytest.raises(MemoryBudgetError, match=rf"{name}: the first .* of it are read"):
        read(path)
    assert sum(len(batch) for batch in iter_batches(path, n_features=1)) == 5000
