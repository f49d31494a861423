"""Random walks on a label graph: steps per second beside plain numpy and networkx.

    python benchmarks/walks.py [--labels N] [--degree N] [--steps N] [--embed]

The graph is random with skewed degrees. The baselines make fewer steps, since they are slow: numpy
draws one neighbour at a time from CSR arrays, networkx from its adjacency lists. With --embed,
DeepWalk vectors are trained too (time, peak memory). Writes benchmarks/results/walks.json and .md.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix

from labelspace._core.threads import cores
from labelspace.labels.deepwalk import deepwalk
from labelspace.labels.walks import RandomWalks

RESULTS = Path(__file__).parent / "results"
LENGTH, WALKS = 40, 2


def skewed_graph(n_nodes: int, degree: float, rng: np.random.Generator) -> csr_matrix:
    """Return a symmetric graph with weights of 1 whose first nodes have the most edges."""
    n_edges = round(n_nodes * degree / 2)
    ends = (n_nodes * rng.random((2, n_edges)) ** 2).astype(np.int64)
    both = np.hstack([ends, ends[::-1]])[:, np.tile(ends[0] != ends[1], 2)]
    graph = csr_matrix(coo_matrix((np.ones(both.shape[1], np.float32), both), (n_nodes,) * 2))
    graph.data[:] = 1.0
    graph.sort_indices()
    return graph


def by_labelspace(graph: csr_matrix, n_steps: int) -> float:
    stream = RandomWalks(graph, per_node=1, length=LENGTH)
    next(stream.blocks())  # compiles the loop
    per_node = max(1, n_steps // (LENGTH * len(stream.starts)))
    stream = RandomWalks(graph, per_node=per_node, length=LENGTH)
    start = time.perf_counter()
    steps = sum(block.size for block in stream.blocks())
    return steps / (time.perf_counter() - start)


def by_numpy(graph: csr_matrix, n_steps: int) -> float:
    rng = np.random.default_rng(0)
    starts = np.flatnonzero(np.diff(graph.indptr))
    start, steps = time.perf_counter(), 0
    while steps < n_steps:
        node = rng.choice(starts)
        for _ in range(LENGTH):
            node = rng.choice(graph.indices[graph.indptr[node] : graph.indptr[node + 1]])
            steps += 1
    return steps / (time.perf_counter() - start)


def by_networkx(graph: csr_matrix, n_steps: int) -> float | None:
    try:
        import networkx
    except ImportError:
        return None
    network = networkx.from_scipy_sparse_array(graph)
    starts = [node for node in network if network.degree(node)]
    rng = random.Random(0)
    start, steps = time.perf_counter(), 0
    while steps < n_steps:
        node = rng.choice(starts)
        for _ in range(LENGTH):
            node = rng.choice(list(network.neighbors(node)))
            steps += 1
    return steps / (time.perf_counter() - start)


def run(n_labels: int, degree: float, n_steps: int, embed: bool) -> dict[str, Any]:
    graph = skewed_graph(n_labels, degree, np.random.default_rng(0))
    embedded = embedding(graph) if embed else {}  # first, since the baselines take more memory
    ours = by_labelspace(graph, n_steps)
    baselines = {
        "numpy": by_numpy(graph, n_steps // 100),
        "networkx": by_networkx(graph, n_steps // 100),
    }
    best = max(speed for speed in baselines.values() if speed)
    return {
        "labels": n_labels,
        "edges": graph.nnz // 2,
        "cores": cores(),
        "labelspace_steps_per_second": ours,
        "baseline_steps_per_second": baselines,
        "ratio": ours / best,
        **embedded,
    }


def embedding(graph: csr_matrix) -> dict[str, float]:
    start = time.perf_counter()
    deepwalk(graph, 100, walks=WALKS)
    seconds = time.perf_counter() - start
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"embed_seconds": seconds, "peak_bytes": peak}


def report(found: dict[str, Any]) -> str:
    lines = [
        f"{found['labels']:,} labels, {found['edges']:,} edges, {found['cores']} cores.",
        "",
        "| walk | steps per second |",
        "|---|---|",
        f"| labelspace | {found['labelspace_steps_per_second']:,.0f} |",
    ]
    for name, speed in found["baseline_steps_per_second"].items():
        lines.append(f"| {name} | {speed:,.0f} |" if speed else f"| {name} | not installed |")
    lines += ["", f"Ratio to the faster baseline: {found['ratio']:.0f}."]
    if "peak_bytes" in found:
        lines += [
            "",
            f"DeepWalk, dimension 100, {WALKS} walks of {LENGTH} from each label, skip-gram on one "
            f"core: {found['embed_seconds']:.0f} s; peak {found['peak_bytes'] / 1e9:.1f} GB.",
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--labels", type=int, default=670_091)
    parser.add_argument("--degree", type=float, default=20.0, help="mean degree of the graph")
    parser.add_argument("--steps", type=int, default=50_000_000)
    parser.add_argument("--embed", action="store_true", help="train DeepWalk vectors as well")
    options = parser.parse_args()
    found = run(options.labels, options.degree, options.steps, options.embed)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "walks.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    (RESULTS / "walks.md").write_text(report(found), encoding="utf-8")
    print(report(found))


if __name__ == "__main__":
    main()
