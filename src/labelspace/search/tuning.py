"""How approximate search is tuned to a recall: on how many queries, and when these are believed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

QUERIES = 512  # that recall is measured on
TYPICAL = 2 * QUERIES  # rows worth giving: half of them are measured on, half tuned with


def tuning_queries(
    given: np.ndarray | None,
    count: int,
    rng: np.random.Generator,
    others: Callable[[int], np.ndarray],
) -> np.ndarray:
    """`count` rows of those given, drawn by rng, and `others(missing)` where they are too few.

    A handful of queries says nothing of a recall: they may all be found by chance.
    """
    if given is None:
        return others(count)
    chosen = given[np.sort(rng.permutation(len(given))[:count])]
    if len(chosen) == count:
        return chosen
    return np.concatenate([chosen, others(count - len(chosen))])


def evenly(n: int, count: int) -> np.ndarray:
    """At most `count` of n row numbers, evenly spaced: rows are often sorted in some way."""
    return np.arange(n) if n <= count else np.linspace(0, n - 1, count).round().astype(np.int64)


def reaches(found: np.ndarray, recall: float) -> bool:
    """Whether the recall holds on other queries too; found: (queries,) the share found of each.

    One standard error on top, or half of all indexes would fall short there. Fewer queries than
    `QUERIES` count only if the recall would hold with one more that finds nothing.
    """
    n = len(found)
    if n == 0:
        return False
    mean, error = float(found.mean()), float(found.std()) / np.sqrt(n)
    if n < QUERIES and mean - 1.0 / (n + 1) < recall:
        return False
    return bool(mean >= min(1.0, recall + error))
