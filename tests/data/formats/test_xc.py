"""XC text and matrix files: known answers, errors and their places, batches, real files."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix, vstack

from labelspace.data.dataset import Dataset
from labelspace.data.formats import blocks as _blocks
from labelspace.data.formats import xc
from labelspace.data.formats.layout import Layout
from labelspace.errors import DataError, ParameterError

SharedData = Callable[[str], Path]
Put = Callable[..., Path]


@pytest.fixture
def tiny_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make blocks so small that every file is cut into many, and some lines are longer than one."""
    monkeypatch.setattr(_blocks, "BLOCK_BYTES", 7)


def same(left: Dataset, right: Dataset) -> bool:
    """Assert equality down to the arrays: shapes, stored zeros, types."""
    pairs = [(left.labels, right.labels), (left.features, right.features)]
    return all(
        a.shape == b.shape
        and a.data.dtype == b.data.dtype == np.float32
        and np.array_equal(a.indptr, b.indptr)
        and np.array_equal(a.indices, b.indices)
        and np.array_equal(a.data, b.data)
        for a, b in pairs
    )


def random_dataset(n: int, n_features: int, n_labels: int, seed: int) -> Dataset:
    rng = np.random.default_rng(seed)
    features = csr_matrix(rng.random((n, n_features)) * (rng.random((n, n_features)) < 0.3))
    labels = csr_matrix(rng.random((n, n_labels)) < 0.2)
    return Dataset(labels.astype(np.float32), features.astype(np.float32))


# Known answers


def test_xc_rows_become_the_arrays_they_say(put: Put) -> None:
    dataset = xc.read_xc(put("3 4 5\n4,1 3:0.5 0:-2\n 2:1e-3\n0\n"))
    assert dataset.features.toarray().tolist() == [
        [-2, 0, 0, 0.5],
        [0, 0, np.float32(1e-3), 0],
        [0, 0, 0, 0],
    ]
    assert dataset.labels.toarray().tolist() == [[0, 1, 0, 0, 1], [0] * 5, [1, 0, 0, 0, 0]]
    assert dataset.features.indices.tolist() == [0, 3, 2]  # sorted
    assert dataset.features.indices.dtype == dataset.features.indptr.dtype == np.int32
    assert dataset.labels.data.dtype == np.float32


@pytest.mark.parametrize(
    "text",
    [
        "2 3 2\r\n0 0:1 2:2\r\n1 1:3\r\n",
        "2\t3\t2\n0\t0:1\t2:2\n1\t1:3\n",
        "2 3 2 \n0   0:1 \t 2:2  \n1  1:3 ",
        "2 3 2\n0 2:2 0:1\n1 1:3\n\n \n\t\n",
        b"\xef\xbb\xbf2 3 2\n0 0:+1 2:2.\n1 01:.3e1\n",
        gzip.compress(b"2 3 2\n0 0:1 2:2\n1 1:3\n"),
        gzip.compress(b"2 3 2\n0 0:1") + gzip.compress(b" 2:2\n1 1:3\n"),
    ],
    ids=["crlf", "tabs", "blanks", "unsorted and blank lines", "bom", "gzip", "two gzip members"],
)
def test_ways_to_write_the_same_rows(put: Put, text: str | bytes) -> None:
    dataset = xc.read_xc(put(text))
    assert dataset.features.toarray().tolist() == [[1, 0, 2], [0, 3, 0]]
    assert dataset.labels.toarray().tolist() == [[1, 0], [0, 1]]


def test_empty_rows_and_stored_zeros_are_kept(put: Put) -> None:
    dataset = xc.read_xc(put("4 2 2\n\n \n1 0:0 1:-0\n 1:5\n"))
    assert np.diff(dataset.features.indptr).tolist() == [0, 0, 2, 1]
    assert np.diff(dataset.labels.indptr).tolist() == [0, 0, 1, 0]
    assert np.signbit(dataset.features.data).tolist() == [False, True, False]


def test_a_data_set_without_rows_or_columns(put: Put) -> None:
    assert xc.read_xc(put("0 3 2\n")).features.shape == (0, 3)
    assert xc.read_xc(put("1 0 0\n \n")).labels.shape == (1, 0)
    assert xc.read_matrix(put("2 0\n\n\n")).shape == (2, 0)


