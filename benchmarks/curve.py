"""Accuracy against training time: `fusion` with time limits, and other packages.

    python benchmarks/curve.py FOLDER... [--repeat 3] [--peers NAME,...] [--limit SECONDS]

Each FOLDER holds train and test files. All peers, and `fusion` without a limit, are trained with
the seeds 0, 1, ...; then `fusion` with limits (`budget`) from the mean time of the fastest peer
upwards, each twice the one before (--factor), and with the mean time of each other peer as limit,
up to the time that it takes without a limit. All get the same features. Every run has a process of
its own; one of `fusion` that compiled loops is repeated, so that no time of compilation is counted.
A run of more than --limit seconds is stopped. Peers that are not installed are left out.

Finished runs, also those that failed, are kept in results/curve-runs.json. A command that is
repeated runs what is missing: other seeds, sets or systems, and everything on a machine with
another processor. --again NAMES discards the runs of these systems first. results/curve.json and
.md have the means of runs and, for each peer, the best P@1 of `fusion` within its time;
results/curve-SET.png shows P@1 against time.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from itertools import accumulate, repeat, takewhile
from operator import mul
from pathlib import Path
from typing import Any

import numpy as np

from kept import RESULTS, Row, keep, kept, table, write
from labelspace._core.files import private_folder
from labelspace._core.scratch import scratch_folder
from labelspace.comparison.compare import DataFiles, Entrant, machine
from labelspace.comparison.peers import PEERS, installed
from labelspace.comparison.runs import run
from labelspace.data import read_split
from labelspace.errors import LabelspaceError

RUNS = "curve-runs"
KEYS = ("set", "system", "budget_s", "seed", "processor")
METRICS = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5")
COSTS = ("train_s", "batch_ms", "one_ms_p50", "model_mb", "peak_mb")
SETTINGS = {"features": None, "propensity": [0.55, 1.5], "propensity_from": "train"}
COMPILED_AT_MOST = 3  # runs in a row that compile loops, before the last one is taken


class Bench:
    """The runs on one data set."""

    def __init__(self, folder: Path, scratch: Path, limit: float) -> None:
        self.name, self.scratch, self.limit = folder.name, scratch, limit
        self.files = DataFiles(scratch, *read_split(folder))
        self.processor = machine()["processor"]

    def measure(self, system: str, seed: int, budget: float | None = None) -> None:
        """Run a system and keep its figures, or its error, unless this was done before."""
        names = (self.name, system, budget, seed, self.processor)
        own = dict(zip(KEYS, names, strict=True))
        if any(all(row[key] == own[key] for key in KEYS) for row in kept(RUNS)):
            return
        params = {} if budget is None else {"budget": budget}
        entrant = Entrant(system, "peer" if system in PEERS else "method", params)
        try:
            figures = self._warm(self.files.job(entrant, seed, SETTINGS))
            own |= {name: figures[name] for name in (*METRICS, *COSTS)}
        except LabelspaceError as error:
            own["error"] = str(error)
        keep(RUNS, [own], KEYS)

    def _warm(self, job: dict[str, Any]) -> dict[str, Any]:
        """Run a job, and again as long as a method compiles loops."""
        for _ in range(COMPILED_AT_MOST):
            before = compiled_loops()
            figures = run(job, self.scratch, self.limit)
            if job["kind"] == "peer" or compiled_loops() == before:
                break
        return figures

    def seconds(self, system: str) -> float:
        """Return the mean training time of a system without a time limit; inf if it failed."""
        points = means([row for row in self.rows() if row["system"] == system])
        return next((point["train_s"] for point in points if point["budget_s"] is None), np.inf)

    def rows(self) -> list[Row]:
        """Return the finished runs on this set and this processor."""
        here = {"set": self.name, "processor": self.processor}
        return [row for row in kept(RUNS) if here.items() <= row.items()]


def compiled_loops() -> dict[str, int]:
    """Return the index files of numba's cache, and when they were written."""
    folder = Path(os.environ["NUMBA_CACHE_DIR"])
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*.nbi")}


def budgets(peers: Sequence[float], longest: float, factor: float) -> list[float]:
    """Return time limits below the longest: each peer's time, and the least times powers.

    There are none if the longest is infinite: a run failed.
    """
    finite = [seconds for seconds in peers if seconds < np.inf]
    if not finite or longest == np.inf:
        return []
    powers = takewhile(
        lambda seconds: seconds < longest, accumulate(repeat(factor), mul, initial=min(finite))
    )
    limits = {*powers, *(seconds for seconds in finite if seconds < longest)}
    return sorted({float(f"{seconds:.3g}") for seconds in limits})  # readable


