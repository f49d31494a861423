"""Narrow arrays: what comes back, and what it costs."""

from __future__ import annotations

import numpy as np
import pytest

from labelspace.methods.fusion.narrow import compact, widened

RNG = np.random.default_rng(0)
LONG = 5000


@pytest.mark.parametrize("largest", [200, 60_000, 70_000, 2**31 - 1])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_whole_numbers_come_back_as_they_were(largest, dtype):
    given = RNG.integers(0, largest + 1, LONG).astype(dtype)
    given[0] = largest
    found = widened(compact({"a.b": given}))
    assert found["a.b"].dtype == dtype
    np.testing.assert_array_equal(found["a.b"], given)


def test_floats_keep_three_digits_and_take_half_the_room():
    given = RNG.standard_normal(LONG).astype(np.float32)
    kept = compact({"w": given})
    found = widened(kept)["w"]
    assert next(iter(kept.values())).nbytes == given.nbytes / 2
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, given, rtol=1e-3, atol=1e-7)
    # A second time costs nothing: a model that is saved, loaded and saved stays the same.
    np.testing.assert_array_equal(widened(compact({"w": found}))["w"], found)


@pytest.mark.parametrize(
    "given",
    [
        RNG.standard_normal(LONG),  # float64: somebody asked for the digits
        np.full(LONG, 1e6, np.float32),
        np.full(LONG, -np.inf, np.float32),
        RNG.integers(-5, 5, LONG),
        RNG.standard_normal(10).astype(np.float32),
        np.zeros(LONG, bool),
        np.empty(0, np.float32),
    ],
)
def test_what_would_be_lost_is_left_alone(given):
    kept = compact({"x": given})
    assert kept["x"] is given
    assert widened(kept)["x"] is given


def test_arrays_of_full_precision_keep_their_floats():
    given = RNG.standard_normal(LONG).astype(np.float32)
    numbers = np.arange(LONG)
    kept = compact({"0.points": given, "0.weights": given, "points": numbers}, ("points",))
    assert kept["0.points"] is given
    assert kept["0.weights@float32"].dtype == np.float16
    assert kept["points@int64"].dtype == np.uint16