def test_the_header_must_be_what_the_caller_expects(put: Put) -> None:
    path = put("1 3 2\n0 0:1\n")
    assert xc.read_xc(path, n_features=3, n_labels=2).n_features == 3
    with pytest.raises(DataError, match="gives 3 features, expected 4") as caught:
        xc.read_xc(path, n_features=4)
    assert (caught.value.line, caught.value.column) == (1, 3)
    with pytest.raises(DataError, match="gives 2 labels, expected 1") as caught:
        xc.read_xc(path, n_labels=1)
    assert (caught.value.line, caught.value.column) == (1, 5)


# Errors and their places

XC_ERRORS = {
    "label out of range": ("2 3 2\n0 0:1 1:1\n5 0:1\n", 3, 1, "label 5 .* 0 to 1"),
    "second label out of range": ("1 3 2\n0,2 0:1\n", 2, 3, "label 2 .* 0 to 1"),
    "feature out of range": ("1 3 2\n0 0:1 3:1\n", 2, 7, "feature 3 .* 0 to 2"),
    "no features allowed": ("1 0 2\n0 0:1\n", 2, 3, "no features"),
    "huge feature": ("1 3 2\n0 99999999999999999999:1\n", 2, 3, "out of range"),
    "huge label": ("1 3 2\n36893488147419103233 0:1\n", 2, 1, "out of range"),
    "nan": ("1 3 2\n0 0:nan\n", 2, 5, "nan .* finite"),
    "infinite": ("1 3 2\n0 0:-Infinity\n", 2, 5, "finite"),
    "overflow": ("1 3 2\n0 0:1e39\n", 2, 5, "too large"),
    "slow overflow": ("1 3 2\n0 0:1e400\n", 2, 5, "too large"),
    "too few rows": ("3 3 2\n0 0:1\n", 1, 1, "3 rows, the file has 1"),
    "too many rows": ("1 3 2\n0 0:1\n\n1 0:1\n", 4, 1, "more rows than the 1"),
    "word for a value": ("1 3 2\n0 0:abc\n", 2, 5, "number after the colon, found 'abc'"),
    "no value": ("1 3 2\n0 0: 1:1\n", 2, 5, "number after the colon, found ''"),
    "hexadecimal": ("1 3 2\n0 0:0x1\n", 2, 5, "found '0x1'"),
    "underscore": ("1 3 2\n0 0:1_0\n", 2, 5, "found '1_0'"),
    "no exponent": ("1 3 2\n0 0:1e\n", 2, 5, "found '1e'"),
    "point only": ("1 3 2\n0 0:.\n", 2, 5, "found '.'"),
    "sign only": ("1 3 2\n0 0:-\n", 2, 5, "found '-'"),
    "two points": ("1 3 2\n0 0:1.2.3\n", 2, 5, "found '1.2.3'"),
    "two colons": ("1 3 2\n0 0:1:2\n", 2, 5, "found '1:2'"),
    "comment": ("1 3 2\n0 0:1 # no\n", 2, 7, "feature:value, found '#'"),
    "negative feature": ("1 3 2\n0 -1:1\n", 2, 3, "negative feature -1"),
    "negative label": ("1 3 2\n-1 0:1\n", 2, 1, "negative label -1"),
    "word for a feature": ("1 3 2\n0 x:1\n", 2, 3, "feature:value, found 'x:1'"),
    "word for a label": ("1 3 2\nzebra 0:1\n", 2, 1, "label number, found 'zebra'"),
    "no colon": ("1 3 2\n0 1\n", 2, 3, "feature:value, found '1'"),
    "blank before labels": ("1 3 2\n 0,1 1:1\n", 2, 2, "begins with a blank has no labels"),
    "comma at the end": ("1 3 2\n0, 1:1\n", 2, 3, "label number, found ''"),
    "comma at the start": ("1 3 2\n,0 1:1\n", 2, 1, "label number, found ''"),
    "repeated feature": ("1 3 2\n0 1:1 0:1 1:2\n", 2, 11, "feature 1 twice"),
    "repeated neighbour": ("1 3 2\n0 1:1 01:1\n", 2, 7, "feature 1 twice"),
    "repeated label": ("2 3 2\n0 0:1\n1,0,1 1:1\n", 3, 5, "label 1 twice"),
    "not UTF-8": (b"1 3 2\n0 0:\xff\n", 2, 5, "not UTF-8"),
    "other letters": ("1 3 2\n0 0:1 é:1\n", 2, 7, "found 'é:1'"),
    "NUL": ("1 3 2\n0 0:1\0\n", 2, 5, "found"),
    "empty": ("", None, None, "empty"),
    "words for a header": ("3 many 2\n", 1, 3, "points features labels`, found 'many'"),
    "no header": ("0 0:1\n", 1, 3, "header `points features labels`, found '0:1'"),
    "short header": ("3 2\n", 1, 1, "of 3 numbers, found 2"),
    "long header": ("3 2 3 4\n", 1, 1, "of 3 numbers, found 4"),
    "negative header": ("1 -3 2\n", 1, 3, "header"),
    "blank header": ("\n0 0:1\n", 1, 1, "header"),
    "huge header": ("1 2147483648 2\n0 0:1\n", 1, 3, "2147483648 features are too many"),
    "absurd header": ("1 3 " + "9" * 5000 + "\n", 1, 5, "header"),
}


