"""How long `evaluate` takes on a test set of the largest public size, and next to napkinXC.

    python benchmarks/metrics.py [--rows N] [--labels N]

Every metric at 1, 3 and 5 with F1, with and without bands, best of three. napkinXC's metrics are
timed in the same run on fewer rows, as they go row by row in Python; both are given per million
rows. Writes benchmarks/results/metrics.json and metrics.md.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from kept import best_seconds, markdown_table, provenance, write
from labelspace.labels.propensity import inverse_propensities
from labelspace.metrics.ranking import evaluate
from labelspace.ranking import Ranking

K = 5
NAPKINXC_ROWS = 10_000


def random_labels(n_rows: int, n_labels: int, rng: np.random.Generator) -> csr_matrix:
    """Draw K labels per row, popular ones more often; a label drawn twice counts once."""
    columns = (n_labels * rng.random(n_rows * K) ** 3).astype(np.int32)
    indptr = np.arange(0, n_rows * K + 1, K)
    matrix = csr_matrix((np.ones(len(columns), np.float32), columns, indptr), (n_rows, n_labels))
    matrix.sum_duplicates()
    matrix.data[:] = 1.0
    return matrix


def random_ranking(truth: csr_matrix, rng: np.random.Generator) -> Ranking:
    """Return rankings of each row's first true label and K - 1 others, in random order."""
    n_rows, n_labels = truth.shape
    first = truth.indices[truth.indptr[:-1]].astype(np.int64)
    labels = (first[:, None] + np.arange(K) * (n_labels // K)) % n_labels
    scores = -np.sort(-rng.random((n_rows, K), dtype=np.float32), axis=1)
    return Ranking(rng.permuted(labels, axis=1), scores)


def napkinxc_seconds(ranking: Ranking, truth: csr_matrix, train: csr_matrix) -> float | None:
    """Return napkinXC's time for the same metrics without F1; None if it is not installed."""
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


def run(n_rows: int, n_labels: int) -> dict[str, Any]:
    """Measure both, on the same random data."""
    rng = np.random.default_rng(0)
    truth, train = (random_labels(n_rows, n_labels, rng) for _ in range(2))
    ranking = random_ranking(truth, rng)
    some = slice(0, min(n_rows, NAPKINXC_ROWS))
    peer = napkinxc_seconds(ranking.take(some), truth[some], train)
    found: dict[str, Any] = {
        **provenance(),
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


def report(found: dict[str, Any]) -> str:
    """Return the figures as Markdown."""
    shown = {
        "all metrics": "seconds",
        "all metrics, also by head, torso and tail": "seconds_with_bands",
        "all metrics, per million rows": "seconds_per_million",
        "napkinXC's, per million rows": "napkinxc_seconds_per_million",
    }
    rows = [(name, f"{found[key]:.2f}") for name, key in shown.items() if key in found]
    text = (
        f"# Metrics\n\n{found['rows']:,} test rows x {K} predictions, {found['labels']:,} labels.\n"
        f"\n{markdown_table(['what', 'seconds'], rows)}"
    )
    if "ratio" in found:
        text += (
            f"\nnapkinXC was timed on {found['napkinxc_rows']:,} rows; "
            f"it takes {found['ratio']:.1f} times as long.\n"
        )
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--labels", type=int, default=670_000)
    options = parser.parse_args()
    found = run(options.rows, options.labels)
    write("metrics", found, report(found))
    print(report(found))


if __name__ == "__main__":
    main()
