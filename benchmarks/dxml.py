"""DXML: `partial_fit` on real data, and search at Amazon-670K's size.

    python benchmarks/dxml.py more FOLDER        half by fit, the rest by partial_fit
    python benchmarks/dxml.py search [--examples N] [--dim N]

Each part writes benchmarks/results/dxml-PART.json and a table beside it. FOLDER contains train and
test files. `labelspace reproduce` measures precision, with the paper's form beside the default.
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
from labelspace.methods.dxml.method import DXML
from labelspace.metrics.ranking import evaluate
from labelspace.search.exact import ExactIndex
from labelspace.search.neighbours.build import build_neighbours

COLUMNS = ("P@1", "P@3", "P@5", "nDCG@3", "nDCG@5", "PSP@1", "PSP@5")


def features(train: Dataset, test: Dataset) -> tuple[Any, Any]:
    pipeline = pipeline_for(train, "tfidf")
    return pipeline.fit_transform(train), pipeline.transform(test)


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
    parts.add_parser("more").add_argument("folder", type=Path)
    last = parts.add_parser("search")
    last.add_argument("--examples", type=int, default=490_449)
    last.add_argument("--dim", type=int, default=300)
    options = parser.parse_args()
    if options.part == "more":
        more(options.folder)
    else:
        search(options.examples, options.dim)


if __name__ == "__main__":
    main()
