"""Examples held out to make path probabilities the frequencies they stand for."""

from __future__ import annotations

import numpy as np

HELD_OUT, LARGEST_SHARE = 500, 0.1  # two numbers need no more; of few examples this share
MOST_HELD_OUT = 2000
LOOKED_AT = 20  # labels of each example that was held out
SURE = 1e-6  # rounding may say 1, of which there are no log odds


def cut(n: int, share: float | None, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on and rows held out, both sorted."""
    if share is None:
        share = min(LARGEST_SHARE, HELD_OUT / n)
    size = min(round(share * n), MOST_HELD_OUT, n - 1)
    order = np.random.default_rng([seed, n]).permutation(n)
    return np.sort(order[size:]), np.sort(order[:size])
