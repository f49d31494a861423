"""Blocks of rows over threads."""

from __future__ import annotations

import numpy as np
import pytest

from labelspace.parallel import cores, over_rows


@pytest.mark.parametrize("n", [0, 1, 255, 256, 1000])
def test_every_row_is_visited_once(n):
    visits = np.zeros(n, int)

    def work(start, stop):
        visits[start:stop] += 1

    over_rows(n, work)
    assert (visits == 1).all()


def test_an_error_in_a_block_is_raised():
    with pytest.raises(ZeroDivisionError):
        over_rows(1000, lambda start, _: 1 // (start - 512))


def test_cores():
    assert cores() >= 1
