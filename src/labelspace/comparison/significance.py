"""Which differences between the systems of a comparison are more than chance.

A run leaves the hits of each test example, one byte each (`metrics/packed_hits.py`), as a text that
the file of finished runs can hold. The value of a system for an example is its mean over seeds, so
that pairs of systems are tested over examples. PSP and PSnDCG are ratios of sums over all examples,
not means, and are not tested.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from labelspace.metrics.packed_hits import METRICS, RANKS, example_values
from labelspace.metrics.significance import CONFIDENCE, FLIPS, RESAMPLES, holm, paired_tests

LEVEL = 0.05  # below, a difference is called significant
ALL_PAIRS = 10  # beyond so many systems, each is compared with the first one alone


def hits_as_text(packed: np.ndarray) -> str:
    """Return the hits of a run as base64."""
    return b64encode(packed.tobytes()).decode("ascii")


def hits_of_text(text: str, n_examples: int) -> np.ndarray:
    """Return the hits of a run; raise ValueError if they are not those of so many examples."""
    packed = np.frombuffer(b64decode(text, validate=True), np.uint8)
    if len(packed) != n_examples or packed.max(initial=0) >> RANKS:
        raise ValueError(f"expected hits of {n_examples} examples")
    return packed


def significance(
    runs: Mapping[int, Sequence[str]], names: Sequence[str], n_true: np.ndarray
) -> dict[str, Any]:
    """Return the tests of all pairs of systems, as the report has them.

    Parameters
    ----------
    runs : mapping of int to sequence of str
        The hits of each run, as text, by place of the system; without systems that failed.
    names : sequence of str
        Names of all systems, by place.
    n_true : ndarray
        The number of true labels of each test example.

    Returns
    -------
    dict
        How was tested, and "pairs": of each its "places" and "names", and by metric "difference"
        (first less second, in percent), "low" and "high" (its confidence interval), "p" and
        "p_holm" (corrected for the number of pairs).
    """
    pairs = pairs_to_test(sorted(runs))
    columns = {place: number for number, place in enumerate(sorted(runs))}
    values = np.hstack([_values(runs[place], n_true) for place in columns])
    # By metric, then by pair.
    tests = paired_tests(
        values,
        [
            (columns[one] * len(METRICS) + m, columns[other] * len(METRICS) + m)
            for m in range(len(METRICS))
            for one, other in pairs
        ],
    )
    found: list[dict[str, Any]] = [
        {"places": list(pair), "names": [names[place] for place in pair]} for pair in pairs
    ]
    for m, metric in enumerate(METRICS):
        of_metric = tests[m * len(pairs) : (m + 1) * len(pairs)]
        corrected = holm([test.p for test in of_metric])
        for entry, test, p_holm in zip(found, of_metric, corrected, strict=True):
            entry[metric] = {
                "difference": 100.0 * test.difference,
                "low": 100.0 * test.low,
                "high": 100.0 * test.high,
                "p": test.p,
                "p_holm": p_holm,
            }
    return {
        "examples": len(n_true),
        "flips": FLIPS,
        "resamples": RESAMPLES,
        "confidence": CONFIDENCE,
        "level": LEVEL,
        "pairs": found,
    }


def pairs_to_test(places: Sequence[int]) -> list[tuple[int, int]]:
    """Return all pairs among the first ten systems, and the first with each of the others."""
    return [
        (one, other)
        for one, other in combinations(places, 2)
        if one == places[0] or other in places[:ALL_PAIRS]
    ]


def p_of_pair(report: Mapping[str, Any], metric: str, one: int, other: int) -> float | None:
    """Return the corrected p-value of two systems by place; None if they were not tested."""
    for pair in report.get("significance", {}).get("pairs", ()):
        if set(pair["places"]) == {one, other} and metric in pair:
            p: float = pair[metric]["p_holm"]
            return p
    return None


def _values(runs: Sequence[str], n_true: np.ndarray) -> np.ndarray:
    """Return the metrics of each example, means over the runs: (n, metrics)."""
    total = np.zeros((len(n_true), len(METRICS)))
    for text in runs:
        total += example_values(hits_of_text(text, len(n_true)), n_true)
    return total / len(runs)
