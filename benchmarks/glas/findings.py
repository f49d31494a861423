"""The GLaS paper's findings on real sets: `python benchmarks/glas/findings.py FOLDER...`.

Changes one parameter at a time from the paper's setting: regulariser, lambda, keep probability rho,
dimension, linear or ReLU, and measures precision on training and on test data (the generalisation
gap). Training data are a seeded sample of --rows examples, so that all settings together take
minutes; absolute figures are therefore below those of whole sets. Neighbours do not vote, as in the
paper.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from labelspace.data import read_split
from labelspace.features.pipeline import pipeline_for
from labelspace.methods.glas.method import GLaS
from labelspace.metrics.ranking import evaluate
from labelspace.search.exact import ExactIndex
from labelspace.search.index import InnerProductIndex

RESULTS = Path(__file__).resolve().parent
COLUMNS = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5")

# The paper's: in-batch negatives, label vectors of length 1, no prior. The weights of regularisers
# are negligible beside its margin loss, a sum over negatives, but not beside a softmax.
PAPER = {
    "loss": "softmax",
    "negatives": "in-batch",
    "prior": False,
    "regulariser": "glas",
    "lam": 10.0,
    "keep": 0.8,
    "batch_size": 128,
    "dim": 512,
}
REGULARISERS = {
    "none": {"lam": 0.0},
    "spread-out": {"regulariser": "spread-out"},
    "gravity": {"regulariser": "gravity"},
    "glas": {},
}
CHANGES: dict[str, dict[str, dict[str, Any]]] = {
    "regulariser": REGULARISERS,
    "lambda": {"1": {"lam": 1.0}, "10": {}, "100": {"lam": 100.0}},
    "rho": {"1.0": {"keep": 1.0}, "0.8": {}, "0.6": {"keep": 0.6}},
    "dimension": {"256": {"dim": 256}, "512": {}, "1024": {"dim": 1024}},
    "encoder": {"linear": {}, "ReLU 512": {"hidden": (512,)}},
    "default's loss": {
        name: {
            "loss": "binary",
            "negatives": "uniform",
            "prior": True,
            **({"lam": 0.0} if name == "none" else {"regulariser": name, "lam": 1.0}),
        }
        for name in REGULARISERS
    },
}


class Exact(GLaS):
    """GLaS with exact search: tuning an index takes longer than training on so few rows."""

    def _build_index(
        self,
        queries: np.ndarray | None,  # noqa: ARG002
        at_least: InnerProductIndex | None = None,  # noqa: ARG002
    ) -> InnerProductIndex:
        return ExactIndex(self.space_.search_vectors())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--epochs", type=int, default=8)
    options = parser.parse_args()
    for folder in options.folders:
        rows = measure(folder, options.rows, options.epochs)
        report = {"set": folder.name, "rows": options.rows, "settings": rows}
        (RESULTS / f"findings-{folder.name}.json").write_text(json.dumps(report, indent=2) + "\n")
        table = as_table(rows)
        (RESULTS / f"findings-{folder.name}.md").write_text(table)
        print(table, flush=True)


def measure(folder: Path, n_rows: int, epochs: int) -> list[dict[str, Any]]:
    """Return the metrics of every setting on the set in a folder."""
    train, test = read_split(folder)
    pipeline = pipeline_for(train, "tfidf")
    X, X_test = pipeline.fit_transform(train), pipeline.transform(test)
    rng = np.random.default_rng(0)
    kept = np.sort(rng.permutation(X.shape[0])[:n_rows])
    X, Y = X[kept], train.labels[kept]
    tested = np.sort(rng.permutation(X_test.shape[0])[:5000])
    X_test, Y_test = X_test[tested], test.labels[tested]
    done: dict[str, dict[str, Any]] = {}
    rows = []
    for change, settings in CHANGES.items():
        for name, changed in settings.items():
            params = {**PAPER, **changed, "epochs": epochs, "neighbours": 0}
            key = json.dumps(params, sort_keys=True)
            if key not in done:
                model = Exact(**params).fit(X, Y)
                done[key] = {
                    "train": scores(model, X[:5000], Y[:5000], Y),
                    "test": scores(model, X_test, Y_test, Y),
                }
            rows.append({"change": change, "setting": name, **done[key]})
            print(change, name, rows[-1]["test"], flush=True)
    return rows


def scores(model: GLaS, X: Any, Y: Any, Y_train: Any) -> dict[str, float]:
    """Return the metrics of a model, rounded."""
    found = evaluate(model.predict(X, 5), Y, Y_train, bands=False)
    return {column: round(found[column], 2) for column in COLUMNS}


def as_table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as a Markdown table."""
    head = ("change", "setting", *COLUMNS, "train P@1", "gap P@1")
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        figures = [f"{row['test'][column]:.2f}" for column in COLUMNS]
        gap = row["train"]["P@1"] - row["test"]["P@1"]
        more = [f"{row['train']['P@1']:.2f}", f"{gap:.2f}"]
        lines.append("| " + " | ".join((row["change"], row["setting"], *figures, *more)) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
