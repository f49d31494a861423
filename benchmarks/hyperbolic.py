"""Points of `hyperbolic` in fewer bits: precision, milliseconds and megabytes per learner.

    python benchmarks/hyperbolic.py FOLDER... [--rows N]

It writes benchmarks/results/hyperbolic-bits.json and a table beside it; rows of other sets are
kept. Comparisons with the paper are experiments: `labelspace reproduce --list`.
"""

from __future__ import annotations

import argparse
import copy
import time
from pathlib import Path
from typing import Any

import numpy as np

from kept import keep
from labelspace.data import read_split
from labelspace.features.pipeline import pipeline_for
from labelspace.methods.hyperbolic.method import Hyperbolic
from labelspace.metrics.ranking import evaluate
from labelspace.search.geometry.points import ExactNeighbours

COLUMNS = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@1", "PSP@5")
MAX_TESTED = 5000


def load(folder: Path, rows: int | None) -> tuple[Any, Any, Any, Any]:
    """Return features and labels of random training examples, and of test examples."""
    train, test = read_split(folder)
    pipeline = pipeline_for(train, "tfidf")
    X, X_test = pipeline.fit_transform(train), pipeline.transform(test)
    rng = np.random.default_rng(0)
    chosen = rng.permutation(X.shape[0])[:rows]
    tested = rng.permutation(X_test.shape[0])[:MAX_TESTED]
    return X[chosen], train.labels[chosen], X_test[tested], test.labels[tested]


def figures(model: Hyperbolic, X: Any, Y: Any, Y_train: Any) -> dict[str, float]:
    found = evaluate(model.predict(X, 5), Y, Y_train, bands=False)
    return {key: found[key] for key in COLUMNS}


def first(model: Hyperbolic, count: int) -> Hyperbolic:
    """Return the model with its first learners alone."""
    fewer = copy.copy(model)
    for name in ("spaces_", "points_", "indexes_", "label_indexes_"):
        setattr(fewer, name, getattr(model, name)[:count])
    return fewer


def bits(folder: Path, rows: int | None) -> None:
    """Measure precision with shorter points, and megabytes and milliseconds per learner."""
    X, Y, X_test, Y_test = load(folder, rows)
    model = Hyperbolic(dim=50, ensemble=3).fit(X, Y)
    learner = sum(a.nbytes for a in first(model, 1).state().values()) / 1e6

    def rounded(points: np.ndarray, kind: str) -> np.ndarray:
        if kind == "float32":
            return points
        if kind == "float16":
            return points.astype(np.float16).astype(np.float32)
        step = np.abs(points).max(axis=0) / 127
        return (np.rint(points / step) * step).astype(np.float32)

    found = []
    for kind in ("float32", "float16", "8 bits"):
        shorter = copy.copy(model)
        shorter.points_ = [rounded(points, kind) for points in model.points_]
        shorter.indexes_ = [ExactNeighbours(points, "hyperbolic") for points in shorter.points_]
        start = time.perf_counter()
        row = figures(shorter, X_test, Y_test, Y)
        each = 1e3 * (time.perf_counter() - start) / X_test.shape[0]
        found.append(
            {
                "set": folder.name,
                "points": kind,
                **row,
                "ms, exact": each,
                "MB per learner": learner,
            }
        )
    keep("hyperbolic-bits", found, ("set",))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--rows", type=int, help="training rows; all by default")
    options = parser.parse_args()
    for folder in options.folders:
        bits(folder, options.rows)


if __name__ == "__main__":
    main()
