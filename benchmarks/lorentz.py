"""Nearest points in the Poincare ball: approximate search beside exact search.

    python benchmarks/lorentz.py [--points N] [--dim N] [--neighbours N] [--out FOLDER]

Points are drawn around centres at all distances from the centre of the ball. Exact search is a
compiled scan, and a float64 matrix product in blocks by numpy; ratios are to the faster one. There
is one cell per 3,000 points as in the paper, or one per 300. Recall is measured on queries that
nothing was tuned on; each search gets the same queries, in one batch and one at a time. Writes
benchmarks/results/lorentz.json and lorentz.md.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from labelspace._core.threads import cores
from labelspace.search.geometry.build import POINTS_PER_CELL, build_neighbours
from labelspace.search.geometry.points import ExactNeighbours, NeighbourIndex
from labelspace.search.tuning import recall_of

RESULTS = Path(__file__).parent / "results"
POINTS_PER_CLUSTER = 50
BATCH = 512
TIMED = 50
Search = Callable[[np.ndarray], object]


def ball(n: int, centres: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return points around centres: Gaussian in the tangent space at 0, mapped into the ball."""
    dim = centres.shape[1]
    chosen = centres[rng.integers(len(centres), size=n)]
    free = chosen + 0.3 * rng.standard_normal((n, dim), np.float32) / np.sqrt(dim)
    length = np.linalg.norm(free, axis=1, keepdims=True)
    return (free * np.tanh(length) / length).astype(np.float32)


def kind_centres(n: int, dim: int, rng: np.random.Generator) -> np.ndarray:
    """Return tangent vectors in all directions, for hyperbolic norms from 0.2 to 5."""
    directions = rng.standard_normal((n, dim), np.float32)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return directions * rng.uniform(0.1, 2.5, (n, 1)).astype(np.float32)


def by_matrix_product(points: np.ndarray, k: int) -> Search:
    """Return exact search by numpy: matrix products in float64, in blocks, and argpartition."""
    double = points.astype(np.float64)
    squares = np.einsum("ij,ij->i", double, double)
    weights = 1.0 / (1.0 - squares)

    def search(queries: np.ndarray) -> np.ndarray:
        found = []
        for start in range(0, len(queries), 64):
            x = queries[start : start + 64].astype(np.float64)
            spreads = (np.square(x).sum(1, keepdims=True) + squares - 2.0 * x @ double.T) * weights
            found.append(np.argpartition(spreads, k, axis=1)[:, :k])
        return np.concatenate(found)

    return search


def seconds(search: Search, queries: np.ndarray) -> float:
    start = time.perf_counter()
    search(queries)
    return time.perf_counter() - start


def timed(search: Search, queries: np.ndarray) -> dict[str, float]:
    """Return milliseconds per query: in one batch, and the median of single queries."""
    search(queries[:2])
    alone = [seconds(search, queries[row : row + 1]) for row in range(min(TIMED, len(queries)))]
    return {
        "batch_ms": 1e3 * seconds(search, queries) / len(queries),
        "single_ms": 1e3 * float(np.median(alone)),
    }


def run(n_points: int, dim: int, k: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    centres = kind_centres(max(1, n_points // POINTS_PER_CLUSTER), dim, rng)
    points, tuning, held_out = (ball(n, centres, rng) for n in (n_points, BATCH, BATCH))
    exact = ExactNeighbours(points, "hyperbolic")
    entries: dict[str, dict[str, Any]] = {
        "exact, scan": timed(lambda queries: exact.search(queries, k), held_out),
        "exact, matrix product": timed(by_matrix_product(points, k), held_out),
    }
    kinds: dict[str, dict[str, Any]] = {
        "cells, N / 3000": {"kind": "cells"},
        "cells, N / 300": {"kind": "cells", "cells": max(1, 10 * n_points // POINTS_PER_CELL)},
        "4-bit codes": {"kind": "codes"},
    }
    for name, options in kinds.items():
        start = time.perf_counter()
        index = build_neighbours(points, "hyperbolic", k=k, queries=tuning, **options)
        built = time.perf_counter() - start
        entries[name] = measure(index, exact, held_out, k) | {"build_seconds": built}
    best = {
        how: min(entry[how] for name, entry in entries.items() if name.startswith("exact"))
        for how in ("batch_ms", "single_ms")
    }
    for entry in entries.values():
        for how, quickest in best.items():
            entry[how.replace("_ms", "_ratio")] = quickest / entry[how]
    return {"points": n_points, "dim": dim, "neighbours": k, "cores": cores(), "entries": entries}


def measure(
    index: NeighbourIndex, exact: NeighbourIndex, queries: np.ndarray, k: int
) -> dict[str, Any]:
    found = timed(lambda rows: index.search(rows, k), queries)
    recall, error = recall_of(index, exact, queries, k)
    probes = {"probes": index.probes} if hasattr(index, "probes") else {}
    return {**found, "recall": recall, "recall_error": error, **probes}


def report(result: dict[str, Any]) -> str:
    lines = [
        "# Hyperbolic neighbours",
        "",
        f"{result['points']:,} points of dimension {result['dim']}, the nearest"
        f" {result['neighbours']}; milliseconds per query on {result['cores']} cores, in a batch of"
        f" {BATCH} and alone; the ratio is the time of the faster exact search over it.",
        "",
        "| search | batch ms | ratio | single ms | ratio | recall | probes | build s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, entry in result["entries"].items():
        cells = [
            name,
            f"{entry['batch_ms']:.3f}",
            f"{entry['batch_ratio']:.1f}",
            f"{entry['single_ms']:.3f}",
            f"{entry['single_ratio']:.1f}",
            f"{entry.get('recall', 1.0):.4f}",
            str(entry.get("probes", "")),
            f"{entry['build_seconds']:.1f}" if "build_seconds" in entry else "",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=500_000)
    parser.add_argument("--dim", type=int, default=50)
    parser.add_argument("--neighbours", type=int, default=10)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    result = run(options.points, options.dim, options.neighbours)
    options.out.mkdir(exist_ok=True)
    (options.out / "lorentz.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    (options.out / "lorentz.md").write_text(report(result), encoding="utf-8")
    print(report(result))


if __name__ == "__main__":
    main()