@pytest.mark.parametrize("case", XC_ERRORS)
def test_an_error_names_what_and_where(put: Put, case: str) -> None:
    text, line, column, message = XC_ERRORS[case]
    path = put(text)
    with pytest.raises(DataError, match=message) as caught:
        xc.read_xc(path)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert str(caught.value.path) == str(path)
    with pytest.raises(DataError, match=message):
        list(xc.iter_xc(path, 1))


@pytest.mark.usefixtures("tiny_blocks")
@pytest.mark.parametrize("case", XC_ERRORS)
def test_places_do_not_depend_on_blocks(put: Put, case: str) -> None:
    test_an_error_names_what_and_where(put, case)


def test_files_that_cannot_be_read(put: Put, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        xc.read_xc(tmp_path / "absent.txt")
    with pytest.raises(DataError, match="directory"):
        xc.read_xc(tmp_path)
    with pytest.raises(DataError, match="cannot be read"):
        xc.read_xc(put("1 3 2\n") / "below.txt")


def test_broken_gzip(put: Put) -> None:
    rng = np.random.default_rng(0)
    rows = "".join(f"0 0:{value}\n" for value in rng.random(2000))
    packed = gzip.compress(f"2000 3 2\n{rows}".encode())
    with pytest.raises(DataError, match="truncated gzip"):
        xc.read_xc(put(packed[:-20]))
    with pytest.raises(DataError, match="truncated gzip"):
        xc.read_xc(put(packed[:5]))
    with pytest.raises(DataError, match="corrupt gzip"):
        xc.read_xc(put(packed[:-6] + b"\0\0" + packed[-4:]))
    with pytest.raises(DataError, match="corrupt gzip"):
        xc.read_xc(put(packed[:200] + bytes(200) + packed[400:]))
    with pytest.raises(DataError, match="corrupt gzip"):
        xc.read_xc(put(packed + b"more"))


# Matrix pairs


def test_a_pair_of_matrices(put: Put) -> None:
    features = put("3 4\n0:1.5 3:2\n\n1:1\n", "trn_X_Xf.txt")
    labels = put("3 2\n1:1\n0:1 1:0.5\n\n", "trn_X_Y.txt")
    dataset = xc.read_pair(features, labels)
    assert dataset.features.toarray().tolist() == [[1.5, 0, 0, 2], [0] * 4, [0, 1, 0, 0]]
    assert dataset.labels.toarray().tolist() == [[0, 1], [1, 1], [0, 0]]
    alone = xc.read_pair(None, labels)
    assert alone.features is None
    assert alone.texts is None
    assert alone.n_labels == 2


def test_a_pair_must_fit(put: Put) -> None:
    features, labels = put("2 4\n0:1\n1:1\n", "X.txt"), put("1 2\n1:1\n", "Y.txt")
    with pytest.raises(DataError, match="2 features for 1 rows"):
        xc.read_pair(features, labels)


@pytest.mark.parametrize("value", ["0", "-1", "0.0"])
def test_a_label_that_does_not_apply_is_refused(put: Put, value: str) -> None:
    with pytest.raises(DataError, match=f"label 0 has value {value}") as caught:
        xc.read_pair(None, put(f"2 3\n2:1\n1:1 0:{value}\n"))
    assert (caught.value.line, caught.value.column) == (3, 7)


def test_errors_in_a_matrix_file(put: Put) -> None:
    for text, line, column in [
        ("1 2\n3 0:1\n", 2, 1),
        ("1 2\n0:1 2:1\n", 2, 5),
        ("1 2\n0:1 0:1\n", 2, 5),
        ("1 2 3\n0:1\n", 1, 1),
        ("2 2\n0:1\n", 1, 1),
        ("1 2\n0:1\n0:1\n", 3, 1),
    ]:
        with pytest.raises(DataError) as caught:
            xc.read_matrix(put(text))
        assert (caught.value.line, caught.value.column) == (line, column)


# Batches, blocks


@pytest.mark.parametrize("block_bytes", [1, 50, 1000, 1 << 20])
@pytest.mark.parametrize("batch_size", [1, 7, 60, 1000])
def test_batches_are_the_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int, batch_size: int
) -> None:
    dataset = random_dataset(60, 30, 10, seed=1)
    path = tmp_path / "data.txt.gz"
    xc.write_xc(dataset, path)
    monkeypatch.setattr(_blocks, "BLOCK_BYTES", block_bytes)
    assert same(xc.read_xc(path), dataset)
    parts = list(xc.iter_xc(path, batch_size))
    assert [len(part) for part in parts[:-1]] == [batch_size] * (len(parts) - 1)
    assert 0 < len(parts[-1]) <= batch_size
    labels = vstack([part.labels for part in parts], format="csr")
    features = vstack([part.features for part in parts], format="csr")
    assert same(Dataset(labels, features), dataset)


