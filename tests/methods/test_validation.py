"""The validation cut: every row once, the share asked for, the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest

from labelspace.methods.validation import cut_validation, validation_share


@pytest.mark.parametrize(("n", "share", "size"), [(100, 0.1, 10), (7, 0.5, 4), (3, 1.0, 2)])
def test_a_cut_holds_every_row_once(n, share, size):
    rows, cut = cut_validation(n, share, seed=5)
    assert len(cut) == size
    assert np.array_equal(np.sort(np.concatenate([rows, cut])), np.arange(n))
    assert np.array_equal(cut, cut_validation(n, share, seed=5)[1])


def test_few_examples_give_a_larger_share_and_many_no_more_than_are_needed():
    assert validation_share(None, 500) == 0.1
    assert validation_share(None, 20_000) == 0.05
    assert validation_share(None, 100_000) == 0.02
    assert validation_share(None, 10**6) * 10**6 == pytest.approx(4000)
    assert validation_share(0.3, 1000) == 0.3
