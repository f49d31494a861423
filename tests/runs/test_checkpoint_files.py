"""Checkpoint files: what was written comes back, everything else is a CheckpointError."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest

from labelspace._core.arrays import write_arrays
from labelspace.classifiers.dual_descent import all_against, solve
from labelspace.errors import CheckpointError
from labelspace.runs.callbacks import Checkpoint, kept_blocks
from labelspace.runs.checkpoint_files import Blocks, read_checkpoint, write_checkpoint
from support.planted import planted

ARRAYS = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array(3), "c": np.empty(0)}


def test_arrays_and_facts_come_back(tmp_path):
    write_checkpoint(tmp_path / "x" / "c", ARRAYS, {"identity": "i"})
    arrays, metadata = read_checkpoint(tmp_path / "x" / "c")
    assert metadata == {"identity": "i"}
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert np.array_equal(arrays[name], array)


def test_every_flipped_bit_is_seen(tmp_path):
    path = tmp_path / "c"
    write_checkpoint(path, ARRAYS, {"identity": "i", "epoch": 3})
    whole = path.read_bytes()
    refused = 0
    for place in range(8, len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        with suppress(CheckpointError):
            arrays, metadata = read_checkpoint(path)
            # Such as in blanks of the header, which mean the same.
            assert metadata == {"identity": "i", "epoch": 3}
            assert all(np.array_equal(arrays[name], ARRAYS[name]) for name in ARRAYS)
            refused -= 1
        refused += 1
    assert refused > 0.9 * (len(whole) - 8)


@pytest.mark.parametrize(
    "header",
    [
        *(b"[]", b"3", b'"x"', b"null", b"{}", b'{"a": 3}', b'{"a": {}}', b"[" * 10_000),
        b'{"a": {"dtype": "X", "shape": [1], "data_offsets": [0, 4]}}',
        b'{"a": {"dtype": "F32", "shape": [1e400], "data_offsets": [0, 4]}}',
        b'{"__metadata__": 3}',
        b'{"__metadata__": {"run": 3, "checksum": 4}}',
        b'{"__metadata__": {"run": "[]"}}',
        b"\xff\xfe",
    ],
)
def test_a_header_of_another_kind_is_refused(tmp_path, header):
    path = tmp_path / "c"
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 8)
    with pytest.raises(CheckpointError, match="c is not"):
        read_checkpoint(path)


def test_facts_of_another_kind_are_refused(tmp_path):
    write_checkpoint(tmp_path / "c", {}, [])
    with pytest.raises(CheckpointError, match="not a readable checkpoint"):
        read_checkpoint(tmp_path / "c")


def test_a_checkpoint_without_a_checksum_is_refused(tmp_path):
    write_arrays(tmp_path / "c", ARRAYS, {"run": json.dumps({"identity": "i"})})
    with pytest.raises(CheckpointError, match="not a readable checkpoint"):
        read_checkpoint(tmp_path / "c")


def test_a_failed_write_leaves_what_was_there_and_no_draft(tmp_path):
    (tmp_path / ".c.0123456789ab.tmp").write_bytes(b"of a killed run")
    write_checkpoint(tmp_path / "c", ARRAYS, {})
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
    (tmp_path / "d" / "x").mkdir(parents=True)
    with pytest.raises(CheckpointError, match="d cannot be written"):
        write_checkpoint(tmp_path / "d", ARRAYS, {})
    with pytest.raises(CheckpointError, match="cannot be written"):
        write_checkpoint(tmp_path / "c" / "e", ARRAYS, {})  # a file where a folder must be
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "d"]


def drawn(start):
    rng = np.random.default_rng(start)
    return rng.integers(0, 9, rng.integers(0, 4)), rng.random(rng.integers(0, 5), np.float32)


def same(one, other):
    return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("minutes", [0, 5])
def test_blocks_come_back_from_as_many_files_as_there_are(tmp_path, minutes):
    blocks = Blocks(tmp_path, "b", "run", minutes, resume=False)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda start: blocks.put(start, drawn(start)), range(0, 200, 10)))
    blocks.close()
    assert len(list(tmp_path.iterdir())) == (20 if minutes == 0 else 0)
    blocks.flush()
    blocks.flush()  # there is nothing left
    assert len(list(tmp_path.iterdir())) == (20 if minutes == 0 else 1)
    again = Blocks(tmp_path, "b", "run", minutes, resume=True)
    again.put(200, drawn(200))
    again.flush()
    again = Blocks(tmp_path, "b", "run", minutes, resume=True)
    for start in range(0, 201, 10):
        assert same(again.take(start), drawn(start))
        assert again.take(start) is None
    assert again.take(5) is None
    assert Blocks(tmp_path, "b", "run", minutes, resume=False).take(0) is None
    with pytest.raises(CheckpointError, match="other data or parameters"):
        Blocks(tmp_path, "b", "another", minutes, resume=True)


def test_blocks_that_do_not_fit_together_are_refused(tmp_path):
    whole = {
        "starts": np.array([0, 16]),
        "lengths": np.array([[1], [2]]),
        "part.0": np.arange(3),
    }
    for change in (
        {"lengths": np.array([[1], [3]])},
        {"lengths": np.array([[4], [-1]])},
        {"lengths": np.array([[1]])},
        {"lengths": np.array([1, 2])},
        {"lengths": np.empty((0, 1), np.int64)},
        {"starts": np.array([0])},
        {"part.0": np.arange(4)},
    ):
        write_checkpoint(tmp_path / "b-1.safetensors", {**whole, **change}, {"identity": "i"})
        with pytest.raises(CheckpointError, match="not a readable checkpoint"):
            Blocks(tmp_path, "b", "i", 5, resume=True)


def test_weights_of_blocks_are_those_of_a_run_left_alone(tmp_path):
    X, Y = planted(200, n_labels=60)
    alone = solve(X, all_against(Y))
    checkpoint = Checkpoint(tmp_path)
    solved = []

    def stop(more):
        solved.append(more)
        if len(solved) == 2:
            raise KeyboardInterrupt

    blocks = kept_blocks([checkpoint], "w", "run")
    with pytest.raises(KeyboardInterrupt):
        solve(X, all_against(Y), progress=stop, blocks=blocks)
    checkpoint.keep()
    blocks = kept_blocks([Checkpoint(tmp_path, resume=True)], "w", "run")
    assert len(blocks._kept) >= 2
    resumed = solve(X, all_against(Y), blocks=blocks)
    for part in ("data", "indices", "indptr"):
        assert np.array_equal(getattr(resumed, part), getattr(alone, part))
    assert kept_blocks([], "w", "run") is None


def test_weights_of_another_size_are_refused(tmp_path):
    X, Y = planted(200, n_labels=60)
    good = (np.array([1] * 16), np.zeros(16, np.int32), np.ones(16, np.float32))
    for place, part in (
        (0, good[0][:-1]),
        (0, np.array([2, -1] * 8)),
        (0, np.array([2] * 16)),
        (1, np.full(16, X.shape[1] + 1, np.int32)),
        (1, np.full(16, -1, np.int32)),
        (1, np.zeros(16, np.int64)),
        (2, np.ones(15, np.float32)),
    ):
        blocks = Blocks(tmp_path, "w", "run", 5, resume=False)
        blocks._kept[0] = tuple(part if i == place else old for i, old in enumerate(good))
        with pytest.raises(CheckpointError, match="another size"):
            solve(X, all_against(Y), blocks=blocks)
