"""How long answers take as the training data grow: `fusion` beside other packages.

    python benchmarks/answers.py [--titles N ...] [--methods NAME,...] [--peers NAME,...]

The data are generated titles (`titles.py`), from 10,000 to a million of them, and 5,000 to predict.
All systems of a size are trained and timed in turn, each in its own process, on the same features,
as `labelspace compare` does. Peers that are not installed are left out; one that fails has no row.
Rows are kept after each size in results/answers.json and .md.
"""

from __future__ import annotations

import argparse

from kept import Row, keep
from labelspace.comparison.compare import COSTS, Entrant, compare, entrants
from labelspace.comparison.peers import installed
from labelspace.data.dataset import Dataset
from titles import generated

SIZES = (10_000, 30_000, 100_000, 300_000, 581_000, 1_000_000)
METRICS = ("P@1", "P@3", "P@5", "PSP@5")


def measure(n_titles: int, field: list[Entrant]) -> None:
    """Compare the systems on so many titles and keep their rows."""
    titles = generated(n_titles)
    train = Dataset(labels=titles.Y, features=titles.X)
    test = Dataset(labels=titles.Y_test, features=titles.X_test)
    report = compare(train, test, field, on_result=_report_failure)
    keep(
        "answers",
        [
            row_of(n_titles, titles.Y.shape[1], one)
            for one in report["entrants"]
            if "error" not in one
        ],
        ("titles", "system"),
    )


def row_of(n_titles: int, n_labels: int, system: Row) -> Row:
    """Return the row of a system: accuracy in percent, times, size and memory."""
    accuracy = {key: round(system[key], 2) for key in METRICS}
    costs = {key: float(f"{system[key]:.3g}") for key in COSTS}
    shown = {"titles": n_titles, "labels": n_labels, "system": system["name"]}
    return {**shown, **accuracy, **{key: f"{cost:g}" for key, cost in costs.items()}}


def _report_failure(result: Row) -> None:
    if "error" in result:
        print(f"{result['name']}: {result['error']}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--titles", type=int, nargs="+", default=SIZES)
    parser.add_argument("--methods", default="fusion")
    parser.add_argument("--peers", default="omikuji,napkinxc,pecos")
    options = parser.parse_args()
    methods, peers = (
        [name for name in given.split(",") if name] for given in (options.methods, options.peers)
    )
    field = entrants(methods, installed(peers), {})
    for n_titles in options.titles:
        measure(n_titles, field)


if __name__ == "__main__":
    main()
