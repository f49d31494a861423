"""XC text that is written: its bytes, and that it appears whole or not at all."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace.data.dataset import Dataset
from labelspace.data.formats import xc
from labelspace.errors import DataError

Put = Callable[..., Path]


def test_written_text(tmp_path: Path) -> None:
    values = [1, -2, 0.1, 1e-7, 1.5e-5, 123456.7, 3e10, 3.4028235e38, 1e-45, 0, -0.0, 16777216]
    features = csr_matrix(
        (np.array(values, np.float32), np.arange(12), [0, 0, 11, 11, 12]), shape=(4, 12)
    )
    labels = csr_matrix((np.ones(3, np.float32), [0, 10, 1], [0, 2, 2, 2, 3]), shape=(4, 11))
    path = tmp_path / "data.txt"
    xc.write_xc(Dataset(labels, features), path)
    assert path.read_text().split("\n") == [
        "4 12 11",
        "0,10",
        " 0:1 1:-2 2:0.1 3:1e-7 4:15e-6 5:123456.7 6:3e10 7:34028235e31 8:1e-45 9:0 10:-0",
        " ",
        "1 11:16777216",
        "",
    ]


def test_gzip_by_name_and_the_same_bytes_twice(tmp_path: Path) -> None:
    features = np.random.default_rng(0).random((20, 5), dtype=np.float32)
    dataset = Dataset(csr_matrix(np.eye(20, dtype=np.float32)), features)
    first, second, plain = (tmp_path / name for name in ("a.txt.gz", "b.txt.gz", "c.txt"))
    for path in (first, second, plain):
        xc.write_xc(dataset, path)
    assert first.read_bytes() == second.read_bytes()
    assert gzip.decompress(first.read_bytes()) == plain.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt.gz", "b.txt.gz", "c.txt"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text("old")
    labels = csr_matrix((1, 2), dtype=np.float32)
    with pytest.raises(DataError, match="NaN"):
        xc.write_xc(Dataset(labels, csr_matrix([[np.float32("nan")]])), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(DataError, match="cannot be written"):
        xc.write_xc(Dataset(labels, csr_matrix((1, 1))), tmp_path / "absent" / "data.txt")


def test_other_kinds_of_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xc, "PRINTED_ITEMS", 5)
    labels = csr_matrix(np.eye(3, dtype=np.float32))
    dense = np.array([[0, 1.5], [2, 0], [0, 0]], dtype=np.float32)
    path = tmp_path / "data.txt"
    xc.write_xc(Dataset(labels, dense), path)
    assert path.read_text() == "3 2 3\n0 1:1.5\n1 0:2\n2\n"
    repeated = csr_matrix((np.ones(4, np.float32), [1, 0, 1, 1], [0, 3, 4, 4]), shape=(3, 2))
    xc.write_xc(Dataset(labels, repeated), path)
    assert path.read_text() == "3 2 3\n0 0:1 1:2\n1 1:1\n2\n"
    xc.write_xc(Dataset(labels), path)
    assert path.read_text() == "3 0 3\n0\n1\n2\n"
    with pytest.raises(DataError, match="texts"):
        xc.write_xc(Dataset(labels, texts=["a", "b", "c"]), path)
