"""SplitMix64 against the published generator."""

from __future__ import annotations

import numpy as np

from labelspace._core.random64 import GOLDEN, mix


def test_the_first_numbers_from_seed_0_are_those_of_the_reference_implementation():
    with np.errstate(over="ignore"):
        found = [int(mix(np.uint64(n) * GOLDEN)) for n in (1, 2, 3)]
    assert found == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_neighbouring_states_give_unrelated_numbers():
    found = np.array([mix(np.uint64(n)) for n in range(1, 1001)], np.uint64)
    bits = np.unpackbits(found.view(np.uint8)).mean()
    assert len(np.unique(found)) == 1000
    assert abs(bits - 0.5) < 0.01
