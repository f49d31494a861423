"""Single-example updates of a model of many labels, and whether search finds as much as before.

    python benchmarks/scale_updates.py METHOD [--labels 1000000] [--points 100000]
        [--updates 100000] [--seconds 300]

A model is trained on generated sparse data (`scale.py`) and gets further examples one at a time,
until all are learned or the time is over; then a thousand at once. Seconds are those of
`partial_fit`. The recall at 5 of label search (`glas`), or of the neighbours (`knn`), is measured
against exact search over the model's own vectors or examples, before and after. Rows are kept in
results/scale-updates.json and .md.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from scipy.sparse import vstack

from kept import Row, keep
from labelspace.datasets.sparse import SparseShape, make_sparse
from labelspace.methods.registry import method_class
from labelspace.search.build import build_index
from labelspace.search.neighbours.sparse import SparseNeighbours
from labelspace.search.tuning import recall_of
from scale import FEATURES, PARAMETERS, TAIL

QUERIES, AT_ONCE = 500, 1000


def recall(model: Any, X: Any, examples: Any) -> float | None:
    """Return the share of the best 5 that the model's search finds; None where it has none."""
    if model.name == "glas":
        index = model.blend_.index
        exact = build_index(index.vectors, kind="exact")
        return recall_of(index, exact, model.space_.queries(X), 5)[0]
    if model.name == "knn":
        found = model.neighbours_.search(X, 5)[0]
        true = SparseNeighbours.of(examples).search(X, 5)[0]
        return float(np.mean(found == true))
    return None


def measure(method: str, labels: int, points: int, updates: int, limit: float) -> Row:
    shape = SparseShape(points + updates + AT_ONCE + QUERIES, FEATURES, labels, tail_exponent=TAIL)
    data = make_sparse(shape)
    X, Y = data.features, data.labels
    queries = X[points + updates + AT_ONCE :]
    model = method_class(method).create(**PARAMETERS.get(method, {}))
    start = time.perf_counter()
    model.fit(X[:points], Y[:points])
    row: Row = {"method": method, "labels": labels, "examples": points}
    row |= {"fit_s": time.perf_counter() - start}
    row["recall@5 before"] = recall(model, queries, X[:points])
    seconds: list[float] = []
    start = time.perf_counter()
    for place in range(points, points + updates):
        one, labelled = X[place], Y[place]
        began = time.perf_counter()
        model.partial_fit(one, labelled)
        seconds.append(time.perf_counter() - began)
        if time.perf_counter() - start > limit:
            break
    learned = points + len(seconds)
    row |= {
        "updates": len(seconds),
        "all_s": sum(seconds),
        "one_ms_p50": 1000 * float(np.median(seconds)),
        "longest_s": max(seconds),
        "recall@5 after": recall(model, queries, X[:learned]),
    }
    start = time.perf_counter()
    rows = slice(points + updates, points + updates + AT_ONCE)
    model.partial_fit(X[rows], Y[rows])
    row[f"{AT_ONCE} at once, s"] = time.perf_counter() - start
    both = vstack([X[:learned], X[rows]], "csr")
    row["recall@5 last"] = recall(model, queries, both)
    seconds = []
    for place in range(QUERIES):
        query = queries[place]
        began = time.perf_counter()
        model.predict(query, 5)
        seconds.append(time.perf_counter() - began)
    return row | {"answer_ms_p50": 1000 * float(np.median(seconds[10:]))}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("method")
    parser.add_argument("--labels", type=int, default=1_000_000)
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--updates", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=300.0, help="most, for single updates")
    given = parser.parse_args()
    row = measure(given.method, given.labels, given.points, given.updates, given.seconds)
    keep("scale-updates", [row], ("method", "labels", "examples"))


if __name__ == "__main__":
    main()
