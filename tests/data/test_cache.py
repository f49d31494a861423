"""The cache gives back what the parser gave, and trusts nothing that is damaged."""

from __future__ import annotations

import gzip
import logging
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from scipy.sparse import csr_matrix

from labelspace._core.cache import cache_folder, write_entry
from labelspace.data.cache import cached
from labelspace.data.dataset import Dataset
from labelspace.data.formats import xc
from labelspace.errors import DataError, ParameterError

calls: list[str] = []


def read_and_count(path: str | Path) -> Dataset:
    calls.append(str(path))
    return xc.read_xc(path)


def read_dense(path: str | Path) -> Dataset:
    dataset = read_and_count(path)
    return Dataset(dataset.labels, dataset.features.toarray())


def read_labels_only(path: str | Path) -> Dataset:
    return Dataset(read_and_count(path).labels)


def read_with_names(path: str | Path) -> Dataset:
    return Dataset(read_and_count(path).labels, label_names=["a", "b"])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    calls.clear()
    path = tmp_path / "data.txt"
    path.write_text("3 4 2\n0,1 0:1 3:0.1\n \n1 2:0\n")
    return path


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "below"


def entry_of(store: Path) -> Path:
    (entry,) = store.iterdir()
    return entry


def assert_same(left: Dataset, right: Dataset) -> None:
    for name in ("labels", "features"):
        ours, theirs = getattr(left, name), getattr(right, name)
        assert type(ours) is type(theirs)
        if isinstance(ours, csr_matrix):
            assert ours.shape == theirs.shape
            for part in ("data", "indices", "indptr"):
                assert getattr(ours, part).dtype == getattr(theirs, part).dtype
                assert np.array_equal(getattr(ours, part), getattr(theirs, part))
        elif ours is not None:
            assert ours.dtype == theirs.dtype
            assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("parse", [read_and_count, read_dense, read_labels_only])
def test_the_second_time_nothing_is_parsed(source: Path, store: Path, parse: object) -> None:
    first = cached(source, parse, store)
    second = cached(source, parse, store)
    assert len(calls) == 1
    assert second.source == str(source)
    assert_same(first, second)


def test_cached_arrays_can_be_changed_without_changing_the_cache(source: Path, store: Path) -> None:
    cached(source, read_and_count, store)
    cached(source, read_and_count, store).features.data[:] = 7
    assert 7 not in cached(source, read_and_count, store).features.data


def test_content_counts_and_not_the_name(source: Path, store: Path, tmp_path: Path) -> None:
    cached(source, read_and_count, store)
    copy = tmp_path / "copy.txt"
    copy.write_bytes(source.read_bytes())
    assert cached(copy, read_and_count, store).source == str(copy)
    assert len(calls) == 1
    source.write_text("1 4 2\n0 1:1\n")
    assert len(cached(source, read_and_count, store)) == 1
    assert len(calls) == 2