def means(rows: Sequence[Row]) -> list[Row]:
    """Return a row per set, system, limit and processor: means over seeds, without failures."""
    keys = tuple(key for key in KEYS if key != "seed")
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if "error" not in row:
            groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return [
        {
            **dict(zip(keys, key, strict=True)),
            "runs": len(group),
            **{name: float(np.mean([row[name] for row in group])) for name in (*COSTS, *METRICS)},
            "P@1 std": float(np.std([row["P@1"] for row in group], ddof=1))
            if len(group) > 1
            else None,
        }
        for key, group in groups.items()
    ]


def with_lead(points: Sequence[Row]) -> list[Row]:
    """Add to each peer the best P@1 of `fusion` within its training time, and the difference."""
    found = []
    for point in points:
        within = [
            other["P@1"]
            for other in points
            if (other["set"], other["processor"]) == (point["set"], point["processor"])
            and other["system"] == "fusion"
            and other["train_s"] <= point["train_s"]
        ]
        if point["system"] == "fusion":
            found.append(dict(point))
        else:
            best = max(within, default=None)
            lead = None if best is None else best - point["P@1"]
            found.append({**point, "fusion within its time": best, "fusion ahead by": lead})
    return sorted(found, key=lambda point: (point["set"], point["train_s"]))


def report(rows: Sequence[Row]) -> None:
    """Write the means of all runs as JSON and Markdown."""
    points = with_lead(means(rows))
    text = table([filled(point) for point in points])
    failed = [filled({key: row[key] for key in (*KEYS, "error")}) for row in rows if "error" in row]
    if failed:
        text += "\n" + table(failed)
    write("curve", points, text)
    print(text, flush=True)


def filled(row: Row) -> Row:
    """Return a row whose missing values are shown as empty cells."""
    return {key: "" if value is None else value for key, value in row.items()}


def draw(points: Sequence[Row], name: str) -> bytes:
    """Return a PNG of P@1 against training time on one set."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

    from labelspace.plots.pictures import picture_file

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.add_subplot()
    ours = sorted((p for p in points if p["system"] == "fusion"), key=lambda p: p["train_s"])
    axes.errorbar(
        [p["train_s"] for p in ours],
        [p["P@1"] for p in ours],
        yerr=[p["P@1 std"] or 0.0 for p in ours],
        marker="o",
        label="labelspace: fusion, by time limit",
    )
    for p in points:
        if p["system"] != "fusion":
            (bar, *_) = axes.errorbar(
                p["train_s"], p["P@1"], yerr=p["P@1 std"] or 0.0, marker="s", linestyle="none"
            )
            axes.annotate(
                p["system"],
                (p["train_s"], p["P@1"]),
                textcoords="offset points",
                xytext=(5, -9),
                fontsize=8,
                color=bar.get_color(),
            )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))
    axes.xaxis.set_minor_formatter("{x:g}")
    axes.margins(x=0.15)  # space for the names
    axes.set_xlabel("training time in seconds")
    axes.set_ylabel("P@1 in percent, test file")
    axes.set_title(name)
    axes.grid(alpha=0.3, which="both")
    axes.legend(loc="lower right")
    return picture_file(figure, "png")


def measure(folder: Path, peers: Sequence[str], repeat: int, factor: float, limit: float) -> None:
    """Run all systems on one set, and write the means and the picture."""
    with scratch_folder("curve") as scratch:
        bench = Bench(folder, scratch, limit)
        for seed in range(repeat):
            for system in (*peers, "fusion"):
                bench.measure(system, seed)
        times = [bench.seconds(peer) for peer in peers]
        for seed in range(repeat):
            for seconds in budgets(times, bench.seconds("fusion"), factor):
                bench.measure("fusion", seed, seconds)
        points = means(bench.rows())
    report(kept(RUNS))
    (RESULTS / f"curve-{bench.name}.png").write_bytes(draw(points, bench.name))


def discard(systems: Sequence[str], sets: Sequence[str]) -> None:
    """Remove the runs of these systems on these sets."""
    rows = [r for r in kept(RUNS) if r["system"] not in systems or r["set"] not in sets]
    write(RUNS, rows, table(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--repeat", type=int, default=3, help="runs per system")
    parser.add_argument("--factor", type=float, default=2.0, help="between time limits of fusion")
    parser.add_argument("--limit", type=float, default=7200.0, help="most seconds per run")
    parser.add_argument("--again", default="", metavar="NAMES", help="systems to measure anew")
    options = parser.parse_args()
    if options.factor <= 1:
        parser.error(f"--factor {options.factor:g}: expected a number above 1")
    os.environ.setdefault("NUMBA_CACHE_DIR", str(private_folder("labelspace-curve-compiled")))
    peers = installed(options.peers.split(","))
    if not peers:
        parser.error("none of the peers is installed")
    if options.again:
        discard(options.again.split(","), [folder.name for folder in options.folders])
    for folder in options.folders:
        measure(folder, peers, options.repeat, options.factor, options.limit)


if __name__ == "__main__":
    main()
