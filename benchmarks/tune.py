"""Tuning: a method with tuned parameters against its defaults, on validation cuts and on test.

    python benchmarks/tune.py FOLDER... [--method glas] [--trials 50] [--metric nDCG@5]
        [--timeout SECONDS] [--jobs 1] [--studies FOLDER]

Each folder has train and test files. `labelspace.tune` reads the training file alone; then both
models, trained on all of it with the same seed, are evaluated once on the test file. `validation`
rows have the means over the cuts, which the best trial was chosen by: their difference is too
favourable, and that on test is the one to expect. With --studies, unfinished studies are kept in
that folder and continued. Writes benchmarks/results/tune.json and .md.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import labelspace as ls
from kept import keep
from labelspace.tuning import Tuned
from labelspace.tuning.results import settings_of

FIGURES = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@5")


def file_of(folder: Path, part: str) -> Path:
    found = sorted(folder.glob(f"{part}.*"))
    if not found:
        raise SystemExit(f"{folder} has no {part} file")
    return found[0]


def rows_of(name: str, tuned: Tuned, defaults: dict[str, Any], best: dict[str, Any]) -> list[dict]:
    """Return four rows: defaults and best, on the validation cuts and on test."""
    drawn = settings_of(tuned.best.parameters)
    common = {"set": name, "method": tuned.method, "metric": tuned.metric}
    rows = []
    for data, one, other in (
        ("validation", tuned.defaults.figures, tuned.best.figures),
        ("test", defaults, best),
    ):
        for parameters, figures in (("defaults", one), ("tuned", other)):
            shown = {key: round(figures[key], 2) for key in FIGURES}
            rows.append({**common, "data": data, "parameters": parameters, **shown})
    for row in rows[1::2]:
        row["trials"] = len(tuned.trials)
        row["found"] = ", ".join(f"{key}={value}" for key, value in drawn.items())
    return rows


def measure(folder: Path, options: argparse.Namespace, studies: Path) -> None:
    train, test = file_of(folder, "train"), file_of(folder, "test")
    tuned = ls.tune(
        train,
        method=options.method,
        trials=options.trials,
        timeout=options.timeout,
        metric=options.metric,
        jobs=options.jobs,
        out=studies / f"{folder.name}-{options.method}",
        on_trial=lambda trial, _: print(trial.number, trial.state, trial.score, flush=True),
    )
    usual = ls.train(train, method=options.method, seed=0, progress=False)
    rows = rows_of(folder.name, tuned, usual.evaluate(test), tuned.tagger.evaluate(test))
    keep("tune", rows, ("set", "method", "metric", "data", "parameters"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--method", default="glas")
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--metric", default="nDCG@5")
    parser.add_argument("--timeout", type=float)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--studies", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        for folder in options.folders:
            measure(folder, options, options.studies or Path(temporary))


if __name__ == "__main__":
    main()
