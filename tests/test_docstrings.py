"""The examples in docstrings give the output that they show, in every module that has any."""

from __future__ import annotations

import doctest
import re
from importlib import import_module
from pathlib import Path

import pytest

import labelspace

PACKAGE = Path(labelspace.__file__).parent
EXAMPLE = re.compile(r"^\s*>>> ", re.MULTILINE)


def with_examples():
    for path in sorted(PACKAGE.rglob("*.py")):
        if EXAMPLE.search(path.read_text(encoding="utf-8")):
            parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
            yield ".".join(part for part in parts if part != "__init__")


@pytest.mark.parametrize("name", list(with_examples()))
def test_examples(name):
    result = doctest.testmod(import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
