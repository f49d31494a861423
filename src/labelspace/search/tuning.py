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
) -> tuple[np.ndarray, int]:
    """`count` queries, and how many of them, the first, are of those given.

    These are drawn by rng; `others(missing)` follow where they are too few. A handful of queries
    says nothing of a recall: they may all be found by chance.
    """
    if given is None:
        return others(count), 0
    chosen = given[np.sort(rng.permutation(len(given))[:count])]
    if len(chosen) == count:
        return chosen, count
    return np.concatenate([chosen, others(count - len(chosen))]), len(chosen)


def evenly(n: int, count: int) -> np.ndarray:
    """At most `count` of n row numbers, evenly spaced: rows are often sorted in some way."""
    return np.arange(n) if n <= count else np.linspace(0, n - 1, count).round().astype(np.int64)


def reaches(found: np.ndarray, recall: float, given: int) -> bool:
    """Whether the recall holds on other queries too; found: (queries,) the share found of each.

    Those that fill up may be easier than the first ones, which were given: it has to hold for both.
    One standard error on top, or half of all indexes would fall short there. Fewer queries than
    `QUERIES` count only if the recall would hold with one more that finds nothing.
    """
    if len(found) < QUERIES and found.sum() < recall * (len(found) + 1):
        return False
    parts = [found[:given], found] if 0 < given < len(found) else [found]
    return all(part.mean() >= min(1.0, recall + part.std() / np.sqrt(len(part))) for part in parts)


def measured(found: np.ndarray, given: int) -> float:
    """The recall of all queries, or of those given if it is smaller."""
    return float(min(found.mean(), found[:given].mean() if given else 1.0))
