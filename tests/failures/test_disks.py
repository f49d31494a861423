"""Disks that are full, read-only or broken: old data are whole, and the error is one sentence."""

from __future__ import annotations

import errno
import subprocess
import sys

import pytest

from support.failing_disk import REFUSED, full, refusing

pytestmark = pytest.mark.xdist_group("failures")

WRITING = [
    "train linear", "save", "update", "predict jsonl", "predict parquet", "convert out.txt",
    "convert out.jsonl.gz", "synth", "cache", "journal",
]  # fmt: skip


@pytest.mark.parametrize("name", WRITING)
def test_a_disk_that_fails(name, attacks):
    attack, dice = attacks.of(name), attacks.dice(name)
    if not attack.nursery.can_fail:
        pytest.skip("there is no C compiler")
    calls, size = attack.reference.calls, attack.reference.bytes
    error = dice.choice(sorted(REFUSED))
    for fault in (
        full(dice.randrange(size)),
        refusing(error, dice.randrange(calls // 2 + 1)),
        refusing(errno.EIO, dice.randrange(calls), once=True),
    ):
        assert attack.meet(fault) == []


def test_a_study_whose_file_fails_goes_on_with_the_next_run(attacks):
    attack = attacks.of("tune")
    if not attack.nursery.can_fail:
        pytest.skip("there is no C compiler")
    assert attack.meet(refusing(errno.ENOSPC, attack.reference.calls // 2)) == []


def test_standard_output_that_is_full(template):
    command = [sys.executable, "-m", "labelspace", "predict", "model", "test.jsonl"]
    with open("/dev/full", "wb") as out:
        done = subprocess.run(
            command, cwd=template, stdout=out, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1].startswith("error: ")
    assert "Traceback" not in done.stderr
