"""Hyperbolic against Euclidean space, the shape of the learned space, and the cost of a learner.

    python benchmarks/hyperbolic.py tables FOLDER... [--rows N]   dimensions x learners x geometry
                                    [--dims N...] [--learners N...]
    python benchmarks/hyperbolic.py shape FOLDER [--dim N]        norms, depths, taxonomy edges
    python benchmarks/hyperbolic.py bits FOLDER [--rows N]        float16 and 8-bit points

Both geometries are tuned alike: for every set, dimension and geometry, alpha and then the number of
epochs are chosen from the same grid with one learner, on held-out training examples. Each part
writes benchmarks/results/hyperbolic-PART.json and a table beside it; rows of other sets or
dimensions are kept, and rows of tables that are there already are not measured again.
"""

from __future__ import annotations

import argparse
import copy
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from kept import keep, kept
from labelspace.components.holdout import split_rows
from labelspace.data import read_split
from labelspace.data.dataset import Dataset
from labelspace.features.pipeline import pipeline_for
from labelspace.methods.hyperbolic.method import Hyperbolic
from labelspace.metrics.ranking import evaluate
from labelspace.search.geometry.points import ExactNeighbours

COLUMNS = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@1", "PSP@5")
DIMS, LEARNERS, GEOMETRIES = (5, 10, 25, 50), (1, 3, 6, 9, 15), ("hyperbolic", "euclidean")
ALPHAS, EPOCHS = (5.0, 10.0, 20.0, 40.0), (5, 15)
MAX_TESTED = 5000


def load(folder: Path, rows: int | None) -> tuple[Any, Dataset, Any, Any]:
    """Return features and data: `rows` random training examples or all, and test examples."""
    train, test = read_split(folder)
    pipeline = pipeline_for(train, "tfidf")
    X, X_test = pipeline.fit_transform(train), pipeline.transform(test)
    rng = np.random.default_rng(0)
    chosen = rng.permutation(X.shape[0])[:rows]
    tested = rng.permutation(X_test.shape[0])[:MAX_TESTED]
    return X[chosen], train, X_test[tested], (train.labels[chosen], test.labels[tested])


def figures(model: Hyperbolic, X: Any, Y: Any, Y_train: Any) -> dict[str, float]:
    found = evaluate(model.predict(X, 5), Y, Y_train, bands=False)
    return {key: found[key] for key in COLUMNS}


def first(model: Hyperbolic, count: int) -> Hyperbolic:
    """Return the model with its first learners alone."""
    fewer = copy.copy(model)
    for name in ("spaces_", "points_", "indexes_", "label_indexes_"):
        setattr(fewer, name, getattr(model, name)[:count])
    return fewer


def chosen_settings(X: Any, Y: Any, dim: int, geometry: str) -> dict[str, Any]:
    rows, cut = split_rows(X.shape[0], 0.1, 1)

    def score(setting: dict[str, Any]) -> float:
        model = Hyperbolic(dim=dim, geometry=geometry, **setting).fit(X[rows], Y[rows])
        return figures(model, X[cut], Y[cut], Y[rows])["nDCG@5"]

    alpha = max(ALPHAS, key=lambda alpha: score({"alpha": alpha, "epochs": min(EPOCHS)}))
    settings = [{"alpha": alpha, "epochs": epochs} for epochs in EPOCHS]
    return max(settings, key=score)


def tables(folders: list[Path], rows: int | None, dims: list[int], learners: list[int]) -> None:
    for folder in folders:
        X, _, X_test, (Y, Y_test) = load(folder, rows)
        for dim, geometry in product(dims, GEOMETRIES):
            own = {"set": folder.name, "rows": X.shape[0], "dim": dim, "geometry": geometry}
            if any(row.items() >= own.items() for row in kept("hyperbolic-tables")):
                continue
            found = []
            setting = chosen_settings(X, Y, dim, geometry)
            start = time.perf_counter()
            model = Hyperbolic(dim=dim, geometry=geometry, ensemble=max(learners), **setting)
            model.fit(X, Y)
            each = (time.perf_counter() - start) / max(learners)
            for count in learners:
                row = {**own, "learners": count, **figures(first(model, count), X_test, Y_test, Y)}
                found.append({**row, **setting, "train_s each": each})
            keep("hyperbolic-tables", found, ("set", "rows", "dim", "geometry"))


