"""Arrays in a file come back as they were, as maps."""

from __future__ import annotations

import numpy as np
import pytest

from labelspace.arrays import read_arrays, write_arrays


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
