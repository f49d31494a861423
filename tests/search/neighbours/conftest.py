"""Vectors and queries that the tests of several indexes share."""

from __future__ import annotations

import numpy as np
import pytest


def blobs(n, seed, dim=24, centres=30):
    """Draw unit vectors around random centres."""
    rng = np.random.default_rng(seed)
    middle = rng.standard_normal((centres, dim))
    rows = middle[rng.integers(centres, size=n)] + 0.5 * rng.standard_normal((n, dim))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def vectors():
    """Return the vectors of examples."""
    return blobs(3000, seed=0)


@pytest.fixture(scope="module")
def queries():
    """Return queries around other centres, which is a hard case."""
    return blobs(400, seed=1)
