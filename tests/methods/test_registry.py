"""Names of methods, and the error where an extra is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from labelspace.errors import UnknownMethodError
from labelspace.methods.registry import method_class, method_names


def test_every_name_has_its_class():
    for name in method_names():
        assert method_class(name).name == name


def test_the_error_for_an_unknown_name_suggests_the_nearest():
    with pytest.raises(UnknownMethodError, match="did you mean 'knn'"):
        method_class("knnn")


@pytest.mark.parametrize("name", [None, 5, ["knn"]])
def test_the_error_for_a_value_that_is_no_name_lists_the_names(name):
    with pytest.raises(UnknownMethodError, match=r"expected a name; there are: .*knn"):
        method_class(name)


def test_without_torch_the_error_names_the_extra():
    code = (
        "import sys\n"
        "class NoTorch:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'torch': raise ModuleNotFoundError(name=name)\n"
        "sys.meta_path.insert(0, NoTorch())\n"
        "from labelspace.errors import MissingExtraError\n"
        "from labelspace.methods.registry import method_class\n"
        "method_class('knn')\n"
        "try:\n    method_class('glas')\n"
        "except MissingExtraError as error:\n    print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "labelspace[neural]" in run.stdout
