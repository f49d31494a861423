"""What `objective=psp` of `fusion` costs in P@1, on cuts of training files.

    python benchmarks/psp.py FOLDER... [--cuts 3] [--rows 8000] [--test 4000]

Of each training file, at most --rows examples are drawn to train on, at most half of the file, and
at most --test others to measure; test files are not read. The tail offset is chosen with several
safety margins (standard deviations that are added to the estimated drop of P@1). For each set the
margin is then selected by the other sets alone: the smallest with which none of them loses more
than one point, on average of its cuts. The first table has what this margin costs on the set that
had no part in it, the second one all cuts. Writes results/psp.json and .md.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from kept import Row, keep, kept, table, write
from labelspace.components.tail_objective import choose_tail_offset
from labelspace.data import read_split
from labelspace.features import Tfidf
from labelspace.labels.propensity import LabelCounts
from labelspace.methods.fusion import method as fusion
from labelspace.methods.fusion.method import Fusion
from labelspace.metrics.ranking import measure
from labelspace.metrics.reliability import reliability

MARGINS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
ALLOWED = 1.0  # points of P@1
METRICS = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5")


def matrices(folder: Path, rows: int, test: int, cut: int) -> tuple[csr_matrix, ...]:
    """Return features and labels of a cut to train on, and of another to measure."""
    data, _ = read_split(folder)
    order = np.random.default_rng(cut).permutation(data.labels.shape[0])
    n_train = min(rows, len(order) // 2)
    train, rest = np.sort(order[:n_train]), np.sort(order[n_train : n_train + test])
    if data.texts is None:
        X, X_test = data.features[train], data.features[rest]
    else:
        tfidf = Tfidf()
        X = tfidf.fit_transform([data.texts[row] for row in train])
        X_test = tfidf.transform([data.texts[row] for row in rest])
    return X, data.labels[train], X_test, data.labels[rest]


def fitted(X: csr_matrix, Y: csr_matrix, seed: int) -> tuple[Fusion, Callable[[float], None]]:
    """Return a model without the tail objective, and a function that applies it with a margin."""
    chosen: list[tuple[Any, ...]] = []
    before = fusion.choose_tail_offset
    fusion.choose_tail_offset = lambda *given: chosen.append(given)
    try:
        model = Fusion(objective="psp", seed=seed).fit(X, Y)
    finally:
        fusion.choose_tail_offset = before

    def choose(margin: float) -> None:
        combiner, *rest = copy.deepcopy(chosen[0])
        choose_tail_offset(combiner, *rest, deviations=margin)
        model.combiner_ = combiner

    model.combiner_ = model.combiner_.without_tail()
    return model, choose


def measure_cut(folder: Path, rows: int, test: int, cut: int) -> list[Row]:
    """Return what each margin costs and gains on a cut."""
    X, Y, X_test, Y_test = matrices(folder, rows, test, cut)
    model, choose = fitted(X, Y, cut)
    counts = LabelCounts.of(Y)

    def figures() -> Row:
        ranking = model.predict(X_test, 5)
        accuracy = {name: measure(name, ranking, Y_test, counts) for name in METRICS}
        return {**accuracy, "ECE": 100 * reliability(ranking, Y_test).ece}

    before = figures()
    found = []
    for margin in MARGINS:
        choose(margin)
        after = figures()
        gains = {f"{name} gained": after[name] - before[name] for name in METRICS[1:]}
        row = {"set": folder.name, "cut": cut, "examples": X.shape[0], "margin": margin}
        row |= {"P@1 lost": before["P@1"] - after["P@1"], **gains}
        found.append({**row, "ECE": after["ECE"], "ECE before": before["ECE"]})
    return found


def mean_loss(rows: list[Row], name: str, margin: float) -> float:
    """Return the mean drop of P@1 over the cuts of a set."""
    own = [row["P@1 lost"] for row in rows if (row["set"], row["margin"]) == (name, margin)]
    return float(np.mean(own))


def left_out(rows: list[Row]) -> list[Row]:
    """Return per set the margin that the other sets select, and what it costs on this one."""
    names = sorted({row["set"] for row in rows})
    found = []
    for name in names:
        others = [other for other in names if other != name]
        margin = next(
            (
                margin
                for margin in MARGINS
                if max(mean_loss(rows, other, margin) for other in others) <= ALLOWED
            ),
            MARGINS[-1],
        )
        own = [row for row in rows if (row["set"], row["margin"]) == (name, margin)]
        losses = [row["P@1 lost"] for row in own]
        shown = {"set": name, "margin by the other sets": margin, "cuts": len(own)}
        gains = {key: np.mean([row[key] for row in own]) for key in own[0] if "gained" in key}
        found.append(
            {**shown, "mean P@1 lost": np.mean(losses), "most P@1 lost": max(losses), **gains}
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--cuts", type=int, default=3)
    parser.add_argument("--rows", type=int, default=8000)
    parser.add_argument("--test", type=int, default=4000)
    options = parser.parse_args()
    for folder in options.folders:
        for cut in range(options.cuts):
            rows = measure_cut(folder, options.rows, options.test, cut)
            keep("psp", rows, ("set", "cut", "margin"))
    rows = kept("psp")
    text = table(left_out(rows)) + "\n" + table(rows)
    write("psp", rows, text)
    print(text)


if __name__ == "__main__":
    main()
