"""The figures of a comparison as texts, the same in every form of the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import floor, log10
from typing import Any

from labelspace.comparison.significance import ALL_PAIRS
from labelspace.metrics.packed_hits import METRICS as TESTED

# At 1, nDCG is P and PSnDCG is PSP.
_CUTS = {"P": (1, 3, 5), "nDCG": (3, 5), "PSP": (1, 3, 5), "PSnDCG": (3, 5)}
ACCURACY = {name: [f"{name}@{k}" for k in ks] for name, ks in _CUTS.items()}
COST_HEADS = {
    "train_s": "train s",
    "batch_ms": "batch ms",
    "one_ms_p50": "one ms p50",
    "one_ms_p99": "one ms p99",
    "model_mb": "model MB",
    "peak_mb": "peak MB",
}
# What is no figure.
_ABOUT = ("name", "kind", "method", "label_texts", "params", "std", "runs", "error")

Entrants = Sequence[Mapping[str, Any]]


def without_failures(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the systems that have figures."""
    return [each for each in report["entrants"] if "error" not in each]


def flat_figures(entrant: Mapping[str, Any]) -> dict[str, float | None]:
    """Return all figures of a system by names such as "bands.tail.P@1".

    Examples
    --------
    >>> flat_figures({"name": "knn", "P@1": 50.0, "bands": {"tail": {"P@1": 20.0}}})
    {'P@1': 50.0, 'bands.tail.P@1': 20.0}
    """
    return _flat({name: value for name, value in entrant.items() if name not in _ABOUT})


def _flat(figures: Mapping[str, Any]) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for name, value in figures.items():
        if isinstance(value, Mapping):
            found |= {f"{name}.{inner}": number for inner, number in _flat(value).items()}
        elif not isinstance(value, str):
            found[name] = value
    return found


def leader(entrants: Entrants, key: str, best: Callable[..., Any]) -> float | None:
    """Return the best value of a figure; `best` is max or min."""
    found: float | None = best(
        (each[key] for each in entrants if each.get(key) is not None), default=None
    )
    return found


def three_digits(value: float) -> str:
    """Return a number with three significant digits, without an exponent: 0.0123, 1.20, 12,346."""
    if value != 0 and abs(value) < 0.001:
        return "<0.001" if value > 0 else f"{value:.3f}"
    digits = 2 if value == 0 else 2 - floor(log10(abs(value)))
    return f"{value:,.{max(0, digits)}f}"


def percent(value: float | None) -> str:
    """Return a figure in percent with two decimals, nothing for None."""
    return "" if value is None else f"{value:.2f}"


def with_deviation(
    entrant: Mapping[str, Any], key: str, form: Callable[[Any], str] = percent
) -> str:
    """Return a figure of a system, with its standard deviation over several runs.

    Both have the same number of decimals.
    """
    shown, deviation = form(entrant.get(key)), entrant.get("std", {}).get(key)
    if deviation is None:
        return shown
    return f"{shown} ± {deviation:,.{len(shown.partition('.')[2])}f}"


def difference(test: Mapping[str, float]) -> str:
    """Return the difference of a pair with its interval and p-value: +1.20 [+0.8, +1.6] p 0.01."""
    p = "<0.001" if test["p_holm"] < 0.001 else f"{test['p_holm']:.3f}"
    return f"{test['difference']:+.2f} [{test['low']:+.2f}, {test['high']:+.2f}] p {p}"


def runs_sentence(report: Mapping[str, Any]) -> str:
    """Return a sentence on the runs that the figures come from."""
    seeds = report["settings"]["seeds"]
    if len(seeds) == 1:
        return f"One run per system, seed {seeds[0]}."
    return (
        f"Mean ± sample standard deviation (n - 1) over {len(seeds)} runs per system, "
        f"seeds {', '.join(map(str, seeds))}."
    )


def label_texts_sentence(report: Mapping[str, Any]) -> str:
    """Return a sentence on who read the label texts; "" if the data have none."""
    found = report["data"].get("label_texts")
    if found is None:
        return ""
    read = [each["name"] for each in report["entrants"] if each.get("label_texts")]
    others = "; the others did not" if 0 < len(read) < len(report["entrants"]) else ""
    return (
        f"Label texts ({found['names']:,} names) were read by {', '.join(read) or 'none'}{others}."
    )


def significance_sentence(report: Mapping[str, Any]) -> str:
    """Return sentences on how differences were tested."""
    tests, n_seeds = report["significance"], len(report["settings"]["seeds"])
    n_pairs = len(tests["pairs"])
    averaged = "" if n_seeds == 1 else f"; values of an example are means over {n_seeds} runs"
    corrected = "" if n_pairs == 1 else f", corrected for {n_pairs} pairs by Holm's method"
    others = (
        f" Systems after the first {ALL_PAIRS} are compared with the first one only."
        if len(without_failures(report)) > ALL_PAIRS
        else ""
    )
    return (
        f"Differences in percent, first less second, with their {100 * tests['confidence']:g} % "
        f"bootstrap interval ({tests['resamples']:,} resamples). p: two-sided paired randomisation "
        f"test over {tests['examples']:,} test examples ({tests['flips']:,} flips{averaged})"
        f"{corrected}. Tested are {', '.join(TESTED)}, which are means over examples.{others}"
    )
