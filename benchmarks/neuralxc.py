"""NeuralXC on real data: baselines, ablations and metrics over the epochs.

    python benchmarks/neuralxc.py FOLDER... [--settings NAME,...] [--held-out SHARE] [--examples N]

Writes benchmarks/results/neuralxc.json, a table beside it, and neuralxc-SET.png: P@k and nDCG@k on
training and test data after each epoch of the first setting. FOLDER holds train and test files;
with --held-out, a hold-out of the training file replaces the test file, which is not read.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path
from typing import Any

from scipy.sparse import csr_matrix

from kept import RESULTS, keep
from labelspace._core.sparse import unit_rows
from labelspace.components.holdout import split_rows
from labelspace.data import read, read_split
from labelspace.features.pipeline import pipeline_for
from labelspace.methods.base import Method
from labelspace.methods.baselines import MostCommon, Random
from labelspace.methods.neuralxc.method import NeuralXC
from labelspace.methods.neuralxc.network import PRESETS
from labelspace.metrics.ranking import evaluate
from labelspace.plots.curves import curves_picture
from labelspace.runs.callbacks import Callback
from labelspace.runs.history import History, curves_of

COLUMNS = ("P@1", "P@3", "P@5", "nDCG@3", "nDCG@5", "PSP@1", "PSP@5")
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "alone": {"neighbours": 0, "ensemble": 1},
    "classification-only": {"alpha": 0.0, "beta": 0.0},
    "pretrained": {"pretrain": 5},
    "paper": {},  # the set's preset
}

Part = tuple[csr_matrix, csr_matrix]


def parts_of(folder: Path, held_out: float, examples: int | None) -> tuple[Part, Part]:
    """Return features and labels to train on, and those to measure on."""
    if held_out:
        train = read(next(folder.glob("train.*")))
        rows, cut = split_rows(len(train), held_out)
        X, Y = pipeline_for(train, "tfidf").fit_transform(train), train.labels
        fitted, tested = (X[rows], Y[rows]), (X[cut], Y[cut])
    else:
        train, test = read_split(folder)
        pipeline = pipeline_for(train, "tfidf")
        fitted = (pipeline.fit_transform(train), train.labels)
        tested = (pipeline.transform(test), test.labels)
    return (fitted[0][:examples], fitted[1][:examples]), tested


def measured(model: Method, train: Part, test: Part, callbacks: list[Callback]) -> dict[str, float]:
    """Fit a model and return its metrics, training seconds and milliseconds per example."""
    start = time.perf_counter()
    model.fit(*train, callbacks=callbacks)
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    ranking = model.predict(test[0], 5)
    each = 1e3 * (time.perf_counter() - start) / len(ranking)
    found = evaluate(ranking, test[1], train[1], bands=False)
    return {**{key: found[key] for key in COLUMNS}, "train_s": seconds, "ms": each}


class TestHistory(History):
    """A history on test examples in place of the hold-out."""

    def __init__(self, model: NeuralXC, test: Part) -> None:
        super().__init__()
        self.test = partial(model._rank_exactly, unit_rows(test[0])), test[1]

    def on_epoch(self, run: Any) -> None:
        self.parts["valid"] = self.test
        super().on_epoch(run)


def on_folder(folder: Path, names: list[str], held_out: float, examples: int | None) -> None:
    """Measure all entrants on one set and plot the curve of the first setting."""
    train, test = parts_of(folder, held_out, examples)
    models: dict[str, Method] = {"random": Random(), "most-common": MostCommon()}
    for name in names:
        params = dict(SETTINGS[name])
        if name == "paper":
            if folder.name not in PRESETS:
                continue
            params = {"preset": folder.name}
        models[name] = NeuralXC(**params)
    for name, model in models.items():
        plotted = isinstance(model, NeuralXC) and name == names[0]
        found = measured(model, train, test, [TestHistory(model, test)] if plotted else [])
        row = {"set": folder.name, "held out": held_out, "examples": train[0].shape[0]}
        row = {**row, "entrant": name, **found}
        keep("neuralxc", [row], ("set", "held out", "examples", "entrant"))
        if plotted:
            picture = curves_picture(curves_of(model), f"neuralxc on {folder.name}", "png")
            (RESULTS / f"neuralxc-{folder.name}.png").write_bytes(picture)


def main() -> None:
    """Run the settings on each folder."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--settings", default=",".join(SETTINGS))
    parser.add_argument("--held-out", type=float, default=0.0)
    parser.add_argument("--examples", type=int, help="maximum number of training examples")
    options = parser.parse_args()
    for folder in options.folders:
        on_folder(folder, options.settings.split(","), options.held_out, options.examples)


if __name__ == "__main__":
    main()
