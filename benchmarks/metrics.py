"""How long `evaluate` takes on a test set of the largest public size, and next to napkinXC.

    python benchmarks/metrics.py [--rows N] [--labels N]

Every metric at 1, 3 and 5 with F1, with and without bands, best of three. napkinXC's metrics are
timed in the same run on fewer rows, as they go row by row in Python; both are given per million
rows. Writes benchmarks/results/metrics.json and metrics.md.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.labels.propensity import inverse_propensities
from labelspace.metrics.ranking import evaluate
from labelspace.ranking import Ranking

RESULTS = Path(__file__).parent / "results"
K = 5
NAPKINXC_ROWS = 10_000


def random_labels(n_rows: int, n_labels: int, rng: np.random.Generator) -> csr_matrix:
    """K draws a row, popular labels more often; draws that repeat within a row fall together."""
    columns = (n_labels * rng.random(n_rows * K) ** 3).astype(np.int32)
    indptr = np.arange(0, n_rows * K + 1, K)
    matrix = csr_matrix((np.ones(len(columns), np.float32), columns, indptr), (n_rows, n_labels))
    matrix.sum_duplicates()
    matrix.data[:] = 1.0
    return matrix


def random_ranking(truth: csr_matrix, rng: np.random.Generator) -> Ranking:
    """Each row's first true label among K - 1 labels that lie apart from one another."""
    n_rows, n_labels = truth.shape
    first = truth.indices[truth.indptr[:-1]].astype(np.int64)
    labels = (first[:, None] + np.arange(K) * (n_labels // K)) % n_labels
    scores = -np.sort(-rng.random((n_rows, K), dtype=np.float32), axis=1)
    return Ranking(rng.permuted(labels, axis=1), scores)


def best_seconds(action: Callable[[], object], repeats: int = 3) -> float:
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def napkinxc_seconds(ranking: Ranking, truth: csr_matrix, train: csr_matrix) -> float | None:
    """napkinXC's time for the same metrics without F1; None where it is not installed."""
    try:
        from napkinxc import metrics
    except ImportError:
        return None
    rows = ranking.labels.tolist()
    true = [part.tolist() for part in np.split(truth.indices, truth.indptr[1:-1])]
    weights = inverse_propensities(train)

    def measure() -> None:
        for metric in ("precision", "recall", "ndcg", "coverage"):
            getattr(metrics, f"{metric}_at_k")(true, rows, k=K)
        for metric in ("psprecision", "psndcg"):
            getattr(metrics, f"{metric}_at_k")(true, rows, weights, k=K)

    return best_seconds(measure, repeats=1)


def run(n_rows: int, n_labels: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    truth, train = (random_labels(n_rows, n_labels, rng) for _ in range(2))
    ranking = random_ranking(truth, rng)
    some = slice(0, min(n_rows, NAPKINXC_ROWS))
    peer = napkinxc_seconds(ranking.take(some), truth[some], train)
    found = {
        "rows": n_rows,
        "labels": n_labels,
        "seconds": best_seconds(
            lambda: evaluate(ranking, truth, train, threshold=0.5, bands=False)
        ),
        "seconds_with_bands": best_seconds(lambda: evaluate(ranking, truth, train, threshold=0.5)),
    }
    found["seconds_per_million"] = found["seconds"] * 1e6 / n_rows
    if peer is not None:
        found["napkinxc_rows"] = some.stop
        found["napkinxc_seconds_per_million"] = peer * 1e6 / some.stop
        found["ratio"] = found["napkinxc_seconds_per_million"] / found["seconds_per_million"]
    return found


def report(found: dict[str, float]) -> str:
    lines = [
        "# Metrics",
        "",
        f"{found['rows']:,} test rows x {K} predictions, {found['labels']:,} labels.",
        "",
        "| what | seconds |",
        "|---|---|",
        f"| all metrics | {found['seconds']:.2f} |",
        f"| all metrics, also by head, torso and tail | {found['seconds_with_bands']:.2f} |",
        f"| all metrics, per million rows | {found['seconds_per_million']:.2f} |",
    ]
    if "ratio" in found:
        lines += [
            f"| napkinXC's, per million rows | {found['napkinxc_seconds_per_million']:.2f} |",
            "",
            f"napkinXC was timed on {found['napkinxc_rows']:,} rows; "
            f"it takes {found['ratio']:.1f} times as long.",
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--labels", type=int, default=670_000)
    options = parser.parse_args()
    found = run(options.rows, options.labels)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "metrics.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    (RESULTS / "metrics.md").write_text(report(found), encoding="utf-8")
    print(report(found))


if __name__ == "__main__":
    main()
