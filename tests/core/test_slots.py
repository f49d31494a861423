"""Hash tables of compiled loops against a dictionary."""

from __future__ import annotations

import numpy as np
import pytest

from labelspace._core.compiled import loop
from labelspace._core.slots import new_table, slot_of


@loop
def _numbered(keys, numbers):  # type: ignore[no-untyped-def]
    table, known = new_table(len(keys)), np.empty(len(keys), np.int64)
    count = 0
    for place in range(len(keys)):
        slot = slot_of(table, known, keys[place])
        if table[slot] < 0:
            table[slot], known[count] = count, keys[place]
            count += 1
        numbers[place] = table[slot]


@pytest.mark.parametrize("step", [1, 3, 128, 2**20])  # steps that share their lowest bits collide
def test_each_key_has_the_number_of_its_first_appearance(step):
    rng = np.random.default_rng(step)
    keys = step * rng.integers(0, 500, 1000)
    numbers = np.empty(1000, np.int64)
    _numbered(keys, numbers)
    index: dict[int, int] = {}
    assert numbers.tolist() == [index.setdefault(key, len(index)) for key in keys.tolist()]


def test_a_table_of_nothing():
    _numbered(np.empty(0, np.int64), np.empty(0, np.int64))
