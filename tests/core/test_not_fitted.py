"""The error of a model that is not fitted."""

from __future__ import annotations

import subprocess
import sys

import pytest
import sklearn.exceptions

from labelspace import errors
from labelspace.features import Tfidf
from labelspace.methods.registry import method_class


@pytest.mark.parametrize(
    "caught",
    [errors.NotFittedError, errors.LabelspaceError, sklearn.exceptions.NotFittedError, ValueError],
)
def test_it_is_caught_by_our_class_and_by_that_of_scikit_learn(caught):
    with pytest.raises(caught, match="call fit first"):
        method_class("knn")().predict([[1.0]], 1)
    with pytest.raises(caught, match="call fit first"):
        Tfidf().transform(["text"])


def test_the_command_line_starts_without_scikit_learn():
    code = "import sys, labelspace.cli, labelspace.errors; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
