"""Temporary folders go with their process, or with the next one if it was killed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import suppress

import pytest

from labelspace._core.scratch import scratch_folder

pytest.importorskip("fcntl", reason="no file locks here")

HOLD = """
import sys
from labelspace._core.scratch import scratch_folder
with scratch_folder("test") as folder:
    (folder / "data").write_bytes(bytes(100))
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def holder(temporary):
    """Start another process with a folder of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


def test_a_folder_goes_at_the_end_and_by_an_error(temporary):
    with scratch_folder("test") as folder:
        (folder / "x").touch()
        assert folder.parent == temporary
    assert not folder.exists()
    with suppress(RuntimeError), scratch_folder("test"):
        raise RuntimeError
    assert not list(temporary.iterdir())


def test_the_folder_of_a_killed_process_goes_with_the_next(temporary, holder):
    (left,) = temporary.iterdir()
    holder.kill()
    holder.communicate()
    with scratch_folder("other"):
        assert left.exists()
    with scratch_folder("test"):
        assert not left.exists()


def test_those_of_running_processes_and_of_other_people_stay(temporary, holder):
    (theirs,) = temporary.iterdir()
    foreign = temporary / "labelspace-test-mine"
    foreign.mkdir()
    (temporary / "labelspace-test-link").symlink_to(foreign)
    with scratch_folder("test"), scratch_folder("test"):
        assert (theirs / "data").exists()
        assert foreign.exists()
    assert holder.poll() is None
    assert (theirs / "data").exists()
