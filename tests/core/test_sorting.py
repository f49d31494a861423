"""Sorting in loops against numpy's."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from labelspace._core import sorting

SIZES = [0, 1, 2, 7, 8, 9, 16, 17, 100, 1000]


@numba.njit
def sort_first(values, count):
    sorting.sort_first(values, count)


@numba.njit
def stable_order(keys):
    return sorting.stable_order(keys)


@pytest.mark.parametrize("count", SIZES)
def test_the_first_numbers_are_sorted_and_the_others_stay(count):
    values = np.random.default_rng(count).integers(-99, 99, 1010)
    expected = np.concatenate([np.sort(values[:count]), values[count:]])
    sort_first(values, count)
    assert np.array_equal(values, expected)


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.float32])
@pytest.mark.parametrize("n", SIZES)
def test_equal_keys_stay_in_order(n, kind):
    keys = np.random.default_rng(n).integers(-20, 20, n).astype(kind)  # ties abound
    assert np.array_equal(stable_order(keys), np.argsort(keys, kind="stable"))
