"""TreeSpace: ablations, and the cost of search by the size of the tree.

    python benchmarks/treespace.py ablations FOLDER... [--rows N] [--settings NAME,...]
                                   [--set NAME=VALUE]
    python benchmarks/treespace.py search [--labels 1000,10000,100000,1000000] [--queries N]

Each writes benchmarks/results/treespace-PART.json and a table beside it. FOLDER holds train and
test files with a taxonomy; --rows is the size of a random sample of the training examples. Except
in the setting `linear_tree`, the spaces are not stacked with linear classifiers; the weights of the
losses are varied by `labelspace reproduce treespace-losses`. `search` measures
queries near the path of a leaf, in a random tree of 16 children per node with labels on its leaves.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from kept import keep
from labelspace.data import read_split
from labelspace.data.taxonomy import joined
from labelspace.features.pipeline import pipeline_for
from labelspace.labels.levels import Levels
from labelspace.methods.treespace.geometry import GEOMETRIES
from labelspace.methods.treespace.method import TreeSpace
from labelspace.methods.treespace.nodes import Nodes
from labelspace.methods.treespace.search import TreeIndex
from labelspace.methods.treespace.vectors import Layout
from labelspace.metrics.levels import RANKED, evaluate_levels
from labelspace.metrics.ranking import evaluate
from labelspace.ranking import Ranking

METRICS = ("P@1", "P@3", "P@5", "PSP@3", "PSP@5")
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "linear_tree": {"linear_tree": True},
    "no-prediction": {"prediction": 0.0},
    "top-levels-first": {"level_weight": 0.5},
    "deep-levels-first": {"level_weight": 2.0},
    "constant-dimension": {"top_dim": 512},
    "projections-shared": {"projections": "shared"},
    "projections-low-rank": {"projections": "low-rank"},
    "projections-node": {"projections": "node", "dim": 128, "top_dim": 32},
    "hyperbolic": {"geometry": "hyperbolic"},
    "no-votes": {"neighbours": 0},
    "no-tail-bias": {"tail_bias": 0.0},
}
FAN, DIM = 16, 64  # children per node, dimension of every space
SPREAD, NOISE = 1.0, 0.6  # mean length of a node's offset, and of a query's
SHARPNESS = 12.0  # scale of inner products
BEAMS = (0, 8, 16, 32, 64)  # 0 is no limit


def ablations(
    folders: list[Path], n_rows: int | None, names: list[str], changes: dict[str, Any]
) -> None:
    """Fit and evaluate every setting on every set."""
    for folder in folders:
        train, test = read_split(folder)
        if n_rows is not None:
            order = np.random.default_rng(0).permutation(len(train))
            train = train.take(np.sort(order[:n_rows]))
        pipeline = pipeline_for(train, "tfidf")
        X, X_test = pipeline.fit_transform(train), pipeline.transform(test)
        taxonomy = joined([train.taxonomy, test.taxonomy], test.names())
        levels = None if taxonomy is None else Levels.build(taxonomy, test.names())
        counts = np.bincount(train.labels.indices, minlength=train.n_labels)
        for name in names:
            start = time.perf_counter()
            model = TreeSpace(**{"linear_tree": False, **changes, **SETTINGS[name]})
            model.fit(X, train.labels, taxonomy=train.taxonomy)
            row: dict[str, Any] = {"set": folder.name, "rows": len(train), "setting": name}
            row["train_s"] = time.perf_counter() - start
            best = model.predict(X_test, RANKED)
            found = evaluate(best, test.labels, train.labels, bands=False)
            row |= {key: found[key] for key in METRICS}
            if levels is not None:
                single = levels.one_label_each(train.labels)
                by_level = evaluate_levels(best, test.labels, counts, levels, single_path=single)
                row["exact path"] = by_level["exact path"]
                row["hierarchical F1"] = by_level["hierarchical"]["F1"]
            keep("treespace-ablations", [row], ("set", "rows", "setting"))


def synthetic_index(n_labels: int, beam: int, rng: np.random.Generator) -> tuple[TreeIndex, Layout]:
    """Return an index of a tree whose children are near their parents, with labels on leaves."""
    sizes = [n_labels]
    while sizes[0] > FAN:
        sizes.insert(0, -(-sizes[0] // FAN))
    starts = np.concatenate([[0, 1], 1 + np.cumsum(sizes)])
    parent = np.concatenate([starts[level] + np.arange(m) // FAN for level, m in enumerate(sizes)])
    parent[: sizes[0]] = 0
    n = len(parent) + 1
    label = np.concatenate([np.full(n - n_labels, -1), np.arange(n_labels)])
    edges = np.stack([np.arange(1, n), parent], axis=1).astype(np.int32)
    nodes = Nodes(edges, label.astype(np.int32), np.zeros(n, bool))
    layout = Layout.of(nodes, DIM, DIM, len(sizes))
    vectors: list[np.ndarray] = []
    for level, m in enumerate(sizes):
        own = rng.standard_normal((m, DIM), np.float32)
        above = vectors[level - 1][np.arange(m) // FAN] if level else np.zeros_like(own)
        mixed = above + SPREAD * own / np.sqrt(np.float32(DIM))
        vectors.append(mixed / np.linalg.norm(mixed, axis=1, keepdims=True))
    scale, bias = np.full(len(sizes), SHARPNESS), np.full(n, -0.6 * SHARPNESS, np.float32)
    index = TreeIndex.build(
        nodes, layout, vectors, scale, bias, n_labels, beam, GEOMETRIES["euclidean"]
    )
    return index, layout


def synthetic_queries(index: TreeIndex, layout: Layout, n: int, rng: np.random.Generator) -> Any:
    """Return queries near the path of a leaf in every space, and the labels of the leaves."""
    targets = rng.integers(0, index.n_labels, n)
    queries = np.empty((n, sum(layout.dims)), np.float32)
    for row, label in enumerate(targets):
        node = int(index.node_of[label])
        while node > 0:
            vector = index.flat[index.starts[node] : index.starts[node + 1]] / SHARPNESS
            noisy = vector + NOISE * rng.standard_normal(DIM) / np.sqrt(DIM)
            queries[row, index.part[node] : index.part[node] + DIM] = noisy / np.linalg.norm(noisy)
            node = int(index.nodes.main_parent[node])
    return queries, targets


def search(sizes: list[int], n_queries: int) -> None:
    """Measure search, with and without a beam, against scoring every node."""
    for n_labels in sizes:
        for beam in BEAMS:
            rng = np.random.default_rng(n_labels)
            index, layout = synthetic_index(n_labels, beam, rng)
            queries, targets = synthetic_queries(index, layout, n_queries, rng)
            index.rank(queries[:2], 5)
            reference = index.rank(queries, 5, exact=True)[0]
            labels, _, scored = index.rank(queries, 5)
            hits = _hits(Ranking(labels, None), targets) / _hits(Ranking(reference, None), targets)  # type: ignore[arg-type]
            row = {
                "labels": n_labels,
                "beam": beam or "none",
                "ms": _milliseconds(index, queries, exact=False),
                "exact ms": _milliseconds(index, queries, exact=True),
                "nodes scored": float(scored.mean()),
                "of all": float(scored.mean()) / (len(index.nodes) - 1),
                "share of exact P@5": hits,
                "same best 5": float((labels == reference).all(axis=1).mean()),
            }
            keep("treespace-search", [row], ("labels", "beam"))


def _hits(ranking: Ranking, targets: np.ndarray) -> float:
    """Return the share of queries whose label is ranked."""
    return float((ranking.labels == targets[:, None]).any(axis=1).mean())


def _milliseconds(index: TreeIndex, queries: np.ndarray, exact: bool) -> float:
    """Return the median time of a single query."""
    times = []
    for row in range(len(queries)):
        start = time.perf_counter()
        index.rank(queries[row : row + 1], 5, exact=exact)
        times.append(time.perf_counter() - start)
    return 1e3 * float(np.median(times))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parts = parser.add_subparsers(dest="part", required=True)
    one = parts.add_parser("ablations")
    one.add_argument("folders", nargs="+", type=Path)
    one.add_argument("--rows", type=int, help="number of training examples; all by default")
    one.add_argument("--settings", default=",".join(SETTINGS))
    one.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    two = parts.add_parser("search")
    two.add_argument("--labels", default="1000,10000,100000,1000000")
    two.add_argument("--queries", type=int, default=200)
    given = parser.parse_args()
    if given.part == "ablations":
        changes = TreeSpace.parse_parameters(dict(pair.split("=") for pair in given.set))
        ablations(given.folders, given.rows, given.settings.split(","), changes)
    else:
        search([int(n) for n in given.labels.split(",")], given.queries)


if __name__ == "__main__":
    main()
