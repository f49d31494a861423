"""Label trees: cost by number of labels.

    python benchmarks/trees.py grow [--labels N,N,...] [--points N]

Generates synthetic data with more and more labels, fits `hierarchicalxc` (one tree) and reports
training time, nodes expanded and milliseconds per example, in benchmarks/results/trees-grow.json
and .md. `labelspace reproduce hierarchicalxc-trees` compares kinds of trees.
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

from kept import keep
from labelspace._core.sparse import as_csr
from labelspace.data import Dataset
from labelspace.datasets.sparse import SparseShape, make_sparse
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
    of_sizes = commands.add_parser("grow", help="cost by number of labels")
    of_sizes.add_argument("--labels", default="1000,10000,100000,1000000")
    of_sizes.add_argument(
        "--points",
        type=int,
        default=100_000,
        help="least number of examples (else one per label)",
    )
    options = parser.parse_args()
    grow_labels([int(size) for size in options.labels.split(",")], options.points)


if __name__ == "__main__":
    main()
