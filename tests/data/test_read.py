"""The one `read`: what is recognised as what, pairs and splits, names and hierarchies beside."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix, vstack

from labelspace.data import Columns, Dataset, iter_batches, read, read_split, write
from labelspace.data.formats import xc
from labelspace.data.recognise import recognise
from labelspace.errors import DataError, ParameterError

XC = "2 4 3\n0,2 1:0.5 3:1\n 0:2\n"
SVM = "0,2 2:0.5 4:1\n1 1:2 # a comment\n"
ROW = '{"text": "t", "labels": ["x"]}\n'


def put(path: Path, text: str) -> Path:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", encoding="utf-8", newline="") as stream:
        stream.write(text)
    return path


def rows(*labels: list[str]) -> str:
    return "".join(json.dumps({"text": "t", "labels": names}) + "\n" for names in labels)


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.jsonl", ROW, "jsonl"),
        ("a.txt", ROW, "jsonl"),
        ("a.csv", "\ufeff\n " + ROW, "jsonl"),
        ("a", ROW, "jsonl"),
        ("a.JSON", "[]", "jsonl"),
        ("a.csv", "text,labels\na,b\n", "csv"),
        ("a.TSV.gz", "text\tlabels\na\tb\n", "tsv"),
        ("a.txt", XC, "xc"),
        ("a.txt.gz", XC, "xc"),
        ("a.data", XC, "xc"),
        ("a.txt", SVM, "svmlight"),
        ("a.svm.gz", SVM, "svmlight"),
        ("a.libsvm", "rubbish", "svmlight"),
        ("a.txt", "2 4\n1:1\n0:1\n", "matrix"),
        ("a.parquet", "rubbish", "parquet"),
        ("a", "PAR1rubbish", "parquet"),
    ],
)
def test_what_is_recognised(tmp_path: Path, name: str, content: str, kind: str) -> None:
    assert recognise(put(tmp_path / name, content)) == kind


def test_what_is_not_recognised(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="neither JSON lines"):
        read(put(tmp_path / "a.txt", "Dear reader,\n"))
    with pytest.raises(DataError, match="empty"):
        read(put(tmp_path / "a.csv", ""))
    with pytest.raises(DataError, match="no such file"):
        read(tmp_path / "absent.jsonl")
    with pytest.raises(DataError, match="not a directory: name one of its files"):
        read(tmp_path)


def test_numbered_labels(tmp_path: Path) -> None:
    for name, content in (("a.txt", XC), ("a.svm", SVM)):
        path = put(tmp_path / name, content)
        dataset = read(path)
        assert dataset.label_names is None
        assert dataset.labels.shape == (2, 3)
        assert dataset.n_features == 4
        assert read(str(path), label_names=["a", "b", "c"]).label_names == ("a", "b", "c")
        assert read(path, cache=False, n_features=4, n_labels=3).labels.shape == (2, 3)
        with pytest.raises(DataError):
            read(path, label_names=["a", "b"])
        with pytest.raises(DataError):
            read(path, n_features=2)
        with pytest.raises(ParameterError, match="twice"):
            read(path, label_names=["a", "b", "a"])
    assert read(tmp_path / "a.svm", zero_based=True).n_features == 5


def test_the_cache_gives_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABELSPACE_CACHE", str(tmp_path / "cache"))
    for name, content in (("a.txt", XC), ("a.svm", SVM)):
        path = put(tmp_path / name, content)
        plain = read(path)
        for _ in range(2):
            kept = read(path, cache=True, label_names=["a", "b", "c"])
            assert kept.label_names == ("a", "b", "c")
            assert (kept.labels != plain.labels).nnz == 0
            assert (kept.features != plain.features).nnz == 0
    assert len(list((tmp_path / "cache").iterdir())) == 2


# Matrix pairs ---------------------------------------------------------------------------------


def test_a_matrix_pair_is_found_from_either_side(tmp_path: Path) -> None:
    features = put(tmp_path / "trn_X_Xf.txt.gz", "2 4\n1:0.5\n3:1 0:2\n")
    labels = put(tmp_path / "trn_X_Y.txt", "2 3\n0:1 2:1\n\n")
    for path in (features, labels):
        dataset = read(path)
        np.testing.assert_array_equal(dataset.labels.toarray(), [[1, 0, 1], [0, 0, 0]])
        np.testing.assert_array_equal(dataset.features.toarray(), [[0, 0.5, 0, 0], [2, 0, 0, 1]])
        with pytest.raises(DataError, match="4 features where 5 are expected"):
            read(path, n_features=5)
        with pytest.raises(DataError, match="3 labels where 2 are expected"):
            read(path, label_names=["a", "b"])
        for size in (1, 2, 3):
            batches = list(iter_batches(path, batch_size=size, require_labels=True))
            for part in ("labels", "features"):
                together = vstack([getattr(batch, part) for batch in batches]).toarray()
                np.testing.assert_array_equal(together, getattr(dataset, part).toarray())
    put(tmp_path / "trn_X_Y.txt", "1 3\n0:1 2:1\n")
    with pytest.raises(DataError, match="2 rows, but 1 in"):
        list(iter_batches(features))


def test_one_matrix_alone(tmp_path: Path) -> None:
    assert read(put(tmp_path / "trn_X_Y.txt", "2 3\n0:1\n\n")).features is None
    features = put(tmp_path / "tst_X_Xf.txt", "2 4\n1:1\n0:1\n")
    with pytest.raises(DataError, match=r"tst_X_Y\.txt, are not beside"):
        read(features)
    dataset = read(features, require_labels=False, label_names=["a", "b"])
    assert dataset.labels.shape == (2, 2)
    assert dataset.labels.nnz == 0
    with pytest.raises(DataError, match="its name must contain"):
        read(put(tmp_path / "some.txt", "2 4\n1:1\n0:1\n"))


# Batches --------------------------------------------------------------------------------------


def test_batches_of_numbered_labels(tmp_path: Path) -> None:
    names = ["a", "b", "c"]
    for name, content in (("a.txt", XC), ("a.svm", SVM)):
        path = put(tmp_path / name, content)
        whole = read(path)
        batches = list(iter_batches(path, batch_size=1, n_features=4, label_names=names))
        assert [batch.label_names for batch in batches] == [tuple(names)] * 2
        for row, batch in enumerate(batches):
            assert (batch.labels != whole.labels[row]).nnz == 0
            assert (batch.features != whole.features[row]).nnz == 0
    with pytest.raises(ParameterError, match="n_features and n_labels"):
        iter_batches(tmp_path / "a.svm")
    with pytest.raises(DataError, match="4 features where 9 are expected"):
        next(iter_batches(tmp_path / "a.txt", n_features=9))


# Hierarchies ----------------------------------------------------------------------------------


def test_the_hierarchy_beside(tmp_path: Path) -> None:
    path = put(tmp_path / "a.jsonl", rows(["cat"], ["dog"]))
    assert read(path).taxonomy is None
    put(tmp_path / "hierarchy.tsv", "cat\tanimal\n")
    taxonomy = read(path).taxonomy
    assert taxonomy is not None
    assert taxonomy.node_names == ("cat", "dog", "animal")
    assert taxonomy.edges.tolist() == [[0, 2]]
    assert read(path, taxonomy=None).taxonomy is None
    put(tmp_path / "hierarchy.tsv", "oak\ttree\n")
    assert read(path).taxonomy is None
    with pytest.raises(DataError, match="none of the names"):
        read(path, taxonomy=tmp_path / "hierarchy.tsv")
    put(tmp_path / "hierarchy.tsv", "cat\tanimal\textra\n")
    with pytest.raises(DataError, match=r"hierarchy\.tsv:1"):
        read(path)
    with pytest.raises(DataError, match="no such file"):
        read(path, taxonomy=tmp_path / "absent.tsv")


def test_category_paths_come_before_the_hierarchy_beside(tmp_path: Path) -> None:
    path = put(tmp_path / "a.jsonl", json.dumps({"text": "t", "path": ["A", "B"]}))
    file = put(tmp_path / "hierarchy.tsv", "A\troot\n")
    columns = Columns(path=("path",))
    taxonomies = [read(path, columns=columns, taxonomy=t).taxonomy for t in ("auto", file, None)]
    found = [t and (t.node_names, t.edges.tolist()) for t in taxonomies]
    assert found == [(("A", "A > B"), [[1, 0]]), (("A", "A > B", "root"), [[0, 2]]), None]


# Splits ---------------------------------------------------------------------------------------


def test_test_labels_stand_behind_those_of_the_training_set(tmp_path: Path) -> None:
    train = put(tmp_path / "train.jsonl", rows(["m"], ["x", "k"]))
    test = put(tmp_path / "test.csv", "text,labels\nt,z|k\nt,a\n")
    put(tmp_path / "hierarchy.tsv", "z\tm\n")
    put(tmp_path / "labels.txt", "not\nlooked\nat\nhere\n")
    for pair in (read_split(tmp_path), read_split(train, test)):
        assert pair[0].label_names == ("k", "m", "x")
        assert pair[1].label_names == ("k", "m", "x", "z", "a")
        np.testing.assert_array_equal(pair[1].labels.toarray(), [[1, 0, 0, 1, 0], [0, 0, 0, 0, 1]])
        assert [s.taxonomy.node_names for s in pair] == [("k", "m", "x", "z"), pair[1].label_names]
    names = ["x", "m", "k", "a"]
    with pytest.raises(DataError, match="'z' is not among"):
        read_split(tmp_path, label_names=names)
    closed = read_split(tmp_path, label_names=names, unknown_labels="drop")
    assert [s.label_names for s in closed] == [tuple(names)] * 2


def test_sparse_features_are_as_wide_in_both_sets(tmp_path: Path) -> None:
    put(tmp_path / "train.jsonl", '{"features": {"9": 1}, "labels": ["x"]}')
    put(tmp_path / "test.jsonl", '{"features": {"2": 1}, "labels": ["x"]}')
    assert [s.n_features for s in read_split(tmp_path)] == [10, 10]


@pytest.mark.parametrize(
    ("train", "test"),
    [("train.txt", "test.txt"), ("eurlex_train.txt", "eurlex_test.txt.gz")],
)
def test_xc_text_in_a_directory(tmp_path: Path, train: str, test: str) -> None:
    put(tmp_path / train, XC)
    put(tmp_path / test, "1 4 3\n1 0:1\n")
    assert [s.label_names for s in read_split(tmp_path)] == [None, None]
    put(tmp_path / "labels.txt", "a\nb b\nc")
    first, second = read_split(tmp_path)
    assert first.label_names == second.label_names == ("a", "b b", "c")
    put(tmp_path / "labels.txt", "a\nb\n")
    with pytest.raises(DataError, match=r"labels\.txt: 2 names for the 3 labels"):
        read_split(tmp_path)
    assert read_split(tmp_path, label_names=["x", "y", "z"])[1].names() == ["x", "y", "z"]
    put(tmp_path / "labels.txt", "a\nb\na\n")
    with pytest.raises(DataError, match=r"labels\.txt:3: 'a' is already the name on line 1"):
        read_split(tmp_path)
    put(tmp_path / "labels.txt", "a\n\nb\n")
    with pytest.raises(DataError, match=r"labels\.txt:2"):
        read_split(tmp_path)


def test_xc_files_of_different_sizes(tmp_path: Path) -> None:
    train = put(tmp_path / "train.txt", XC)
    for header, message in (("1 5 3", "5 features where 4"), ("1 4 4", "4 labels where 3")):
        test = put(tmp_path / "test.txt", f"{header}\n1 0:1\n")
        with pytest.raises(DataError, match=message):
            read_split(train, test)


def test_svmlight_files_decide_together(tmp_path: Path) -> None:
    train = put(tmp_path / "train.svm", "0 0:1 2:1\n")
    test = put(tmp_path / "test.svm", "4 1:1 7:1\n")
    for pair in (read_split(tmp_path), read_split(train, test)):
        assert [s.labels.shape for s in pair] == [(1, 5), (1, 5)]
        assert [s.features.indices.tolist() for s in pair] == [[0, 2], [1, 7]]
        assert [s.n_features for s in pair] == [8, 8]
    put(train, "0 1:1 3:1\n")
    first, second = read_split(tmp_path)
    assert first.features.indices.tolist() == [0, 2]
    assert second.features.indices.tolist() == [0, 6]
    assert first.n_features == second.n_features == 7
    put(tmp_path / "labels.txt", "\n".join("abcdefg"))
    assert read_split(tmp_path)[0].names() == list("abcdefg")
    assert read_split(train, test, zero_based=True, n_features=20)[0].features.shape == (1, 20)


def test_svmlight_files_are_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    parse = xc.read_svmlight

    def counting(path: Path, **options: Any) -> Dataset:
        parsed.append(path.name)
        return parse(path, **options)

    monkeypatch.setattr(xc, "read_svmlight", counting)
    train = put(tmp_path / "train.svm", "0 1:1 3:1\n")
    test = put(tmp_path / "test.svm", "4 1:1 7:1\n")
    read_split(train, test)
    assert parsed == ["train.svm", "test.svm"]
    with pytest.raises(DataError, match=r"test\.svm:1:7: feature 7 is out of range"):
        read_split(train, test, n_features=5)
    put(train, "0 0:1\n")
    with pytest.raises(DataError, match=r"train\.svm:1:3: feature 0 is out of range"):
        read_split(train, test, zero_based=False)
    with pytest.raises(DataError, match=r"test\.svm:1:1: label 4 is out of range"):
        read_split(train, test, n_labels=3)


def test_matrix_pairs_in_a_directory(tmp_path: Path) -> None:
    for part in ("trn", "tst"):
        put(tmp_path / f"{part}_X_Y.txt", "1 3\n0:1\n")
    assert [s.features for s in read_split(tmp_path)] == [None, None]
    for part in ("trn", "tst"):
        put(tmp_path / f"{part}_X_Xf.txt", "1 4\n1:1\n")
    put(tmp_path / "labels.txt", "a\nb\nc\n")
    assert [s.n_features for s in read_split(tmp_path)] == [4, 4]
    assert read_split(tmp_path)[1].names() == ["a", "b", "c"]


def test_split_files(tmp_path: Path) -> None:
    put(tmp_path / "Toy_data.txt", "3 4 3\n0 0:1\n1 1:1\n2 2:1\n")
    put(tmp_path / "toy_trSplit.txt", "1 3\n2 1\n")
    put(tmp_path / "toy_tstSplit.txt", "3 2\n")
    put(tmp_path / "labels.txt", "a\nb\nc\n")
    for split, expected in ((None, ([0, 1], [2])), (0, ([0, 1], [2])), (1, ([2, 0], [1]))):
        pair = read_split(tmp_path, split=split)
        assert tuple(s.labels.indices.tolist() for s in pair) == expected
        assert pair[0].names() == ["a", "b", "c"]
    with pytest.raises(ParameterError):
        read_split(tmp_path, split=2)
    put(tmp_path / "train.txt", XC)
    put(tmp_path / "test.txt", XC)
    assert [len(s) for s in read_split(tmp_path)] == [2, 2]
    assert [len(s) for s in read_split(tmp_path, split=0)] == [2, 1]
    put(tmp_path / "other.txt", "1 4 3\n0 0:1\n")
    with pytest.raises(DataError, match=r"several files.*Toy_data\.txt, other\.txt"):
        read_split(tmp_path, split=0)


def test_directories_that_hold_no_split(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected two files"):
        read_split(tmp_path)
    train = put(tmp_path / "train.jsonl", ROW)
    with pytest.raises(DataError, match="expected two files"):
        read_split(tmp_path)
    with pytest.raises(DataError, match="second file"):
        read_split(train)
    put(tmp_path / "test.jsonl", ROW)
    put(tmp_path / "train.csv", "text,labels\na,b\n")
    with pytest.raises(DataError, match=r"several files.*train\.csv, train\.jsonl"):
        read_split(tmp_path)
    with pytest.raises(DataError, match=r"here are numbers.*are names: use one format"):
        read_split(train, put(tmp_path / "b.txt", XC))
    with pytest.raises(TypeError, match="colums"):
        read_split(tmp_path, colums=Columns())


# Writing --------------------------------------------------------------------------------------


def test_the_suffix_or_the_format_decides_how_to_write(tmp_path: Path) -> None:
    dataset = read(put(tmp_path / "a.txt", XC))
    for name in ("b.txt", "b.txt.gz"):
        write(dataset, tmp_path / name)
        assert (read(tmp_path / name).features != dataset.features).nnz == 0
    write(dataset, tmp_path / "b.data", format="jsonl")
    assert read(tmp_path / "b.data", n_features=4).n_features == 4
    with pytest.raises(ParameterError, match=r"b\.csv: the suffix"):
        write(dataset, tmp_path / "b.csv")
    with pytest.raises(ParameterError, match="format='csv'"):
        write(dataset, tmp_path / "b.txt", format="csv")
    with pytest.raises(ParameterError, match="leave out"):
        write(dataset, tmp_path / "b.parquet.gz")
    one = csr_matrix(np.ones((1, 1), np.float32))
    with pytest.raises(DataError, match="XC text"):
        write(Dataset(one, texts=["t"]), tmp_path / "c.txt")


def test_importing_the_room_is_light() -> None:
    code = (
        "import sys, labelspace.data.read; from labelspace.data import read; assert callable(read);"
        "print([m for m in ('torch', 'numba', 'pyarrow', 'sklearn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# Real files -----------------------------------------------------------------------------------


def test_debtags(shared_data) -> None:
    folder = shared_data("debtags")
    train, test = read_split(folder)
    assert (len(train), len(test)) == (24213, 6087)
    assert test.n_labels == 598
    assert test.label_names[: train.n_labels] == train.label_names
    assert train.taxonomy is not None
    roots = {train.taxonomy.node_names[i] for i in np.unique(train.taxonomy.edges[:, 1])}
    assert len(roots) == 31
    names = (folder / "labels.txt").read_text(encoding="utf-8").splitlines()
    known = read(folder / "test.jsonl.gz", label_names=names)
    assert known.labels.nnz == test.labels.nnz


def test_flipkart_paths_give_the_labels_that_the_file_lists(shared_data) -> None:
    folder = shared_data("flipkart")
    listed = read(folder / "test.jsonl.gz", taxonomy=None)
    built = read(folder / "test.jsonl.gz", columns=Columns(path=("path",), labels=()))
    categories = [i for i, name in enumerate(listed.names()) if not name.startswith("brand: ")]
    assert list(built.names()) == [listed.names()[i] for i in categories]
    assert (built.labels != listed.labels[:, categories]).nnz == 0
    assert built.taxonomy is not None
    assert built.taxonomy.is_tree


def test_delicious_has_a_split_of_its_own_and_ten_others(shared_data) -> None:
    folder = shared_data("delicious")
    own, other = read_split(folder), read_split(folder, split=9)
    assert [len(s) for s in own] == [len(s) for s in other] == [12920, 3185]
    assert own[0].label_names == other[0].label_names
    assert (own[1].labels != other[1].labels).nnz > 0


def test_eurlex_labels_without_features(shared_data) -> None:
    train, test = read_split(shared_data("eurlex-4k-labels"))
    assert train.features is None
    assert [s.labels.shape for s in (train, test)] == [(15539, 3993), (3809, 3993)]


@pytest.mark.parametrize("path", [None, 5, "a\0b"])
def test_what_is_no_path_is_our_error(path):
    for reader in (read, read_split, iter_batches):
        with pytest.raises(ParameterError, match=r"path=|expected a file"):
            reader(path)
