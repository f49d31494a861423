"""A sample of the inputs of `make fuzz` for every reader, and inputs that once broke one."""

from __future__ import annotations

import json
import time

import pytest

from hostile.fuzz_readers import NAMES
from hostile.readers import MOST_SECONDS, TARGETS, mutated, run
from labelspace.data import read
from labelspace.errors import DataError

INPUTS = 150
BY_NAME = [name for name in NAMES if name != "http"]  # which tests/serve attacks


def test_the_targets_are_those_that_are_named():
    assert tuple(TARGETS) == NAMES


@pytest.mark.parametrize("name", BY_NAME)
def test_damaged_inputs_are_read_or_refused(tmp_path, name):
    for content in mutated(TARGETS[name][1], range(INPUTS)):
        run(name, tmp_path, content)


def test_a_small_file_that_claims_many_labels(tmp_path):
    """1 KB, 10^12 labels: more than numbers of labels have bits for."""
    for name, content in (
        ("a.txt", f"1 5 {10**12}\n7 0:1\n"),
        ("a.txt", f"1 {10**12} 5\n1 0:1\n"),
        ("a.txt", f"{10**12} 5 5\n1 0:1\n"),
        ("a.svm", f"{10**12} 0:1\n"),
        ("trn_X_Y.txt", f"1 {10**12}\n7:1\n"),
    ):
        path = tmp_path / name
        path.write_text(content)
        started = time.process_time()
        with pytest.raises(DataError) as error:
            read(path)
        assert str(error.value).startswith(str(path))
        assert time.process_time() - started < MOST_SECONDS


@pytest.mark.parametrize("depth", [100, 2000, 500_000])
def test_nested_json_in_a_table(tmp_path, depth):
    path = tmp_path / "a.jsonl"
    nested = "[" * depth + "]" * depth
    path.write_text(json.dumps({"text": "a", "labels": ["b"]}) + "\n" + f'{{"text": {nested}}}\n')
    with pytest.raises(DataError, match=r"a\.jsonl:2"):
        read(path)
