"""One query at a time over many labels: approximate search beside the best exact search.

    python benchmarks/search.py [--labels N ...] [--dim N] [--kind KIND]

Label vectors are cluster centres with noise, of unit length; queries lie near labels. Exact search
is numpy (matrix times vector, argpartition), faiss's IndexFlatIP on one and on all threads, and our
own: the quickest counts. Medians over single queries; recall is measured on queries that the index
was not tuned on. Writes benchmarks/results/search.json and search.md.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import faiss
import numpy as np

from kept import kept, markdown_table, provenance, write
from labelspace._core.threads import cores
from labelspace.search.build import build_index, restore_index

K = 5
LABELS_PER_CLUSTER = 20
TIMED = 200
MEASURED = 1000


def directions(n_rows: int, dim: int, rng: np.random.Generator) -> np.ndarray:
    return unit(rng.standard_normal((n_rows, dim), dtype=np.float32))


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def catalogue(n_labels: int, dim: int, rng: np.random.Generator) -> np.ndarray:
    """Draw labels around random centres: a label's cosine with its centre is about 0.7."""
    centres = directions(n_labels // LABELS_PER_CLUSTER, dim, rng)
    chosen = rng.integers(len(centres), size=n_labels)
    return unit(centres[chosen] + directions(n_labels, dim, rng))


def near_labels(vectors: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw queries whose cosine with some label is about 0.8."""
    chosen = vectors[rng.integers(len(vectors), size=count)]
    return unit(chosen + np.float32(0.7) * directions(count, vectors.shape[1], rng))


def milliseconds(search: Callable[[np.ndarray], object], queries: np.ndarray) -> dict[str, float]:
    """Return the median and the 99th percentile over single queries."""
    for row in range(5):
        search(queries[row : row + 1])
    spent = []
    for row in range(TIMED):
        query = queries[row : row + 1]
        start = time.perf_counter()
        search(query)
        spent.append(1e3 * (time.perf_counter() - start))
    return {"p50": float(np.median(spent)), "p99": float(np.quantile(spent, 0.99))}


def exact_times(vectors: np.ndarray, queries: np.ndarray) -> dict[str, dict[str, float]]:
    """Return the times of each exact search."""

    def by_numpy(query: np.ndarray) -> np.ndarray:
        scores = vectors @ query[0]
        best = np.argpartition(scores, -K)[-K:]
        return best[np.argsort(-scores[best])]

    flat = faiss.IndexFlatIP(vectors.shape[1])
    flat.add(vectors)
    own = build_index(vectors, kind="exact")
    found = {
        "numpy": milliseconds(by_numpy, queries),
        "labelspace exact": milliseconds(lambda query: own.search(query, K), queries),
    }
    for threads in {1, cores()}:
        faiss.omp_set_num_threads(threads)
        name = f"faiss IndexFlatIP, threads: {threads}"
        found[name] = milliseconds(lambda query: flat.search(query, K), queries)
    return found


def run(n_labels: int, dim: int, kind: str) -> dict[str, Any]:
    """Measure approximate and exact search at one size."""
    rng = np.random.default_rng(0)
    vectors = catalogue(n_labels, dim, rng)
    tuning, measured = (near_labels(vectors, MEASURED, rng) for _ in range(2))
    exact = exact_times(vectors, measured)
    start = time.perf_counter()
    index = build_index(vectors, kind=kind, queries=tuning)
    build_seconds = time.perf_counter() - start
    state = index.state()
    start = time.perf_counter()
    index = restore_index(vectors, state)
    load_seconds = time.perf_counter() - start
    found = milliseconds(lambda query: index.search(query, K), measured)
    wanted = build_index(vectors, kind="exact").search(measured, K)[1][:, -1:]
    start = time.perf_counter()
    scores = index.search(measured, K)[1]
    batch_ms = 1e3 * (time.perf_counter() - start) / MEASURED
    best = min(times["p50"] for times in exact.values())
    return {
        "kind": kind,
        "labels": n_labels,
        "dim": dim,
        "exact_ms": exact,
        "best_exact_ms": best,
        "ms": found,
        "batch_ms": batch_ms,
        "ratio": best / found["p50"],
        "recall_at_5": float((scores >= wanted).mean()),
        "build_seconds": build_seconds,
        "load_seconds": load_seconds,
        "vector_bytes": vectors.nbytes,
        "index_bytes": sum(array.nbytes for array in state.values()),
        "settings": index.settings,
        **provenance(),
    }


def report(runs: list[dict[str, Any]]) -> str:
    """Return the figures as Markdown."""
    head = ["kind", "labels x dim", "exact", "found", "p99", "ratio", "recall@5", "batch"]
    head += ["build s", "load s", "saved MB", "vectors MB", "date", "commit"]
    rows = [
        [
            run["kind"],
            f"{run['labels']:,} x {run['dim']}",
            f"{run['best_exact_ms']:.2f}",
            f"{run['ms']['p50']:.3f}",
            f"{run['ms']['p99']:.3f}",
            f"{run['ratio']:.1f}",
            f"{run['recall_at_5']:.4f}",
            f"{run['batch_ms']:.3f}",
            f"{run['build_seconds']:.0f}",
            f"{run['load_seconds']:.2f}",
            f"{run['index_bytes'] / 1e6:.1f}",
            f"{run['vector_bytes'] / 1e6:.1f}",
            run.get("date", ""),
            run.get("commit", ""),
        ]
        for run in runs
    ]
    text = (
        f"# Search over labels\n\nBest {K} labels, one query at a time, median milliseconds; "
        f"`batch` is per query of one\nbatch of {MEASURED:,} on {cores()} cores. `saved` is the "
        f"index on disk, `vectors` what it searches.\n\n{markdown_table(head, rows)}"
    )
    for run in runs:
        parts = (f"{name} {times['p50']:.2f}" for name, times in run["exact_ms"].items())
        text += f"\nExact at {run['labels']:,} x {run['dim']}: {'; '.join(parts)} ms.\n"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--labels", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--kind", default="quantised", choices=["quantised", "projected"])
    options = parser.parse_args()
    runs = kept("search")
    for count in options.labels:  # other sizes measured before stay
        this = {"kind": options.kind, "labels": count, "dim": options.dim}
        runs = [old for old in runs if {name: old[name] for name in this} != this]
        runs.append(run(count, options.dim, options.kind))
    write("search", runs, report(runs))
    print(report(runs))


if __name__ == "__main__":
    main()
