"""SplitMix64 (Steele, Lea and Flood 2014) for compiled loops: random numbers without a state.

The n-th number of the stream that starts at `key` is `mix(key + n * GOLDEN)`. A loop that derives
its key from a seed and the number of a row gives the same result for any number of threads.
"""

from __future__ import annotations

import numpy as np

from labelspace._core.compiled import loop

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio: the step of a stream


@loop(inline="always")
def mix(state):  # type: ignore[no-untyped-def]
    """Return 64 bits that look random and are unrelated for neighbouring states."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