def rebuilt(points: np.ndarray, taxonomy: Any, occurs: np.ndarray, geometry: str) -> float:
    """Return the mean average precision of a label's parents and children among its nearest labels.

    As in Nickel & Kiela, over at most 2,000 labels that occur and have a parent or child.
    """
    related: dict[int, set[int]] = {}
    for child, parent in taxonomy_edges(taxonomy):
        if occurs[child] and occurs[parent]:
            related.setdefault(int(child), set()).add(int(parent))
            related.setdefault(int(parent), set()).add(int(child))
    order = np.random.default_rng(0).permutation(sorted(related))[:2000]
    known = np.flatnonzero(occurs)
    index = ExactNeighbours(points[known], geometry)
    precisions = []
    near, _ = index.search(points[order], min(1000, len(known)))
    for label, ids in zip(order, near, strict=True):
        ranked = [known[i] for i in ids if known[i] != label]
        hits = np.array([other in related[label] for other in ranked])
        at = np.flatnonzero(hits)
        precisions.append(((np.arange(len(at)) + 1) / (at + 1)).sum() / len(related[label]))
    return float(np.mean(precisions))


def taxonomy_edges(taxonomy: Any) -> np.ndarray:
    """Return child and parent, (edges, 2), of the edges between labels."""
    return taxonomy.edges[(taxonomy.edges < taxonomy.n_labels).all(axis=1)]


def shape(folder: Path, dim: int, rows: int | None) -> None:
    X, train, _, (Y, _) = load(folder, rows)
    counts = np.asarray(Y.sum(axis=0)).ravel()
    for geometry in GEOMETRIES:
        model = Hyperbolic(dim=dim, geometry=geometry).fit(X, Y)
        points = model.label_vectors_
        norms = np.linalg.norm(points, axis=1)
        row: dict[str, Any] = {"set": folder.name, "rows": X.shape[0], "dim": dim}
        row["geometry"] = geometry
        for least in (1, 5, 20):
            often = counts >= least
            row[f"norm ~ frequency, {least}+ examples"] = spearman(norms[often], counts[often])
        if train.taxonomy is not None:
            depth = np.asarray(train.taxonomy.depths())[: len(norms)]
            row["norm ~ depth"] = spearman(norms[counts > 0], depth[counts > 0])
            row["taxonomy rebuilt, MAP"] = rebuilt(points, train.taxonomy, counts > 0, geometry)
        keep("hyperbolic-shape", [row], ("set", "rows", "dim", "geometry"))


def spearman(one: np.ndarray, other: np.ndarray) -> float:
    return float(spearmanr(one, other).statistic)


def bits(folder: Path, rows: int | None) -> None:
    """Measure precision with shorter points, and megabytes and milliseconds per learner."""
    X, _, X_test, (Y, Y_test) = load(folder, rows)
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
    parser.add_argument("part", choices=["tables", "shape", "bits"])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--rows", type=int, help="training rows; all by default")
    parser.add_argument("--dim", type=int, default=10, help="dimension of the part shape")
    parser.add_argument(
        "--dims", type=int, nargs="+", default=DIMS, help="dimensions of the tables"
    )
    parser.add_argument(
        "--learners", type=int, nargs="+", default=LEARNERS, help="ensembles of the tables"
    )
    options = parser.parse_args()
    if options.part == "tables":
        tables(options.folders, options.rows, options.dims, options.learners)
    for folder in options.folders:
        if options.part == "shape":
            shape(folder, options.dim, options.rows)
        elif options.part == "bits":
            bits(folder, options.rows)


if __name__ == "__main__":
    main()