def test_parsers_and_their_options_are_distinguished(tmp_path: Path, store: Path) -> None:
    path = tmp_path / "data.svm"
    path.write_text("0 1:1\n")
    for _ in range(2):
        for zero_based, width in ((True, 2), (False, 1)):
            parse = partial(xc.read_svmlight, zero_based=zero_based)
            assert cached(path, parse, store).n_features == width
    assert len(list(store.iterdir())) == 2
    with pytest.raises(ParameterError, match=r"partial"):
        cached(path, lambda place: xc.read_svmlight(place), store)


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "header", "text"])
def test_a_damaged_entry_is_parsed_again_and_mended(
    source: Path, store: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    whole = cached(source, read_and_count, store)
    entry = entry_of(store)
    good = entry.read_bytes()
    bad = bytearray(good)
    if damage == "flip":
        bad[-3] ^= 1
    elif damage == "cut":
        del bad[-10:]
    elif damage == "empty":
        bad.clear()
    elif damage == "header":
        bad[0:8] = b"\xff" * 8
    else:
        bad[:] = b"not an entry"
    entry.write_bytes(bad)
    with caplog.at_level(logging.WARNING):
        assert_same(cached(source, read_and_count, store), whole)
    assert len(calls) == 2
    assert entry.name in caplog.text
    assert entry_of(store).read_bytes() == good
    cached(source, read_and_count, store)
    assert len(calls) == 2


def test_an_entry_is_plain_safetensors(source: Path, store: Path) -> None:
    dataset = cached(source, read_and_count, store)
    arrays = load_file(entry_of(store))
    assert np.array_equal(arrays["features.data"], dataset.features.data)
    assert arrays["labels.shape"].tolist() == [3, 2]


def test_what_is_no_array_is_parsed_each_time(source: Path, store: Path) -> None:
    for _ in range(2):
        assert cached(source, read_with_names, store).label_names == ["a", "b"]
    assert len(calls) == 2
    assert not store.exists()


def test_a_cache_that_cannot_be_written_does_no_harm(
    source: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with caplog.at_level(logging.WARNING):
        assert len(cached(source, read_and_count, blocked)) == 3
    assert "is not cached" in caplog.text


def test_a_source_that_cannot_be_read_or_parsed(tmp_path: Path, store: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        cached(tmp_path / "absent.txt", read_and_count, store)
    broken = tmp_path / "broken.txt.gz"
    broken.write_bytes(gzip.compress(b"2 4 2\n0 1:1\n"))
    with pytest.raises(DataError, match="2 rows"):
        cached(broken, read_and_count, store)
    assert not store.exists()


def test_the_directory_comes_from_the_environment(
    source: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABELSPACE_CACHE", str(store))
    cached(source, xc.read_xc)
    assert entry_of(store).suffix == ".safetensors"
    monkeypatch.delenv("LABELSPACE_CACHE")
    monkeypatch.setenv("HOME", str(store / "home"))
    cached(source, xc.read_xc)
    assert len(list((store / "home" / ".cache" / "labelspace").iterdir())) == 1


def test_another_process_finds_the_entry(source: Path, store: Path) -> None:
    cached(source, xc.read_xc, store)
    before = entry_of(store).stat().st_mtime_ns
    code = (
        "import sys; from labelspace.data import cache; from labelspace.data.formats import xc; "
        "cache._pack = None; "
        "print(cache.cached(sys.argv[1], xc.read_xc, sys.argv[2]).features.nnz)"
    )
    command = [sys.executable, "-c", code, str(source), str(store)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    assert answer.stdout.strip() == "3"
    assert entry_of(store).stat().st_mtime_ns == before


def test_an_entry_with_other_names_or_types_is_made_again(source: Path, store: Path) -> None:
    """The bytes of the arrays are as they were, so a checksum of these alone would not see it."""
    whole = cached(source, read_and_count, store)
    entry = entry_of(store)
    good = entry.read_bytes()
    renamed = good.replace(b'"labels.data"', b'"labels.dat2"')
    retyped = good.replace(b'"F32"', b'"I32"')
    assert renamed != good != retyped
    for bad in (renamed, retyped):
        entry.write_bytes(bad)
        assert_same(cached(source, read_and_count, store), whole)
        assert entry.read_bytes() == good


def test_an_entry_that_lacks_an_array_is_made_again(source: Path, store: Path) -> None:
    whole = cached(source, read_and_count, store)
    entry = entry_of(store)
    write_entry(entry, {"labels.data": np.zeros(1)}, store)  # whole, and of no use
    assert_same(cached(source, read_and_count, store), whole)
    assert len(calls) == 2


def test_what_killed_processes_left_is_removed(source: Path, store: Path) -> None:
    store.mkdir(parents=True)
    left = store / ".0123.safetensors.0123456789ab.tmp"
    mine = store / ".notes.txt"
    for path in (left, mine):
        path.write_text("x")
    cached(source, read_and_count, store)
    assert not left.exists()
    assert mine.exists()


def test_a_user_without_a_home_has_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise RuntimeError("no home")

    monkeypatch.delenv("LABELSPACE_CACHE", raising=False)
    monkeypatch.setattr(Path, "home", nowhere)
    assert cache_folder().is_dir()
