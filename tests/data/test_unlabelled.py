"""Examples to predict for: labels are neither needed nor checked, in every numbered format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from labelspace.data import Dataset, iter_batches, read
from labelspace.errors import DataError

NAMES = ["a", "b"]


def put(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def both_ways(path: Path, **options: object) -> list[Dataset]:
    options |= {"n_features": 3, "label_names": NAMES, "n_labels": 2, "require_labels": False}
    return [read(path, **options), *iter_batches(path, **options)]


@pytest.mark.parametrize(
    ("content", "labels"),
    [
        ("1 3 0\n 1:2\n", [[0, 0]]),  # no labels, and none promised
        ("1 3 9\n8 1:2\n", [[0, 0]]),  # the labels of something else
        ("1 3 0\n8 1:2\n", [[0, 0]]),  # labels that the header denies
        ("1 3 2\n1,5 1:2\n", [[0, 1]]),  # a label of the model and one beyond
    ],
)
def test_xc_text(tmp_path: Path, content: str, labels: list[list[int]]) -> None:
    path = put(tmp_path / "a.txt", content)
    for dataset in both_ways(path):
        np.testing.assert_array_equal(dataset.labels.toarray(), labels)
        np.testing.assert_array_equal(dataset.features.toarray(), [[0, 2, 0]])
        assert dataset.names() == NAMES
    with pytest.raises(DataError):
        read(path, n_features=3, n_labels=9 if " 9" not in content else 2)
    with pytest.raises(DataError, match="3 features"):
        list(iter_batches(path, n_features=4))


def test_svmlight(tmp_path: Path) -> None:
    for content, labels in ((" 2:2\n", [[0, 0]]), ("1,7 2:2\n", [[0, 1]])):
        path = put(tmp_path / "a.svm", content)
        for dataset in both_ways(path):
            np.testing.assert_array_equal(dataset.labels.toarray(), labels)
            np.testing.assert_array_equal(dataset.features.toarray(), [[0, 2, 0]])
    (batch,) = iter_batches(path, n_features=3)
    assert batch.labels.shape == (1, 0)


@pytest.mark.parametrize("with_labels", [False, True])
def test_matrix_pairs(tmp_path: Path, with_labels: bool) -> None:
    path = put(tmp_path / "tst_X_Xf.txt", "2 3\n1:2\n\n")
    if with_labels:
        put(tmp_path / "tst_X_Y.txt", "2 7\n6:1\n\n")
    for dataset in both_ways(path):
        assert dataset.labels.shape == (2, 2)
        assert dataset.labels.nnz == 0
        np.testing.assert_array_equal(dataset.features.toarray(), [[0, 2, 0], [0, 0, 0]])
