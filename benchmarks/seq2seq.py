"""Cost and accuracy of Seq2Seq relative to TreeSpace.

    python benchmarks/seq2seq.py FOLDER [--rows N] [--test-rows N] [--epochs N]

Both are fitted on the same examples of FOLDER and predict the same test examples, with the threads
that OMP_NUM_THREADS sets; times are CPU times, which other processes disturb less. Writes
benchmarks/results/seq2seq.json and a table beside it.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kept import keep
from labelspace.data import read_split
from labelspace.data.dataset import Dataset
from labelspace.features.pipeline import written_names
from labelspace.features.tfidf import Tfidf
from labelspace.labels.levels import Levels
from labelspace.methods.seq2seq.method import Seq2Seq
from labelspace.methods.treespace.method import TreeSpace
from labelspace.metrics.levels import RANKED, evaluate_levels
from labelspace.metrics.ranking import evaluate

METRICS = ("P@1", "P@3", "P@5", "PSP@5")


def measured(model: Any, train: Dataset, test: Dataset, text: Any, **known: Any) -> dict[str, Any]:
    """Return accuracy and cost of one method."""
    X, X_test = text.fit_transform(train.texts), text.transform(test.texts)
    if isinstance(model, Seq2Seq):
        known["label_names"] = text.transform_names(written_names(train.taxonomy))
    start = time.process_time()
    model.fit(X, train.labels, taxonomy=train.taxonomy, **known)
    trained = time.process_time()
    model.predict(X_test[:1], 1)  # compiles and copies; not part of the cost
    warm = time.process_time()
    ranking = model.predict(X_test, RANKED)
    predicted = time.process_time()
    found = evaluate(ranking, test.labels, train.labels, bands=False)
    counts = np.bincount(train.labels.indices, minlength=train.n_labels)
    levels = Levels.build(train.taxonomy, train.names())
    single = levels.one_label_each(train.labels)
    by_level = evaluate_levels(ranking, test.labels, counts, levels, single_path=single)
    return {
        "method": model.name,
        **{name: found[name] for name in METRICS},
        "exact path": by_level["exact path"],
        "epochs": len(model.history_),
        "train ms per example": 1000 * (trained - start) / len(train),
        "predict ms per example": 1000 * (predicted - warm) / len(test),
    }


def known_labels(train: Dataset, test: Dataset) -> Dataset:
    """Return the test examples with the labels of the training data only, numbered alike."""
    return replace(
        test,
        labels=test.labels[:, : train.n_labels],
        label_names=train.names(),
        taxonomy=train.taxonomy,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, help="number of training examples; all by default")
    parser.add_argument("--test-rows", type=int, default=2000)
    parser.add_argument(
        "--epochs", type=int, default=20, help="maximum number of epochs of seq2seq"
    )
    chosen = parser.parse_args()
    train, test = read_split(chosen.folder)
    rng = np.random.default_rng(0)
    train = train.take(np.sort(rng.permutation(len(train))[: chosen.rows]))
    test = known_labels(train, test.take(np.sort(rng.permutation(len(test))[: chosen.test_rows])))
    generator = Seq2Seq(epochs=chosen.epochs)
    results = [
        measured(generator, train, test, generator.text_features()),
        measured(TreeSpace(), train, test, Tfidf()),
    ]
    for result in results:
        for part in ("train", "predict"):
            key = f"{part} ms per example"
            result[f"{part}, times"] = result[key] / results[1][key]  # relative to treespace
    own = {"set": chosen.folder.name, "rows": len(train)}
    keep("seq2seq", [{**own, **result} for result in results], (*own, "method"))


if __name__ == "__main__":
    main()
