"""From a label's frequency to a colour: dark means frequent, on a log scale."""

from __future__ import annotations

import numpy as np

STOPS = ("#b4c8d4", "#5e9fbb", "#2f6f9f", "#2b3f7e", "#241a4d")  # evenly spaced, rare to frequent
UNKNOWN = "#5d7f99"  # where no frequencies are known
SELECTED = "#c2410c"
INK = "#1c2330"
QUIET = "#68707f"
RING = "#e3e7ec"


def levels(counts: np.ndarray) -> np.ndarray:
    """0 for labels with one example or none, 1 for the most frequent, in between by the log."""
    logs = np.log(np.maximum(counts, 1).astype(np.float64))
    return np.asarray(logs / max(float(logs.max(initial=0.0)), 1e-9))


def ticks(most: int) -> list[int]:
    """Frequencies to write beside the scale: powers of ten up to the largest, and that one."""
    powers = [10**power for power in range(len(str(most))) if 10**power < most / 3]
    return [*powers, most] if powers else [max(most, 1)]
