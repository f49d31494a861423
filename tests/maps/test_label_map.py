"""Frequency becomes colour by its logarithm."""

from __future__ import annotations

import numpy as np
import pytest

from labelspace.maps.label_map import frequency_levels, frequency_ticks


def test_levels_go_by_the_logarithm():
    np.testing.assert_allclose(frequency_levels(np.array([0, 1, 10, 100])), [0, 0, 0.5, 1])
    np.testing.assert_array_equal(frequency_levels(np.zeros(3)), 0)
    assert frequency_levels(np.empty(0)).shape == (0,)


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (0, [1]),
        (1, [1]),
        (2, [2]),
        (7, [1, 7]),
        (120, [1, 10, 120]),
        (15351, [1, 10, 100, 1000, 15351]),
    ],
)
def test_ticks_are_powers_of_ten_and_the_largest(most, expected):
    assert frequency_ticks(most) == expected
