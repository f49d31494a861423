"""The cut of the training data that methods validate on: how large it is, and which rows."""

from __future__ import annotations

import numpy as np

LEAST_VALIDATED, MOST_VALIDATED = 1000, 4000


def validation_share(wanted: float | None, n_examples: int) -> float:
    """2 % of the examples, up to 10 % where these are fewer than 1,000, and 4,000 at most."""
    if wanted is None:
        wanted = max(0.02, min(0.1, LEAST_VALIDATED / n_examples))
    return min(wanted, MOST_VALIDATED / n_examples)


def cut_validation(
    n_rows: int, fraction: float = 0.05, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """(training rows, validation rows): a seeded cut of the given share, both sorted."""
    order = np.random.default_rng([seed, n_rows]).permutation(n_rows)
    size = min(round(fraction * n_rows), n_rows - 1)
    return np.sort(order[size:]), np.sort(order[:size])
