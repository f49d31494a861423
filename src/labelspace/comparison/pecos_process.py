"""Trains and tests PECOS's XR-Linear in a Python environment that has it; run by `pecos.py`.

`python pecos_process.py DIRECTORY` reads `job.json` there and writes `result.json` with the figures
and `ranking.npz` with labels and scores of the test examples. The environment has no labelspace:
this file imports none of it, and gets the code that measures times and memory as paths in the job.
A job without training data only predicts, with the model that an earlier job has saved.
"""

from __future__ import annotations

import json
import runpy
import sys
import time
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, load_npz


def main(directory: Path) -> None:
    """Run the job in the directory."""
    job = json.loads((directory / "job.json").read_text(encoding="utf-8"))
    timing = runpy.run_path(job["timing"])
    timing["end_with_input"]()
    from pecos.xmc.xlinear.model import XLinearModel

    result: dict[str, Any] = {"versions": {"libpecos": version("libpecos")}}
    if "X_train" in job:
        result["train_s"] = train(load_npz(job["X_train"]), load_npz(job["Y_train"]), job)
    # The form for prediction only, in C++, is the faster one.
    model = XLinearModel.load(job["model"], is_predict_only=True)
    queries = load_npz(job["X_test"])

    def predict(rows: csr_matrix, k: int) -> csr_matrix:
        return model.predict(rows, only_topk=k)

    if "X_train" in job:
        predictions, times = timing["timed"](predict, queries, job["k"])
        result |= times
    else:
        predictions = predict(queries, job["k"])
    result["peak_mb"] = runpy.run_path(job["peak"])["peak_bytes"]() / 1e6
    labels, scores = ranked(predictions, job["k"])
    np.savez(directory / "ranking.npz", labels=labels, scores=scores)
    (directory / "result.json").write_text(json.dumps(result), encoding="utf-8")


def train(X: csr_matrix, Y: csr_matrix, job: dict[str, Any]) -> float:
    """Train a model as PECOS's README does, save it, and return the seconds that training took."""
    from pecos.xmc import Indexer, LabelEmbeddingFactory
    from pecos.xmc.xlinear.model import XLinearModel

    start = time.perf_counter()
    label_features = LabelEmbeddingFactory.create(Y, X)
    tree = Indexer.gen(label_features, seed=job["seed"])
    model = XLinearModel.train(X, Y, C=tree)
    seconds = time.perf_counter() - start
    model.save(job["model"])
    return seconds


def ranked(predictions: csr_matrix, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels and scores of each row, best first; -1 and 0 where there are fewer."""
    labels = np.full((predictions.shape[0], k), -1, np.int32)
    scores = np.zeros(labels.shape, np.float32)
    for row, (start, stop) in enumerate(pairwise(predictions.indptr)):
        order = np.argsort(-predictions.data[start:stop], kind="stable")[:k]
        labels[row, : len(order)] = predictions.indices[start:stop][order]
        scores[row, : len(order)] = predictions.data[start:stop][order]
    return labels, scores


if __name__ == "__main__":
    main(Path(sys.argv[1]))
