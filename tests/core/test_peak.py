"""Peak memory of the process."""

from __future__ import annotations

import numpy as np

from labelspace._core.peak import peak_bytes


def test_the_peak_grows_with_what_is_used():
    before = peak_bytes()
    block = np.ones(before // 8 + 10**6)
    assert peak_bytes() >= max(before, block.nbytes)
