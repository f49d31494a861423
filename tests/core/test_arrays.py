"""Arrays in a file come back as they were, as maps."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
import safetensors.numpy

from labelspace._core.arrays import (
    joined_parts,
    prefixed,
    read_arrays,
    with_prefix,
    write_arrays,
)


@pytest.mark.parametrize(
    "dtype", ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"]
)
def test_arrays_come_back_as_read_only_maps(tmp_path, dtype):
    given = {
        "scalar": np.array(3).astype(dtype),
        "empty": np.zeros((0, 4), dtype),
        "cube": np.arange(24).reshape(2, 3, 4).astype(dtype),
        "odd": np.ones(3, np.int8),
    }
    write_arrays(tmp_path / "a.safetensors", given, {"note": "x"})
    found, metadata = read_arrays(tmp_path / "a.safetensors")
    assert metadata == {"note": "x"}
    assert found.keys() == given.keys()
    for name, array in found.items():
        np.testing.assert_array_equal(array, given[name])
        assert (array.dtype, array.shape) == (given[name].dtype, given[name].shape)
        assert array.size == 0 or not array.flags.writeable


def test_files_are_those_that_safetensors_writes(tmp_path):
    given = {
        "b": np.arange(6, dtype=np.float32).reshape(2, 3),
        "a": np.arange(3, dtype=np.uint8),
        "ü\n": np.array(2.5),
        "c": np.ones(2, np.float16),
        **{str(dtype): np.ones(1, dtype) for dtype in np.sctypeDict.values() if _kept(dtype)},
    }
    for metadata in (None, {"k": '"v" ü'}):
        write_arrays(tmp_path / "a", given, metadata)
        assert (tmp_path / "a").read_bytes() == safetensors.numpy.save(given, metadata)


def _kept(dtype):
    return np.dtype(dtype).kind in "fiub" and np.dtype(dtype).itemsize <= 8


def file_of(header, body=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\xff" * 8, b"\x02" + b"\0" * 7, file_of([]), file_of(b"[" * 100_000),
        file_of(b"\xff\xff"), file_of({"a": 5}), file_of({"a": {}}),
        file_of({"a": entry("BF16", (4,))}, b"\0" * 8),
        file_of({"a": entry([], (2,))}, b"\0" * 8),
        file_of({"a": entry(offsets=(0, 8))}, b"\0" * 7),
        file_of({"a": entry(offsets=(8, 0))}, b"\0" * 8),
        file_of({"a": entry(offsets=(-8, 0))}, b"\0" * 8),
        file_of({"a": entry(offsets=(0, 8, 8))}, b"\0" * 8),
        file_of({"a": entry(offsets=(0.0, 8.0))}, b"\0" * 8),
        file_of({"a": entry(shape=(-2,))}, b"\0" * 8),
        file_of({"a": entry(shape=(-1, -2))}, b"\0" * 8),
        file_of({"a": entry(shape=(True, 2))}, b"\0" * 8),
        file_of({"a": entry(shape=(2**40, 2**40))}, b"\0" * 8),
        file_of({"a": entry(), "b": entry(offsets=(4, 12))}, b"\0" * 12),
        file_of({"__metadata__": [], "a": entry()}, b"\0" * 8),
        file_of({"__metadata__": {"a": 5}, "a": entry()}, b"\0" * 8),
    ],
)  # fmt: skip
def test_what_is_no_safetensors_file_is_a_sentence(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ValueError, match=rf"{tmp_path / 'x'}.*"):
        read_arrays(tmp_path / "x")


def test_a_fifo_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(ValueError, match="regular"):
        read_arrays(tmp_path / "fifo")


def test_arrays_at_odd_places_are_aligned(tmp_path):
    header = {"a": entry("U8", (1,), (0, 1)), "b": entry(offsets=(1, 9))}
    (tmp_path / "x").write_bytes(file_of(header, b"\1" + np.array([2, 3], "<f4").tobytes()))
    arrays, _ = read_arrays(tmp_path / "x")
    assert arrays["b"].flags.aligned
    assert arrays["b"].tolist() == [2, 3]


def test_a_file_is_readable_by_whom_the_umask_allows(tmp_path):
    before = os.umask(0o022)
    try:
        write_arrays(tmp_path / "a", {"x": np.zeros(1)})
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_types_that_cannot_be_kept(tmp_path):
    with pytest.raises(TypeError, match="complex128"):
        write_arrays(tmp_path / "a", {"x": np.zeros(1, complex)})
    assert list(tmp_path.iterdir()) == []


def test_parts_of_a_state_come_back_by_their_prefix():
    state = {"index.codes": 1, "index.scales": 2, "indexes": 3}
    assert with_prefix("index.", state) == {"codes": 1, "scales": 2}
    assert prefixed("index.", {"codes": 1}) == {"index.codes": 1}
    parts = {"0": {"weight": 1, "bias": 2}, "1": {"weight": 3}}
    joined = joined_parts(parts)
    assert joined == {"0.weight": 1, "0.bias": 2, "1.weight": 3}
    assert {part: with_prefix(f"{part}.", joined) for part in parts} == parts
