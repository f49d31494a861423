"""The hits of a ranking as one byte per example, from which P@k and nDCG@k can be computed.

Bit i of a byte says whether the label at rank i + 1 is true. With the number of true labels, the
same for all systems, this gives every metric that is a mean over examples and looks at the first
five labels alone. PSP and PSnDCG are not: they are ratios of sums over all examples.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from labelspace.metrics.ranking import RankedLabels, hits, ndcgs, precisions

RANKS = 5
METRICS = ("P@1", "P@3", "P@5", "nDCG@3", "nDCG@5")  # at 1, nDCG is P


def packed_hits(ranking: RankedLabels, Y_test: Any) -> np.ndarray:
    """Return the hits among the first five labels of each example, uint8 of shape (n,)."""
    return np.packbits(hits(ranking, Y_test)[:, :RANKS], axis=1, bitorder="little").ravel()


def example_values(packed: np.ndarray, n_true: np.ndarray) -> np.ndarray:
    """Return the metrics `METRICS` of each example, from 0 to 1: (n, metrics).

    Parameters
    ----------
    packed : ndarray of shape (n,)
        What `packed_hits` returned.
    n_true : ndarray of shape (n,)
        The number of true labels of each example.

    Returns
    -------
    ndarray of shape (n, metrics)

    Examples
    --------
    >>> import numpy as np
    >>> example_values(np.array([0b00101], np.uint8), np.array([2])).round(3).tolist()
    [[1.0, 0.667, 0.4, 0.92, 0.92]]
    """
    found = np.unpackbits(packed[:, None], axis=1, count=RANKS, bitorder="little")
    columns = []
    for metric in METRICS:
        name, _, k = metric.partition("@")
        columns.append(precisions(found, int(k)) if name == "P" else ndcgs(found, n_true, int(k)))
    return np.column_stack(columns)
