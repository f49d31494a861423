"""All methods and peers on labels that form a tree: rankings, exact paths, figures per level.

    python benchmarks/hierarchies.py FOLDER... [--rows N] [--methods NAME,...] [--peers NAME,...]

Each FOLDER holds train and test files with a taxonomy; --rows is the size of a random sample of the
training examples. The entrants of a set run one after another. As soon as an entrant is done, its
rows are written to results/hierarchies.json (rankings, paths, costs) and
results/hierarchies-levels.json (a row per level), with tables beside them.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from kept import Row, keep
from labelspace.comparison.compare import compare, entrants, raise_if_failed
from labelspace.data import read_split

METHODS = "most-common,knn,glas,dxml,hyperbolic,neuralxc,hierarchicalxc,linear,fusion,treespace"
METRICS = tuple(f"{name}@{k}" for name in ("P", "nDCG", "PSP") for k in (1, 3, 5))
COSTS = ("train_s", "batch_ms", "one_ms_p50", "model_mb")
SETS = ("precision", "recall", "micro-F1", "macro-F1", "accuracy")


def measure(folder: Path, n_rows: int | None, methods: list[str], peers: list[str]) -> None:
    """Compare methods and peers on one set."""
    train, test = read_split(folder)
    if n_rows is not None:
        order = np.random.default_rng(0).permutation(len(train))
        train = train.take(np.sort(order[:n_rows]))

    def write(entrant: dict[str, Any]) -> None:
        raise_if_failed(entrant)
        own = {"set": folder.name, "rows": len(train), "entrant": entrant["name"]}
        found = entrant.get("by_level")
        paths = {} if found is None else path_row(found)
        figures = {key: entrant[key] for key in (*METRICS, *COSTS)}
        keep("hierarchies", [{**own, **figures, **paths}], tuple(own))
        if found is not None:
            rows = [{**own, **row} for row in level_rows(found)]
            keep("hierarchies-levels", rows, (*own, "level"))

    compare(train, test, entrants(methods, peers, {}), on_result=write)


def path_row(found: dict[str, Any]) -> Row:
    """Return the figures of whole paths."""
    return {"exact path": found["exact path"], "hierarchical F1": found["hierarchical"]["F1"]}


def level_rows(found: dict[str, Any]) -> list[Row]:
    """Return the figures of each level, for all labels, rare ones, others, and empty levels."""
    return [
        {
            "level": level,
            **{name: figures[name] for name in SETS},
            "tail macro-F1": figures["tail"]["macro-F1"],
            "head macro-F1": figures["head"]["macro-F1"],
            "without a label": figures["NA"]["examples"],
            "given none": figures["NA"]["kept empty"],
        }
        for level, figures in found["levels"].items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--rows", type=int, help="number of training examples; all by default")
    parser.add_argument("--methods", default=f"{METHODS},seq2seq")
    parser.add_argument("--peers", default="omikuji,napkinxc")
    given = parser.parse_args()
    methods, peers = (names.split(",") if names else [] for names in (given.methods, given.peers))
    for folder in given.folders:
        measure(folder, given.rows, methods, peers)


if __name__ == "__main__":
    main()
