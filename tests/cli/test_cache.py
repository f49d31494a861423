"""`labelspace cache` shows and removes the entries."""

from __future__ import annotations

import json

import numpy as np
import pytest

from labelspace._core.cache import FEATURES, write_entry


@pytest.fixture
def filled(tmp_path, monkeypatch):
    root = tmp_path / "cache"
    monkeypatch.setenv("LABELSPACE_CACHE", str(root))
    for number, part in enumerate(("", FEATURES)):
        entry = root / part / f"{number:032x}.safetensors"
        write_entry(entry, {"values": np.zeros(5000, np.uint8)}, root)
    return root


def test_info(command, filled, monkeypatch):
    monkeypatch.setenv("LABELSPACE_CACHE_BYTES", "2000000")
    code, out, _ = command("cache", "info", "--json")
    found = json.loads(out)
    size = sum(path.stat().st_size for path in filled.rglob("*.safetensors"))
    assert code == 0
    assert found == {"path": str(filled), "entries": 2, "bytes": size, "limit_bytes": 2_000_000}
    code, out, _ = command("cache", "info")
    assert code == 0
    assert "2.0 MB" in out
    assert "10." in out  # kB of both entries


def test_info_without_a_cache(command, tmp_path, monkeypatch):
    monkeypatch.setenv("LABELSPACE_CACHE", str(tmp_path / "none"))
    monkeypatch.setenv("LABELSPACE_CACHE_BYTES", "0")
    code, out, _ = command("cache", "info")
    assert code == 0
    assert "off" in out
    assert not (tmp_path / "none").exists()


def test_clear_removes_the_entries_and_nothing_else(command, filled):
    (filled / "notes.txt").write_text("mine")
    code, _, err = command("cache", "clear")
    assert code == 0
    assert "2 entries removed" in err
    assert sorted(path.name for path in filled.rglob("*")) == [FEATURES, "notes.txt"]
    code, out, _ = command("cache", "clear", "--json")
    assert json.loads(out)["removed"] == 0


def test_a_limit_that_is_no_number_is_an_error_of_the_user(command, filled, monkeypatch):
    del filled
    monkeypatch.setenv("LABELSPACE_CACHE_BYTES", "10 GB")
    code, _, err = command("cache", "info")
    assert code == 2
    assert "LABELSPACE_CACHE_BYTES='10 GB'" in err