def test_batches_can_be_left_early(put: Put) -> None:
    path = put("3 1 1\n0 0:1\n0 0:2\n0 0:3\n")
    batches = xc.iter_xc(path, 1)
    assert next(batches).features.data.tolist() == [1]
    batches.close()
    with pytest.raises(ParameterError, match="batch_size"):
        next(xc.iter_xc(path, 0))


def test_leaving_early_does_not_wait_for_threads(put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader may be collected at any moment, even while a thread starts: it must not wait."""
    release = threading.Event()
    parse = _blocks.parse_block

    def parse_or_wait(block: bytes, layout: Layout) -> _blocks.Rows:
        if b"0:2" in block:
            release.wait(60)
        return parse(block, layout)

    monkeypatch.setattr(_blocks, "parse_block", parse_or_wait)
    monkeypatch.setattr(_blocks, "BLOCK_BYTES", 6)
    batches = xc.iter_xc(put("3 1 1\n0 0:1\n0 0:2\n0 0:3\n"), 1)
    assert next(batches).features.data.tolist() == [1]
    closing = threading.Thread(target=batches.close)
    closing.start()
    closing.join(30)
    waits = closing.is_alive()
    release.set()
    closing.join()
    assert not waits


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_can_read_too(put: Put) -> None:
    code = (
        "import os, sys; from labelspace.data.formats import xc; xc.read_xc(sys.argv[1]); "
        "child = os.fork(); n = len(xc.read_xc(sys.argv[1])); "
        "os._exit(n) if child == 0 else print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    command = [sys.executable, "-W", "ignore", "-c", code, str(put("2 1 1\n0 0:1\n \n"))]
    answer = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert answer.stdout.strip() == "2"


# Real files


def test_bibtex(shared_data: SharedData, tmp_path: Path) -> None:
    path = shared_data("bibtex") / "train.txt.gz"
    dataset = xc.read_xc(path)
    assert dataset.features.shape == (4880, 1836)
    assert dataset.labels.shape == (4880, 159)
    assert dataset.labels[0].indices.tolist() == [3, 23, 61, 63, 76]
    xc.write_xc(dataset, tmp_path / "again.txt")
    assert (tmp_path / "again.txt").read_bytes() == gzip.decompress(path.read_bytes())
    assert xc.sniff(path) == "xc"


def test_delicious_and_its_splits(shared_data: SharedData) -> None:
    folder = shared_data("delicious")
    dataset = xc.read_xc(folder / "all.txt.gz")
    assert dataset.features.shape == (16105, 500)
    assert dataset.labels.shape == (16105, 983)
    assert np.count_nonzero(np.diff(dataset.labels.indptr) == 0) == 14
    train, test = (xc.read_splits(folder / f"{name}Split.txt.gz") for name in ("tr", "tst"))
    for column in range(10):
        both = np.concatenate([train[:, column], test[:, column]])
        assert np.array_equal(np.sort(both), np.arange(16105))
    assert len(xc.take_split(dataset, train, 9)) == 12920
    assert xc.sniff(folder / "trSplit.txt.gz") is None


def test_eurlex_labels(shared_data: SharedData) -> None:
    path = shared_data("eurlex-4k-labels") / "trn_X_Y.txt.gz"
    dataset = xc.read_pair(None, path)
    assert dataset.labels.shape == (15539, 3993)
    assert dataset.labels.nnz == 82530
    assert np.count_nonzero(np.diff(dataset.labels.indptr) == 0) == 28
    assert xc.sniff(path) == "matrix"
