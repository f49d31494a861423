"""Time and memory of training GLaS: `python benchmarks/glas/cost.py`.

Measures milliseconds per batch as dimension and non-zeros grow over two decades of their product,
and the GFLOP/s of a whole step beside those of a matrix product in the same run. With --amazon:
one epoch at Amazon-670K's shape (490K points, 136K features, 670K labels, 76 non-zeros, dimension
512) with its peak memory.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix

from labelspace.data.dataset import Dataset
from labelspace.datasets.sparse import AMAZON_670K, make_sparse
from labelspace.methods.glas.method import GLaS
from labelspace.nn.row_tables import SparseLinear
from labelspace.nn.trainer import Trainer
from labelspace.runs.callbacks import Callback

RESULTS = Path(__file__).resolve().parent
BATCH, FEATURES = 512, 136_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--amazon", action="store_true")
    options = parser.parse_args()
    path = RESULTS / "cost.json"
    report = json.loads(path.read_text()) if path.exists() else {}
    if options.amazon:
        report["amazon-670k"] = one_epoch()
    else:
        report["gemm_gflops"] = gemm()
        report["growth"] = [growth(dim, nnz) for dim in (64, 256, 1024) for nnz in (16, 64, 256)]
        report["step"] = whole_step()
    path.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))


def gemm() -> float:
    """Return the float32 GFLOP/s of the matrix product that scores a batch."""
    z, V = torch.randn(BATCH, 512), torch.randn(4096, 512)
    seconds = shortest(lambda: z @ V.T)
    return round(2e-9 * BATCH * 4096 * 512 / seconds, 1)


def growth(dim: int, nnz: int) -> dict[str, Any]:
    """Measure forward, backward and update of the sparse layer on one batch."""
    rng = np.random.default_rng(0)
    indices = rng.integers(0, FEATURES, BATCH * nnz).astype(np.int32)
    indptr = np.arange(0, BATCH * nnz + 1, nnz, dtype=np.int32)
    X = csr_matrix((np.ones(len(indices), np.float32), indices, indptr), (BATCH, FEATURES))
    X.sum_duplicates()
    layer = SparseLinear(rng.standard_normal((FEATURES, dim), np.float32))
    upstream = torch.randn(BATCH, dim)

    def step() -> None:
        layer(X).backward(upstream)
        layer.step(0.001)

    seconds = shortest(step)
    return {
        "dim": dim,
        "nnz": nnz,
        "dim_x_nnz": dim * nnz,
        "ms": round(1e3 * seconds, 2),
        "ns_per_dim_x_nnz": round(1e9 * seconds / (BATCH * dim * nnz), 3),
    }


def whole_step() -> dict[str, Any]:
    """Measure an epoch of GLaS on synthetic data: milliseconds per batch and GFLOP/s."""
    points = 20_000
    data = make_sparse(replace(AMAZON_670K, points=points, labels=50_000), seed=0)
    params = {"dim": 512, "epochs": 1, "validation": 0.0, "neighbours": 0, "lam": 0.0}
    GLaS(**params).fit(data.features[:1024], data.labels[:1024])  # compiles
    seconds = epoch_of(GLaS(**params), data)
    candidates = 1000 + BATCH * data.labels.nnz / points
    flops = 6.0 * points * 512 * (data.features.nnz / points + candidates)
    return {
        "points": points,
        "seconds": round(seconds, 2),
        "ms_per_batch": round(1e3 * seconds * BATCH / points, 1),
        "gflops": round(1e-9 * flops / seconds, 1),
    }


def one_epoch() -> dict[str, Any]:
    """Measure an epoch at the shape of Amazon-670K."""
    data = make_sparse(AMAZON_670K, seed=0)
    before = peak_mb()
    model = GLaS(dim=512, epochs=1, validation=0.0, neighbours=0)
    seconds = epoch_of(model, data)
    return {"seconds": round(seconds, 1), "data_mb": before, "peak_mb": peak_mb()}


class Stop(Callback):
    """Ends a run after its first epoch, before the index is built."""

    def on_start(self, run: Trainer) -> None:  # noqa: ARG002
        self.start = time.perf_counter()

    def on_epoch(self, run: Trainer) -> None:  # noqa: ARG002
        self.seconds = time.perf_counter() - self.start
        raise StopIteration


def epoch_of(model: GLaS, data: Dataset) -> float:
    """Return the seconds of one epoch, without initialisation and search index."""
    stop = Stop()
    with suppress(StopIteration):
        model.fit(data.features, data.labels, callbacks=[stop])
    return stop.seconds


def peak_mb() -> int:
    """Return the peak memory of this process."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def shortest(work: Any, times: int = 5) -> float:
    """Return the seconds of the quickest of several calls, after one that is not measured."""
    work()
    found = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


if __name__ == "__main__":
    main()
