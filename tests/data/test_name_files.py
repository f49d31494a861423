"""Names beside numbered files: found, fitted, matched by name, and any name survives."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from labelspace.data import Dataset, Taxonomy, iter_batches, read, read_split, write
from labelspace.data.name_files import name_lines, read_names
from labelspace.errors import DataError

XC = "2 4 3\n0,2 1:0.5 3:1\n 0:2\n"
SVM = "0,2 2:0.5 4:1\n1 1:2\n"
AWKWARD = ["a\nb", "a\r", "a\u2028b", "a\x85", "a\x0cb", "\ufeffa", '"', '"a"', '"a', " ", "a\\n"]

names_lists = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1) | st.sampled_from(AWKWARD),
    max_size=8,
    unique=True,
)


def put(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="")
    return path


@given(names=names_lists)
@settings(max_examples=300, deadline=None)
def test_any_name_survives(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> None:
    path = tmp_path_factory.mktemp("n") / "labels.txt"
    path.write_bytes(b"".join(name_lines(names)))
    assert read_names(path) == names
    # Other programs, which may cut lines elsewhere, count as many of them.
    assert len(path.read_text(encoding="utf-8").splitlines()) == len(names)


def test_plain_lines_are_names_as_they_are(tmp_path: Path) -> None:
    path = put(
        tmp_path / "n.txt", '\ufeffplain\r\n "b"\n"not closed\n"a" and "b"\n"c"\n"\\ud800"\n'
    )
    names = ["plain", ' "b"', '"not closed', '"a" and "b"', "c", '"\\ud800"']
    assert read_names(path) == names


@given(names=names_lists.filter(len))
@settings(max_examples=100, deadline=None)
def test_writing_and_reading_xc_text_loses_no_name(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    eye = csr_matrix(np.eye(len(names), dtype=np.float32))
    taxonomy = Taxonomy.from_names([(name, "all of them") for name in names], names)
    folder = tmp_path_factory.mktemp("x")
    for target in (folder / "a.txt", folder / "a.txt.gz"):
        dataset = Dataset(eye, eye, label_names=tuple(names), taxonomy=taxonomy)
        written = write(dataset, target)
        assert sorted(written) == sorted(folder.glob(f"{target.name}*"))
        back = read(target)
        assert back.label_names == dataset.label_names
        assert back.taxonomy == taxonomy
        assert (back.labels != eye).nnz == 0
        for file in written:
            file.unlink()


def test_what_stands_beside_other_data_is_removed(tmp_path: Path) -> None:
    eye = csr_matrix(np.eye(2, dtype=np.float32))
    taxonomy = Taxonomy.from_names([("a", "b")], ["a", "b"])
    write(Dataset(eye, eye, label_names=("a", "b"), taxonomy=taxonomy), tmp_path / "a.txt")
    assert len(list(tmp_path.iterdir())) == 3
    write(Dataset(eye, eye), tmp_path / "a.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert read(tmp_path / "a.txt").label_names is None


@pytest.mark.parametrize("name", ["a.txt", "a.svm", "trn_X_Xf.txt"])
@pytest.mark.parametrize("own", [True, False])
def test_names_beside_a_numbered_file(tmp_path: Path, name: str, own: bool) -> None:
    if name.startswith("trn"):
        path = put(tmp_path / name, "2 4\n1:0.5\n3:1 0:2\n")
        put(tmp_path / "trn_X_Y.txt", "2 3\n0:1 2:1\n\n")
    else:
        path = put(tmp_path / name, SVM if name.endswith("svm") else XC)
    put(tmp_path / (f"{name}.labels.txt" if own else "labels.txt"), "x\ny y\nz\n")
    assert read(path).label_names == ("x", "y y", "z")
    if not own:
        assert read(path, label_names=["c", "b", "a"]).label_names == ("c", "b", "a")


def test_names_of_a_file_that_was_zipped_later(tmp_path: Path) -> None:
    eye = csr_matrix(np.eye(2, dtype=np.float32))
    write(Dataset(eye, eye, label_names=("a", "b")), tmp_path / "a.txt")
    write(Dataset(eye, eye), tmp_path / "a.txt.gz")
    assert read(tmp_path / "a.txt.gz").label_names == ("a", "b")


def test_names_that_do_not_fit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = put(tmp_path / "a.txt", XC)
    for content in ("a\nb\n", "a\nb\nc\nd\n", "a\n\nc\n", "a\na\nb\n"):
        put(tmp_path / "labels.txt", content)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert read(path).label_names is None
        assert "labels.txt" in caplog.text
    put(tmp_path / "a.txt.labels.txt", "a\nb\n")
    with pytest.raises(DataError, match=r"a\.txt\.labels\.txt: 2 names for the 3 labels"):
        read(path)
    assert len(read(path, require_labels=False)) == 2


def test_svmlight_has_as_many_labels_as_names(tmp_path: Path) -> None:
    path = put(tmp_path / "a.svm", SVM)
    put(tmp_path / "labels.txt", "a\nb\nc\nd\n")
    assert read(path).label_names == ("a", "b", "c", "d")
    assert read(path, n_labels=3).label_names is None
    put(tmp_path / "labels.txt", "a\nb\n")
    assert read(path).labels.shape == (2, 3)


def test_a_file_with_names_of_its_own_is_matched_by_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = put(tmp_path / "a.txt", XC)
    put(tmp_path / "a.txt.labels.txt", "z\ny\nx\n")
    known = ["x", "w", "z"]
    dataset = read(path, label_names=known)
    assert dataset.label_names == tuple(known)
    np.testing.assert_array_equal(dataset.labels.toarray(), [[1, 0, 1], [0, 0, 0]])
    with pytest.raises(DataError, match="'z' is not among the 2 known"):
        read(path, label_names=["x", "w"])
    dropped = read(path, label_names=["x", "w"], unknown_labels="drop")
    np.testing.assert_array_equal(dropped.labels.toarray(), [[1, 0], [0, 0]])
    assert "a.txt: 1 unknown labels were dropped" in caplog.text
    extended = read(path, label_names=["x", "w"], unknown_labels="extend")
    assert extended.label_names == ("x", "w", "z")
    (batch,) = iter_batches(path, label_names=known)
    assert (batch.labels != dataset.labels).nnz == 0
    assert batch.label_names == dataset.label_names


def test_converted_files_are_a_split_by_name(tmp_path: Path) -> None:
    put(tmp_path / "train.txt", XC)
    put(tmp_path / "train.txt.labels.txt", "a\nb\nc\n")
    put(tmp_path / "test.txt", "1 4 2\n0,1 1:1\n")
    put(tmp_path / "test.txt.labels.txt", "d\na\n")
    for train, test in (
        read_split(tmp_path),
        read_split(tmp_path / "train.txt", tmp_path / "test.txt"),
    ):
        assert train.label_names == ("a", "b", "c")
        assert test.label_names == ("a", "b", "c", "d")
        np.testing.assert_array_equal(test.labels.toarray(), [[1, 0, 0, 1]])


def test_labels_txt_beside_two_files(tmp_path: Path) -> None:
    files = put(tmp_path / "a.txt", XC), put(tmp_path / "b.txt", XC)
    put(tmp_path / "labels.txt", "a\nb\nc\n")
    assert [each.label_names for each in read_split(*files)] == [("a", "b", "c")] * 2


def test_the_hierarchy_of_one_file_comes_first(tmp_path: Path) -> None:
    row = json.dumps({"text": "t", "labels": ["cat"]})
    path = put(tmp_path / "a.jsonl", row)
    put(tmp_path / "hierarchy.tsv", "cat\tanimal\n")
    put(tmp_path / "a.jsonl.hierarchy.tsv", "cat\tpet\n")
    taxonomy = read(path).taxonomy
    assert taxonomy is not None
    assert taxonomy.node_names == ("cat", "pet")
