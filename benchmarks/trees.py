"""Label trees: accuracy by kind of tree, and cost by number of labels.

    python benchmarks/trees.py compare FOLDER... [--cut] [--rows N]
    python benchmarks/trees.py grow [--labels N,N,...] [--points N]

`compare` fits `hierarchicalxc` (one tree, logistic loss) on each kind of tree and evaluates it on
the test file, or with --cut on a held-out tenth of the training file. The tree of a taxonomy needs
hierarchy.tsv. `grow` generates synthetic data with more and more labels and reports training time,
nodes expanded and milliseconds per example. Both write benchmarks/results/trees-*.json and .md.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np

from kept import keep
from labelspace._core.sparse import as_csr
from labelspace.data import Dataset, read_split
from labelspace.datasets.sparse import SparseShape, make_sparse
from labelspace.features.pipeline import pipeline_for
from labelspace.labels.clustering import TREE_KINDS
from labelspace.methods.hierarchicalxc.method import HierarchicalXC
from labelspace.metrics.ranking import evaluate

METRICS = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5")


def measured(model: HierarchicalXC, train: tuple[Any, Any], test: tuple[Any, Any], **options: Any):
    """Fit and predict; return accuracy, the size of the tree, times and bytes."""
    start = time.perf_counter()
    model.fit(*train, **options)
    train_s = time.perf_counter() - start
    model.predict(test[0][:10], 5)  # so that loops are compiled
    start = time.perf_counter()
    ranking = model.predict(test[0], 5)
    ms = 1000 * (time.perf_counter() - start) / test[0].shape[0]
    _, _, opened = model.find(model.inputs_(test[0]), 0, 5)
    tree = model.trees_[0]
    found = evaluate(ranking, test[1], train[1], bands=False)
    return {
        **{name: found[name] for name in METRICS},
        "train_s": train_s,
        "ms": ms,
        "opened": float(opened.mean()),
        "depth": int(tree.depth.max()),
        "leaf_depth": float(tree.depth[tree.leaves].mean()),
        "mb": sum(array.nbytes for array in model.state().values()) / 1e6,
    }


def compare_trees(folder: Path, cut: bool, rows: int | None) -> None:
    train, test = read_split(folder)
    if cut:
        train, test = train.split(0.1)
    if rows is not None and rows < len(train):
        train = train.take(np.random.default_rng(0).permutation(len(train))[:rows])
    pipeline = pipeline_for(train, "tfidf")
    X, X_test = as_csr(pipeline.fit_transform(train)), as_csr(pipeline.transform(test))
    own = {"set": folder.name, "cut": cut, "rows": len(train)}
    for kind in TREE_KINDS:
        if kind == "taxonomy" and train.taxonomy is None:
            continue
        model = HierarchicalXC(tree=kind, ensemble=1, loss="logistic", validation=0.0)
        found = measured(model, (X, train.labels), (X_test, test.labels), taxonomy=train.taxonomy)
        keep("trees-compare", [{**own, "tree": kind, **found}], (*own, "tree"))


def grow_labels(sizes: list[int], points: int) -> None:
    for size in sizes:
        shape = SparseShape(points=max(points, size), features=max(10_000, size), labels=size)
        data: Dataset = make_sparse(shape)
        train, test = data.split(min(0.1, 2000 / len(data)))
        X, X_test = as_csr(train.features), as_csr(test.features)
        model = HierarchicalXC(tree="kmeans", ensemble=1, loss="squared_hinge", validation=0.0)
        found = measured(model, (X, train.labels), (X_test, test.labels))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        row = {"labels": size, "points": shape.points, **found, "peak_mb": peak}
        keep("trees-grow", [row], ("labels", "points"))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    of_trees = commands.add_parser("compare", help="kinds of trees on data sets")
    of_trees.add_argument("folders", nargs="+", type=Path)
    of_trees.add_argument("--cut", action="store_true", help="a tenth of the training file as test")
    of_trees.add_argument("--rows", type=int, help="most training examples to use")
    of_sizes = commands.add_parser("grow", help="cost by number of labels")
    of_sizes.add_argument("--labels", default="1000,10000,100000,1000000")
    of_sizes.add_argument(
        "--points",
        type=int,
        default=100_000,
        help="least number of examples (else one per label)",
    )
    options = parser.parse_args()
    if options.command == "compare":
        for folder in options.folders:
            compare_trees(folder, options.cut, options.rows)
    else:
        grow_labels([int(size) for size in options.labels.split(",")], options.points)


if __name__ == "__main__":
    main()
