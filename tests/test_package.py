"""What `import labelspace` offers, with and without torch."""

from __future__ import annotations

import subprocess
import sys

import pytest

import labelspace as ls

WITHOUT_TORCH = """
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: None if name == "torch" else find(name, *rest)
import labelspace as ls
"""


def run(code):
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH + code], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "name",
    ["LabelspaceError", "Tags", "Taxonomy", "Threshold", "Explanation", "iter_batches", "write"],
)
def test_names_are_exported(name):
    assert name in ls.__all__
    assert getattr(ls, name).__name__ == name


def test_all_names_can_be_had():
    pytest.importorskip("torch")
    assert set(dir(ls)) == set(ls.__all__)
    assert all(hasattr(ls, name) for name in ls.__all__)


def test_errors_have_one_base():
    with pytest.raises(ls.LabelspaceError):
        ls.read("no such file.jsonl")


def test_help_works_without_torch():
    done = run("import pydoc; print(pydoc.render_doc(ls, renderer=pydoc.plaintext))")
    assert done.returncode == 0, done.stderr
    assert "class Tagger" in done.stdout
    assert "class GLaS" not in done.stdout


def test_a_class_that_needs_torch_names_the_extra():
    done = run("ls.GLaS")
    assert "MissingExtraError: GLaS needs torch" in done.stderr
    assert "pip install 'labelspace[neural]'" in done.stderr


def test_fusion_without_torch_reports_what_it_leaves_out():
    done = run(
        "rows = [{'text': f'red apple {i}', 'labels': ['fruit' if i % 2 else 'food']} "
        "for i in range(40)]; print(ls.train(rows).tag('red apple')[0].name)"
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("fusion trains without its neural member") == 1
    assert "labelspace[neural]" in done.stderr
    assert done.stdout.strip() in ("fruit", "food")


def test_without_optuna_tuning_names_the_extra():
    without = WITHOUT_TORCH.replace("torch", "optuna")
    code = "assert 'tune' in dir(ls)\nls.tune([{'text': 'a', 'labels': ['b']}] * 9, method='knn')"
    done = subprocess.run(
        [sys.executable, "-c", without + code], capture_output=True, text=True, check=False
    )
    assert "MissingExtraError: tuning needs optuna" in done.stderr
    assert "pip install 'labelspace[tune]'" in done.stderr
