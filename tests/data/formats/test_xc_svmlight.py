"""svmlight files, recognising formats, and split files."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix, vstack
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from labelspace.data.dataset import Dataset
from labelspace.data.formats import blocks as _blocks
from labelspace.data.formats import xc
from labelspace.errors import DataError, ParameterError

Put = Callable[..., Path]


def test_svmlight_rows(put: Put) -> None:
    text = "# made by hand\n3,1 1:2 4:1 # é: 1,2\n\n 2:5#x\n# more\n0\n2:1 1:7\n \n"
    dataset = xc.read_svmlight(put(text))
    assert dataset.features.toarray().tolist() == [
        [2, 0, 0, 1],
        [0, 5, 0, 0],
        [0] * 4,
        [7, 1, 0, 0],
        [0] * 4,
    ]
    assert dataset.labels.toarray().tolist() == [
        [0, 1, 0, 1],
        [0] * 4,
        [1, 0, 0, 0],
        [0] * 4,
        [0] * 4,
    ]


def test_svmlight_counts_from_zero_or_one(put: Put) -> None:
    path = put("0 1:1 2:3\n")
    assert xc.read_svmlight(path).features.toarray().tolist() == [[1, 3]]
    assert xc.read_svmlight(path, zero_based=False).n_features == 2
    assert xc.read_svmlight(path, zero_based=True).features.toarray().tolist() == [[0, 1, 3]]
    from_zero = put("0 0:1 2:3\n", "from_zero.txt")
    assert xc.read_svmlight(from_zero).features.toarray().tolist() == [[1, 0, 3]]
    wide = xc.read_svmlight(path, n_features=2, n_labels=7)
    assert (wide.n_features, wide.n_labels) == (2, 7)
    bare = xc.read_svmlight(put("2\n1\n", "bare.txt"))
    assert (bare.features.shape, bare.labels.shape) == ((2, 0), (2, 3))


@pytest.mark.parametrize(
    ("text", "options", "line", "column", "message"),
    [
        ("1 qid:3 1:1\n", {}, 1, 3, "qid"),
        ("1 1:1\n0 0:1\n", {"zero_based": False}, 2, 3, "feature 0 .* 1 to"),
        ("1 1:1 3:1\n", {"n_features": 2}, 1, 7, "feature 3"),
        ("1 2:1\n0 0:1\n", {"n_features": 2}, 1, 3, "feature 2 .* 0 to 1"),
        ("1 2:1\n", {"n_features": 2, "zero_based": True}, 1, 3, "feature 2 .* 0 to 1"),
        ("1 0:1\n", {"n_features": 0}, 1, 3, "feature 0"),
        ("# c\n\n4 1:1\n", {"n_labels": 4}, 3, 1, "label 4 .* 0 to 3"),
        ("1.5 1:1\n", {}, 1, 1, "label number, found '1.5'"),
        ("-1 1:1\n", {}, 1, 1, "negative label"),
        ("1 2147483647:1\n", {}, 1, 3, "out of range"),
        ("1 1:1 # a\n1 1:2 3:4 1:1 # b\n", {}, 2, 11, "feature 1 twice"),
        ("1,1 1:1\n", {}, 1, 3, "label 1 twice"),
        (b"1 1:1 # \xe9\n", {}, 1, 9, "not UTF-8"),
        ("", {}, None, None, "empty"),
        ("# nothing\n\n", {}, None, None, "empty"),
    ],
)
def test_errors_in_svmlight(
    put: Put, text: str | bytes, options: dict[str, int], line: int, column: int, message: str
) -> None:
    path = put(text)
    with pytest.raises(DataError, match=message) as caught:
        xc.read_svmlight(path, **options)
    assert (caught.value.line, caught.value.column) == (line, column)
    sizes = {"n_features": 2**31 - 1, "n_labels": 2**31 - 1, **options}
    with pytest.raises(DataError, match=message):
        list(xc.iter_svmlight(path, 10, **sizes))


def test_parameters_are_checked(put: Put) -> None:
    path = put("1 1:1\n")
    with pytest.raises(ParameterError, match="zero_based"):
        xc.read_svmlight(path, zero_based="no")
    with pytest.raises(ParameterError, match="n_features"):
        xc.read_svmlight(path, n_features=-1)
    with pytest.raises(ParameterError, match="batch_size"):
        next(xc.iter_svmlight(path, 0, 2, 2))


@pytest.mark.parametrize("zero_based", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_scikit_learn_reads_the_same(tmp_path: Path, seed: int, zero_based: bool) -> None:
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((200, 50)) * (rng.random((200, 50)) < 0.3)
    features[:, 7] = 1e-20 * rng.random(200)  # scikit-learn drops rows that are quite empty
    labels = csr_matrix(rng.random((200, 20)) < 0.2, dtype=int)
    path = tmp_path / "data.svm"
    dump_svmlight_file(features, labels, str(path), zero_based=zero_based, multilabel=True)
    theirs, their_labels = load_svmlight_file(str(path), multilabel=True, dtype=np.float32)
    ours = xc.read_svmlight(path)
    assert ours.features.shape == theirs.shape
    assert (ours.features != theirs).nnz == 0
    rows = np.split(ours.labels.indices, ours.labels.indptr[1:-1])
    assert [tuple(row.tolist()) for row in rows] == [tuple(map(int, row)) for row in their_labels]


@pytest.mark.parametrize("zero_based", [True, False, "auto"])
def test_svmlight_batches_are_the_whole_file(
    put: Put, monkeypatch: pytest.MonkeyPatch, zero_based: bool | str
) -> None:
    monkeypatch.setattr(_blocks, "BLOCK_BYTES", 7)
    path = put("1 3:1\n# c\n2,0 2:1 1:5\n\n 5:1 1:2\n2\n")
    sizes = {"n_features": 6, "n_labels": 3, "zero_based": zero_based}
    whole = xc.read_svmlight(path, **sizes)
    parts = list(xc.iter_svmlight(path, 3, **sizes))
    assert [len(part) for part in parts] == [3, 1]
    labels = vstack([part.labels for part in parts], format="csr")
    features = vstack([part.features for part in parts], format="csr")
    assert np.array_equal(labels.toarray(), whole.labels.toarray())
    assert np.array_equal(features.toarray(), whole.features.toarray())


# Telling formats apart


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2 3 2\n0 0:1\n", "xc"),
        ("2 3 2\n0 0:abc\n", "xc"),
        ("0 3 2\n", "xc"),
        ("2 3\n\n0:1\n", "matrix"),
        ("2 3\n0:1\n", "matrix"),
        ("1,2 3:1 4:2\n", "svmlight"),
        (" 3:1 4:2\n", "svmlight"),
        ("# comment\n3\n4 1:1\n", "svmlight"),
        ("1 qid:2 1:1\n", "svmlight"),
        ("-1 1:1\n", "svmlight"),
        ("1 2 3\n4 5 6\n", None),
        ("1 2 3 4 5\n4 5 6 7 8\n", None),
        ("1,2,3\n4,5,6\n", None),
        ('{"text": "a", "labels": ["b"]}\n', None),
        ("text,labels\n", None),
        ("12\n13\n", None),
        ("", None),
        (b"\x89PNG\r\n\x1a\n\0\0", None),
        (b"\xef\xbb\xbf1 2:3\n", "svmlight"),
    ],
)
def test_sniff(put: Put, text: str | bytes, expected: str | None) -> None:
    data = text.encode() if isinstance(text, str) else text
    assert xc.sniff(data) == expected
    assert xc.sniff(gzip.compress(data)) == expected
    assert xc.sniff(put(data)) == expected
    assert xc.sniff(str(put(gzip.compress(data)))) == expected


def test_sniff_takes_the_start_of_a_file() -> None:
    rng = np.random.default_rng(0)
    text = "900 5 2\n" + "".join(f"0 0:{value}\n" for value in rng.random(900))
    assert xc.sniff(gzip.compress(text.encode())[:500]) == "xc"
    assert xc.sniff(text.encode()[:10]) == "xc"
    assert xc.sniff(b"\x1f\x8b not gzip at all") is None


# Splits


def test_splits(put: Put) -> None:
    splits = xc.read_splits(put("1 3\r\n2\t1\n\n"))
    assert splits.dtype == np.int64
    assert splits.tolist() == [[0, 2], [1, 0]]
    dataset = Dataset(csr_matrix(np.eye(3, dtype=np.float32)))
    assert xc.take_split(dataset, splits, 1).labels.indices.tolist() == [2, 0]
    with pytest.raises(DataError, match="names row 3 at its place 1, but there are 2 rows"):
        xc.take_split(Dataset(csr_matrix((2, 3))), splits, 1)
    with pytest.raises(ParameterError, match="column"):
        xc.take_split(dataset, splits, 2)


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("1 2\n3 x\n", 2, 3),
        ("1 2\n3\n", 2, 1),
        ("1 0\n", 1, 3),
        ("1\n-1\n", 2, 1),
        ("", None, None),
    ],
)
def test_errors_in_splits(put: Put, text: str, line: int | None, column: int | None) -> None:
    with pytest.raises(DataError) as caught:
        xc.read_splits(put(text))
    assert (caught.value.line, caught.value.column) == (line, column)
