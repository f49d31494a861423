"""Arrays in 16 bits: which are narrowed, and what is restored."""

from __future__ import annotations

import numpy as np
import pytest

from labelspace.methods.fusion.float16 import as_float32, round_in_place, to_float16

RNG = np.random.default_rng(0)
LONG = 5000


@pytest.mark.parametrize("largest", [200, 60_000, 70_000, 2**31 - 1])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_integers_are_restored_exactly(largest, dtype):
    given = RNG.integers(0, largest + 1, LONG).astype(dtype)
    given[0] = largest
    found = as_float32(to_float16({"a.b": given}))
    assert found["a.b"].dtype == dtype
    np.testing.assert_array_equal(found["a.b"], given)


def test_floats_keep_three_digits_and_take_half_the_bytes():
    given = RNG.standard_normal(LONG).astype(np.float32)
    kept = to_float16({"w": given})
    found = as_float32(kept)["w"]
    assert next(iter(kept.values())).nbytes == given.nbytes / 2
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, given, rtol=1e-3, atol=1e-7)
    # Nothing more is lost the second time: a model that is saved, loaded and saved is the same.
    np.testing.assert_array_equal(as_float32(to_float16({"w": found}))["w"], found)


@pytest.mark.parametrize(
    "given",
    [
        RNG.standard_normal(LONG),  # float64 is chosen where digits matter
        np.full(LONG, 1e6, np.float32),
        np.full(LONG, -np.inf, np.float32),
        RNG.integers(-5, 5, LONG),
        RNG.standard_normal(10).astype(np.float32),
        np.zeros(LONG, bool),
        np.empty(0, np.float32),
    ],
)
def test_arrays_that_would_lose_more_than_digits_are_not_narrowed(given):
    kept = to_float16({"x": given})
    assert kept["x"] is given
    assert as_float32(kept)["x"] is given


def test_arrays_of_full_precision_keep_their_floats():
    given = RNG.standard_normal(LONG).astype(np.float32)
    numbers = np.arange(LONG)
    kept = to_float16({"0.points": given, "0.weights": given, "points": numbers}, ("points",))
    assert kept["0.points"] is given
    assert kept["0.weights@float32"].dtype == np.float16
    assert kept["points@int64"].dtype == np.uint16


def test_rounding_in_place_is_what_is_stored():
    sizes = 10.0 ** RNG.uniform(-12, 4.0, LONG)
    given = {
        "some": (RNG.standard_normal(LONG) * sizes).astype(np.float32),
        "across": np.asfortranarray(RNG.standard_normal((LONG, 2)).astype(np.float32)),
        "zeros": np.zeros(LONG, np.float32),
        "large": np.full(LONG, 1.2345678e6, np.float32),
        "short": RNG.standard_normal(10).astype(np.float32),
        "exact": RNG.standard_normal(LONG).astype(np.float32),
        "counts": np.arange(LONG),
    }
    given["rounded"] = given["some"].astype(np.float16).astype(np.float32)
    given["rounded"][7] = 1.25e-6  # few digits, and yet not among the numbers of 16 bits
    wanted = as_float32(to_float16({name: each.copy() for name, each in given.items()}, ["exact"]))
    round_in_place(given, ["exact"])
    for name, array in given.items():
        np.testing.assert_array_equal(array, wanted[name])
    fixed = RNG.standard_normal(LONG).astype(np.float32)
    fixed.flags.writeable = False
    round_in_place({"fixed": fixed})  # a memory map
