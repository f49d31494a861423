"""The cache stays within its limit, next to other processes and other files."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from labelspace._core.cache import (
    DEFAULT_LIMIT,
    FEATURES,
    cache_limit,
    cached,
    entries,
    read_entry,
    trim,
    write_entry,
)
from labelspace.errors import ParameterError

PAYLOAD = 10_000  # bytes of the array in each entry; its header is below 200


def key(number):
    return f"{number:032x}"


def put(root, number, used=None, part=""):
    """Write an entry; `used` sets when, in seconds."""
    entry = root / part / f"{key(number)}.safetensors"
    write_entry(entry, {"values": np.full(PAYLOAD, number % 256, np.uint8)}, root)
    if used is not None:
        os.utime(entry, (used, used))
    return entry


def names(root):
    return [int(entry.path.stem, 16) for entry in entries(root)]


def test_the_least_recently_used_entries_go_first(tmp_path, monkeypatch):
    for number, used in ((1, 300), (2, 100), (3, 200)):
        put(tmp_path, number, used, part=FEATURES if number == 3 else "")
    assert names(tmp_path) == [2, 3, 1]
    monkeypatch.setenv("LABELSPACE_CACHE_BYTES", str(3 * PAYLOAD))
    put(tmp_path, 4)
    assert names(tmp_path) == [1, 4]
    assert sum(entry.size for entry in entries(tmp_path)) <= 3 * PAYLOAD


def test_reading_an_entry_makes_it_recent(tmp_path):
    for number, used in ((1, 100), (2, 200)):
        put(tmp_path, number, used)
    assert read_entry(tmp_path / f"{key(1)}.safetensors", "it", dict) is not None
    assert names(tmp_path) == [2, 1]


def test_an_entry_above_the_limit_is_not_written_and_drives_no_other_out(tmp_path, monkeypatch):
    put(tmp_path, 1)
    monkeypatch.setenv("LABELSPACE_CACHE_BYTES", str(PAYLOAD - 1))
    put(tmp_path, 2)
    assert names(tmp_path) == [1]


def test_other_files_in_the_folder_stay(tmp_path):
    put(tmp_path, 1)
    others = [tmp_path / "notes.safetensors", tmp_path / f"{key(2)}.txt", tmp_path / "features"]
    others[0].write_text("x")
    others[1].write_text("x")
    others[2].mkdir()
    (tmp_path / f"{key(3)}.safetensors").symlink_to(others[0])
    assert len(trim(tmp_path, 0)) == 1
    assert all(path.exists() for path in others)


def test_trimming_removes_drafts_of_killed_processes(tmp_path):
    for folder in (tmp_path, tmp_path / FEATURES):
        folder.mkdir(exist_ok=True)
        (folder / f".{key(1)}.safetensors.0123456789ab.tmp").write_text("x")
    trim(tmp_path, DEFAULT_LIMIT)
    assert [path.name for path in tmp_path.rglob("*")] == [FEATURES]


def test_an_entry_that_another_process_removes_first_counts_as_removed(tmp_path, monkeypatch):
    """Two processes that trim at once must not remove twice as much."""
    for number in (1, 2, 3):
        put(tmp_path, number, number)
    listed = entries(tmp_path)
    listed[0].path.unlink()
    monkeypatch.setattr("labelspace._core.cache.entries", lambda _: listed)
    trim(tmp_path, 2 * (PAYLOAD + 200))
    monkeypatch.undo()
    assert names(tmp_path) == [2, 3]


def test_several_processes_write_and_trim_at_once(tmp_path):
    limit = 6 * PAYLOAD
    code = (
        "import sys, numpy as np; from pathlib import Path;"
        "from labelspace._core.cache import cached\n"
        "root, first = Path(sys.argv[1]), int(sys.argv[2])\n"
        "for number in range(first, first + 40):\n"
        f"    make = lambda: np.full({PAYLOAD}, number % 7, np.uint8)\n"
        "    name = f'{number % 20:032x}'\n"
        "    found = cached(root, name, 'it', make=make, pack=lambda a: {'a': a},"
        " restore=lambda arrays: arrays['a'])\n"
        f"    assert len(found) == {PAYLOAD}\n"
    )
    environment = {**os.environ, "LABELSPACE_CACHE_BYTES": str(limit)}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path), str(first)],
            env=environment,
            stderr=subprocess.PIPE,
        )
        for first in (0, 5, 10)
    ]
    for process in running:
        _, errors = process.communicate(timeout=300)
        assert (process.returncode, errors) == (0, b"")
    assert 0 < len(entries(tmp_path)) <= limit // PAYLOAD + len(running)
    trim(tmp_path, limit)
    assert sum(entry.size for entry in entries(tmp_path)) <= limit
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".tmp")]


def test_a_limit_of_0_turns_the_cache_off(tmp_path, monkeypatch):
    calls = []

    def ask():
        return cached(
            tmp_path,
            key(1),
            "it",
            make=lambda: calls.append(1) or np.ones(3),
            pack=lambda array: {"array": array},
            restore=lambda arrays: arrays["array"],
        )

    monkeypatch.setenv("LABELSPACE_CACHE_BYTES", "0")
    assert ask().tolist() == [1, 1, 1]
    assert names(tmp_path) == []
    monkeypatch.delenv("LABELSPACE_CACHE_BYTES")
    ask()
    ask()
    assert len(calls) == 2
    monkeypatch.setenv("LABELSPACE_CACHE_BYTES", "0")  # neither written nor read
    ask()
    assert len(calls) == 3


def test_the_limit_comes_from_the_environment(monkeypatch):
    monkeypatch.delenv("LABELSPACE_CACHE_BYTES", raising=False)
    assert cache_limit() == 10_000_000_000
    monkeypatch.setenv("LABELSPACE_CACHE_BYTES", " 5000 ")
    assert cache_limit() == 5000
    for wrong in ("10 GB", "-1", "1.5"):
        monkeypatch.setenv("LABELSPACE_CACHE_BYTES", wrong)
        with pytest.raises(ParameterError, match=r"LABELSPACE_CACHE_BYTES.*whole number of bytes"):
            cache_limit()


def test_an_entry_removed_while_it_is_used_stays_usable(tmp_path):
    entry = put(tmp_path, 7)
    arrays = read_entry(entry, "it", dict)
    trim(tmp_path, 0)
    assert not entry.exists()
    assert set(arrays["values"]) == {7}
