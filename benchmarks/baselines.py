"""The baselines beside the peers on real data sets: `python benchmarks/baselines.py FOLDER...`.

Each FOLDER holds train and test files; results go to benchmarks/results/baselines-NAME.json and one
table, benchmarks/results/baselines.md.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from labelspace.data import read_split
from labelspace.evaluation.compare import compare, entrants

RESULTS = Path(__file__).resolve().parent / "results"
COLUMNS = ("P@1", "P@3", "P@5", "nDCG@3", "nDCG@5", "PSP@1", "PSP@3", "PSP@5")
COSTS = ("train_s", "batch_ms", "one_ms_p50", "one_ms_p99", "model_mb", "peak_mb")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--methods", default="random,most-common,knn")
    parser.add_argument("--peers", default="omikuji,omikuji-bonsai,napkinxc")
    options = parser.parse_args()
    field = entrants(options.methods.split(","), options.peers.split(","), {})
    RESULTS.mkdir(exist_ok=True)
    lines = []
    for folder in options.folders:
        train, test = read_split(folder)
        report = compare(train, test, field)
        path = RESULTS / f"baselines-{folder.name}.json"
        path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        lines += [row(folder.name, entrant) for entrant in report["entrants"]]
    head = ("set", "entrant", *COLUMNS, *COSTS)
    rule = "|".join("---" for _ in head)
    table = ["| " + " | ".join(head) + " |", f"|{rule}|", *lines]
    (RESULTS / "baselines.md").write_text("\n".join(table) + "\n", encoding="utf-8")
    print("\n".join(table))


def row(name: str, entrant: dict[str, Any]) -> str:
    accuracy = [f"{entrant[key]:.2f}" for key in COLUMNS]
    costs = [f"{entrant[key]:.3g}" for key in COSTS]
    return "| " + " | ".join((name, entrant["name"], *accuracy, *costs)) + " |"


if __name__ == "__main__":
    main()
