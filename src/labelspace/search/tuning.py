"""Tuning of approximate search to a recall: on which queries it is measured, and when it holds.

Every index of the package is tuned here: its settings are tried from the cheapest on,
and the first one that reaches the recall is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from labelspace.errors import InputError
from labelspace.search.index import checked_rows

QUERIES = 512  # that recall is measured on; fewer given ones are filled up to as many
TYPICAL = 2 * QUERIES  # rows worth giving: half of them measure recall, half fit the index
RERANK_SIZES = tuple(64 * 2**step for step in range(8))  # candidates scored exactly: 64 to 8192

_Setting = TypeVar("_Setting")


class Searchable(Protocol):
    """An index that can be tuned; `by_distance` indexes return distances, others scores."""

    by_distance: ClassVar[bool]
    recall: float

    def search(self, queries: Any, k: int) -> tuple[np.ndarray, np.ndarray]: ...


class Sample(NamedTuple):
    """Queries that recall is measured on; the first `n_given` are the caller's own."""

    queries: np.ndarray
    n_given: int


class Tuner:
    """Chooses the cheapest setting of an index that reaches a recall on sample queries.

    Parameters
    ----------
    shares_found : callable
        Return (queries,) the share of its true neighbours that an index finds for each query.
    n_given : int
        Number of queries, the first ones, for which the recall has to hold by themselves too.
    recall : float
        The recall to reach.
    with_error : bool
        Whether the recall is to hold on other queries too; see `reaches`.
    """

    def __init__(
        self,
        shares_found: Callable[[Any], np.ndarray],
        n_given: int,
        recall: float,
        *,
        with_error: bool = True,
    ) -> None:
        self.shares_found, self.n_given, self.recall = shares_found, n_given, recall
        self.with_error = with_error

    @classmethod
    def against(cls, exact: Searchable, sample: Sample, k: int, recall: float) -> Self:
        """Measure recall at k against exact search; k is at most the number of vectors."""
        kth_best = exact.search(sample.queries, k)[1][:, -1:]

        def shares(index: Searchable) -> np.ndarray:
            return _found(index, sample.queries, k, kth_best)

        return cls(shares, sample.n_given, recall)

    def choose(
        self, index: Any, settings: Iterable[_Setting], use: Callable[[_Setting], None]
    ) -> bool:
        """Call `use` with the first of the settings that reaches the recall.

        Parameters
        ----------
        index : object
            The index; its attribute `recall` is set to what was measured.
        settings : iterable
            Settings to try in turn, the cheapest first.
        use : callable
            Apply a setting to the index.

        Returns
        -------
        bool
            Whether the recall was reached; if not, the last setting stays.
        """
        for setting in settings:
            use(setting)
            if self.reached_by(index):
                return True
        return False

    def reached_by(self, index: Any) -> bool:
        """Measure the recall of the index, set it there, and return whether it is reached."""
        found = self.shares_found(index)
        index.recall = measured(found, self.n_given)
        return reaches(found, self.recall, self.n_given, with_error=self.with_error)


def sample_queries(
    given: np.ndarray | None,
    rng: np.random.Generator,
    others: Callable[[int], np.ndarray],
    count: int = QUERIES,
) -> Sample:
    """Draw `count` of the queries given; `others(missing)` follow where these are too few.

    A handful of queries is no measure of recall: all may be found by chance.
    """
    if given is None:
        return Sample(others(count), 0)
    chosen = given[np.sort(rng.permutation(len(given))[:count])]
    if len(chosen) == count:
        return Sample(chosen, count)
    return Sample(np.concatenate([chosen, others(count - len(chosen))]), len(chosen))


def checked_queries(queries: Any, dim: int) -> np.ndarray | None:
    """Return the given queries, or None without any; raise InputError if they do not fit."""
    if queries is None:
        return None
    rows = checked_rows(queries, "queries", dim)
    if len(rows) == 0:
        raise InputError("queries to measure recall on were given, but none are in them")
    return rows


def recall_of(
    index: Searchable, exact: Searchable, queries: np.ndarray, k: int
) -> tuple[float, float]:
    """Return the share of the true best k that the index finds, and its standard error."""
    found = _found(index, queries, k, exact.search(queries, k)[1][:, -1:])
    return float(found.mean()), float(found.std() / np.sqrt(max(1, len(found))))


def reaches(found: np.ndarray, recall: float, n_given: int, *, with_error: bool = True) -> bool:
    """Return whether a recall is reached, by the share found for each query.

    Queries that fill up may be easier than the first `n_given`: the recall has to hold for both.
    With `with_error` one standard error comes on top, or half of all indexes would fall short on
    other queries, and fewer than `QUERIES` count only if the recall would hold with one more query
    that finds nothing.
    """
    if with_error and len(found) < QUERIES and found.sum() < recall * (len(found) + 1):
        return False
    parts = [found[:n_given], found] if 0 < n_given < len(found) else [found]
    if not with_error:
        return all(part.sum() >= recall * len(part) for part in parts)
    return all(part.mean() >= min(1.0, recall + part.std() / np.sqrt(len(part))) for part in parts)


def measured(found: np.ndarray, n_given: int) -> float:
    """Return the recall of all queries, or of those given if it is smaller."""
    if len(found) == 0:
        return 1.0
    return float(min(found.mean(), found[:n_given].mean() if n_given else 1.0))


def probe_counts(n_lists: int) -> list[int]:
    """Return numbers of inverted lists to probe, a quarter more each time, up to all of them."""
    steps = sorted({round(2 ** (step / 3)) for step in range(40)})
    return [*(count for count in steps if count < n_lists), n_lists]


def from_least(least: int, settings: Sequence[int]) -> Sequence[int]:
    """Return those of the rising settings that are no smaller; the last if there are none."""
    return [setting for setting in settings if setting >= least] or settings[-1:]


def evenly(n: int, count: int) -> np.ndarray:
    """Return at most `count` of n row numbers, evenly spaced: rows are often sorted in some way."""
    return np.arange(n) if n <= count else np.linspace(0, n - 1, count).round().astype(np.int64)


def _found(index: Searchable, queries: np.ndarray, k: int, kth_best: np.ndarray) -> np.ndarray:
    """Return the share found for each query, by score: of equal scores any one will do."""
    values = index.search(queries, k)[1]
    hits = values <= kth_best if index.by_distance else values >= kth_best
    return np.asarray(hits.mean(axis=1))
