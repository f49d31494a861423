"""DXML on real data beside `knn`, its ablations, `partial_fit`, and search at Amazon-670K's size.

    python benchmarks/dxml.py accuracy FOLDER... [--splits N] [--settings NAME,...]
    python benchmarks/dxml.py more FOLDER        half by fit, the rest by partial_fit
    python benchmarks/dxml.py search [--examples N] [--dim N]

Each part writes benchmarks/results/dxml-PART.json and a table beside it. FOLDER contains train and
test files; --splits averages over the first N columns of a split file (mean and deviation).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from kept import keep
from labelspace.data import read_split
from labelspace.data.dataset import Dataset
from labelspace.features.pipeline import pipeline_for
from labelspace.methods.base import Method
from labelspace.methods.dxml.method import DXML
from labelspace.methods.knn import KNN
from labelspace.metrics.ranking import evaluate
from labelspace.search.exact import ExactIndex
from labelspace.search.neighbours.build import build_neighbours

COLUMNS = ("P@1", "P@3", "P@5", "nDCG@3", "nDCG@5", "PSP@1", "PSP@5")
PAPER = {
    "loss": "smooth-l1",
    "optimiser": "sgd",
    "lr": 0.015,
    "keep": 1.0,
    "epochs": 100,
    "hidden": (512,),
    "ensemble": 1,
    "raw_neighbours": False,
    "batch_size": 512,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "one-hidden": {"ensemble": 1, "hidden": (512,)},
    "one-linear": {"ensemble": 1, "hidden": ()},
    "five-learners": {"ensemble": 5},
    "linear": {"hidden": ()},
    "paper": PAPER,
    "paper-adam": {**PAPER, "optimiser": "adam", "lr": 0.005, "epochs": "auto"},
    "paper-linear": {**PAPER, "hidden": ()},
    "paper-taxonomy": {
        **PAPER,
        "optimiser": "adam",
        "lr": 0.005,
        "epochs": "auto",
        "graph": "taxonomy",
    },
}


def features(train: Dataset, test: Dataset) -> tuple[Any, Any]:
    pipeline = pipeline_for(train, "tfidf")
    return pipeline.fit_transform(train), pipeline.transform(test)


def measured(model: Method, train: Dataset, test: Dataset) -> dict[str, float]:
    X, X_test = features(train, test)
    start = time.perf_counter()
    model.fit(X, train.labels, taxonomy=train.taxonomy)
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    ranking = model.predict(X_test, 5)
    each = 1e3 * (time.perf_counter() - start) / len(ranking)
    found = evaluate(ranking, test.labels, train.labels, bands=False)
    return {**{key: found[key] for key in COLUMNS}, "train_s": seconds, "ms": each}


def accuracy(folders: list[Path], n_splits: int, names: list[str]) -> None:
    for folder in folders:
        splits = [read_split(folder, split=s) for s in range(n_splits)] or [read_split(folder)]
        models = {"knn": (KNN, {})} | {name: (DXML, SETTINGS[name]) for name in names}
        for name, (method, params) in models.items():
            if params.get("graph") == "taxonomy" and splits[0][0].taxonomy is None:
                continue
            runs = [measured(method(**params), *split) for split in splits]
            row: dict[str, Any] = {"set": folder.name, "entrant": name, "splits": len(runs)}
            for key in runs[0]:
                values = [run[key] for run in runs]
                row[key], row[f"{key} spread"] = float(np.mean(values)), float(np.std(values))
            keep("dxml-accuracy", [row], ("set", "entrant", "splits"))


def more(folder: Path) -> None:
    """Measure training on all examples, on the first half, and then on the rest by partial_fit."""
    train, test = read_split(folder)
    X, X_test = features(train, test)
    Y, half = train.labels, X.shape[0] // 2

    def record(name: str, model: DXML, seconds: float) -> None:
        found = evaluate(model.predict(X_test, 5), test.labels, Y, bands=False)
        row = {"set": folder.name, "entrant": name, **{key: found[key] for key in COLUMNS}}
        keep("dxml-more", [{**row, "train_s": seconds}], ("set", "entrant"))

    def timed(step: Any) -> tuple[DXML, float]:
        start = time.perf_counter()
        return step(), time.perf_counter() - start

    record("all at once", *timed(lambda: DXML().fit(X, Y)))
    first, seconds = timed(lambda: DXML().fit(X[:half], Y[:half]))
    record("first half", first, seconds)
    record("and the rest", *timed(lambda: first.partial_fit(X[half:], Y[half:])))


def search(n_examples: int, dim: int) -> None:
    """Measure milliseconds per query for 20 neighbours, on random points around centres."""
    rng = np.random.default_rng(0)

    def unit(rows: np.ndarray) -> np.ndarray:
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    centres = unit(rng.standard_normal((n_examples // 50 + 1, dim), dtype=np.float32))

    def drawn(count: int) -> np.ndarray:
        noise = unit(rng.standard_normal((count, dim), dtype=np.float32))
        return unit(centres[rng.integers(len(centres), size=count)] + noise)

    vectors, tuning, queries = drawn(n_examples), drawn(500), drawn(200)
    true = ExactIndex(vectors).search(queries, 20)[1][:, -1:]
    for kind in ("exact", "clusters", "quantised"):
        start = time.perf_counter()
        index = build_neighbours(vectors, 20, kind=kind, recall=0.99, queries=tuning)
        build = time.perf_counter() - start
        index.search(queries[:1], 20)
        spent, found = [], []
        for row in range(len(queries)):
            start = time.perf_counter()
            found.append(index.search(queries[row : row + 1], 20)[1][0])
            spent.append(1e3 * (time.perf_counter() - start))
        recall = float((np.stack(found) >= true).mean())
        settings = ", ".join(f"{name} {value}" for name, value in index.settings.items())
        row = {"set": f"{n_examples:,} x {dim}", "entrant": kind, "settings": settings}
        row |= {"ms": float(np.median(spent)), "recall@20": recall, "build_s": build}
        keep("dxml-search", [row], ("set", "entrant"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = parser.add_subparsers(dest="part", required=True)
    one = parts.add_parser("accuracy")
    one.add_argument("folders", type=Path, nargs="+")
    one.add_argument("--splits", type=int, default=0)
    one.add_argument("--settings", default=",".join(SETTINGS), help="names, separated by ','")
    parts.add_parser("more").add_argument("folder", type=Path)
    last = parts.add_parser("search")
    last.add_argument("--examples", type=int, default=490_449)
    last.add_argument("--dim", type=int, default=300)
    options = parser.parse_args()
    if options.part == "accuracy":
        accuracy(options.folders, options.splits, options.settings.split(","))
    elif options.part == "more":
        more(options.folder)
    else:
        search(options.examples, options.dim)


if __name__ == "__main__":
    main()
