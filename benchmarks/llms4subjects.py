"""The public yardstick on tib-gnd, the data of the shared task LLMs4Subjects (GermEval 2025).

    python benchmarks/llms4subjects.py FOLDER [--labels FILE] [--out MODEL] [OPTIONS OF TRAIN]
    python benchmarks/llms4subjects.py FOLDER --model MODEL [--parts dev]
    python benchmarks/llms4subjects.py FOLDER --cut 10000 [--labels FILE] [OPTIONS OF TRAIN]

FOLDER is that of tib-gnd. A model is trained by `labelspace train` on the training file, or given
by --model, and predicts 50 labels for each record of the dev and the test file. With --cut, so many
records are cut from the training file at random, the model is trained on the others, and only the
cut is predicted: for choices, so that dev is used once. Options that are not listed by --help are
those of `labelspace train`, such as --set NAME=VALUE or --features SPEC.

results/llms4subjects.json and .md have the metrics of Annif's evaluation: F1@5 of each record,
averaged; nDCG of 20 labels, divided by that of an ideal ranking of all true labels. Besides there
are recall@20 of labels without training examples and recall@5 of those with 1 to 5 (shares of pairs
of a record and a label). results/llms4subjects-official.json and .md have those of the shared task:
means of precision and recall at k = 5, 10, ..., 50, and the F1 of the two means, for each record
type and language (types.tsv.gz), for each type, for each language, and as plain means over the
cells of type and language. All are in percent.
"""

from __future__ import annotations

import argparse
import gzip
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from kept import Row, keep
from labelspace.data.dataset import Dataset
from labelspace.labels.propensity import LabelCounts
from labelspace.metrics.ranking import f1s, hits, ndcgs, precisions, recalls
from labelspace.model.tagger import Tagger, load
from labelspace.ranking import Ranking

KS = tuple(range(5, 51, 5))
RANKED = 20  # labels that Annif's evaluation reads
TRAIN, TYPES = "train.jsonl.gz", "types.tsv.gz"
Kind = tuple[str, str]  # record type and language


def annif(found: np.ndarray, n_true: np.ndarray, n_ranked: np.ndarray) -> dict[str, float]:
    """Return F1@5 and nDCG@20 as Annif's evaluation defines them."""
    f1 = f1s(found, n_true, n_ranked, 5)
    ndcg = ndcgs(found, n_true, RANKED, ideal_at=int(n_true.max()))
    return {"F1@5": 100 * float(f1.mean()), "nDCG@20": 100 * float(ndcg.mean())}


def of_means(found: np.ndarray, n_true: np.ndarray, k: int) -> dict[str, float]:
    """Return mean precision and recall at k, and the F1 of the two means."""
    precision = 100 * float(precisions(found, k).mean())
    recall = 100 * float(recalls(found, n_true, k).mean())
    both = precision + recall
    return {
        "precision": precision,
        "recall": recall,
        "F1": 2 * precision * recall / both if both else 0.0,
    }


def official(found: np.ndarray, n_true: np.ndarray, kinds: list[Kind]) -> list[Row]:
    """Return rows of the shared task's metrics: one per group of records and metric."""
    groups: dict[Kind, list[int]] = {}
    for place, (kind, language) in enumerate(kinds):
        for group in ((kind, language), (kind, "all"), ("all", language)):
            groups.setdefault(group, []).append(place)
    rows = []
    for (kind, language), places in sorted(groups.items()):
        at_k = {k: of_means(found[places], n_true[places], k) for k in KS}
        rows += _rows({"type": kind, "language": language, "records": len(places)}, at_k)
    cells = [row for row in rows if "all" not in (row["type"], row["language"])]
    mean = {
        k: {
            name: float(np.mean([row[f"@{k}"] for row in cells if row["metric"] == name]))
            for name in ("precision", "recall", "F1")
        }
        for k in KS
    }
    return rows + _rows({"type": "mean", "language": "of cells", "records": len(kinds)}, mean)


def _rows(group: Row, at_k: dict[int, dict[str, float]]) -> list[Row]:
    return [
        {**group, "metric": name, **{f"@{k}": values[name] for k, values in at_k.items()}}
        for name in ("precision", "recall", "F1")
    ]


def recall_by_count(
    ranking: Ranking, data: Dataset, counts: np.ndarray, low: int, high: int, k: int
) -> float | None:
    """Return the share of true pairs found at k, of labels with so many training examples.

    None if there is no such pair.
    """
    among = (counts >= low) & (counts <= high)
    found = hits(ranking, data.labels)[:, :k] & among[ranking.labels[:, :k]]
    n_true = among[data.labels.indices].sum()
    return 100 * float(found.sum() / n_true) if n_true else None


def evaluate(ranking: Ranking, data: Dataset, counts: LabelCounts, kinds: list[Kind]) -> Row:
    """Return the figures of the first table: of all records and of each language."""
    found, n_true = hits(ranking, data.labels), np.diff(data.labels.indptr)
    n_ranked = (ranking.labels >= 0).sum(axis=1)
    row: Row = {"records": len(data), **annif(found, n_true, n_ranked)}
    for language in sorted({language for _, language in kinds}):
        places = [i for i, (_, own) in enumerate(kinds) if own == language]
        own = annif(found[places], n_true[places], n_ranked[places])
        row |= {f"{name} {language}": value for name, value in own.items()}
    examples = counts.widened(data.n_labels)
    rare = {
        "unseen recall@20": recall_by_count(ranking, data, examples, 0, 0, 20),
        "1-5 recall@5": recall_by_count(ranking, data, examples, 1, 5, 5),
    }
    return {**row, **{name: value for name, value in rare.items() if value is not None}}


def measure(tagger: Tagger, source: Path, part: str, name: str, types: dict[str, Kind]) -> None:
    """Predict a file and keep its rows."""
    data = tagger.read(source)
    assert tagger.label_counts is not None
    assert data.ids is not None
    kinds = [types[str(record)] for record in data.ids]
    ranking = tagger.predict(data, max(KS))
    own = {"part": part, "system": name}
    row = evaluate(ranking, data, tagger.label_counts, kinds)
    keep("llms4subjects", [{**own, **row}], tuple(own))
    rows = official(hits(ranking, data.labels), np.diff(data.labels.indptr), kinds)
    keys = (*own, "type", "language", "metric")
    keep("llms4subjects-official", [{**own, **row} for row in rows], keys)


def record_types(folder: Path, split: str) -> dict[str, Kind]:
    """Return type and language of the records of "train", "dev" or "test", by their ids."""
    with gzip.open(folder / TYPES, "rt", encoding="utf-8") as file:
        rows = (line.rstrip("\n").split("\t") for line in file)
        return {record: (kind, language) for own, record, language, kind in rows if own == split}


def cut_file(train: Path, size: int, seed: int, out: Path) -> tuple[Path, Path]:
    """Write the training file as two, the second with so many records; return both."""
    with gzip.open(train, "rb") as file:
        lines = list(file)
    if not 0 < size < len(lines):
        raise SystemExit(f"--cut {size}: expected 1 to {len(lines) - 1} records")
    chosen = np.zeros(len(lines), bool)
    chosen[np.random.default_rng(seed).permutation(len(lines))[:size]] = True
    files = out / "rest.jsonl", out / "cut.jsonl"
    for path, wanted in zip(files, (False, True), strict=True):
        path.write_bytes(b"".join(lines[i] for i in np.flatnonzero(chosen == wanted)))
    return files


def trained(data: Path, out: Path, labels: str | None, others: list[str]) -> Tagger:
    """Train a model by the command line, as users do."""
    given = [] if labels is None else ["--labels", labels]
    command = [sys.executable, "-m", "labelspace", "train", str(data), "--out", str(out)]
    subprocess.run([*command, *given, *others], check=True)
    return load(out)


def parse() -> tuple[Any, list[str]]:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], allow_abbrev=False
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", type=Path, help="a trained model")
    parser.add_argument("--cut", type=int, metavar="N", help="predict N records of the train file")
    parser.add_argument("--cut-seed", type=int, default=0, help="which records these are")
    parser.add_argument("--labels", metavar="FILE", help="label texts, as of `labelspace train`")
    parser.add_argument("--out", type=Path, help="folder to write the trained model to")
    parser.add_argument("--parts", default="dev,test", help="files to predict")
    parser.add_argument("--name", help="name of the system in the tables")
    options, others = parser.parse_known_args()
    given = [name for name in ("cut", "labels", "out") if getattr(options, name) is not None]
    if options.model is not None and given + others:
        names = ", ".join([*(f"--{name}" for name in given), *others])
        parser.error(f"--model: the model is trained already; {names} cannot be used")
    return options, others


def main() -> None:
    options, others = parse()
    folder = options.folder
    with tempfile.TemporaryDirectory() as scratch:
        data = folder / TRAIN
        if options.cut is None:
            splits = options.parts.split(",")
            parts = [(split, split, folder / f"{split}.jsonl.gz") for split in splits]
        else:
            data, cut = cut_file(data, options.cut, options.cut_seed, Path(scratch))
            parts = [("train", f"cut of {options.cut}, seed {options.cut_seed}", cut)]
        if options.model is not None:
            tagger = load(options.model)
        else:
            out = options.out or Path(scratch) / "model"
            tagger = trained(data, out, options.labels, others)
        texts = ", label texts" if getattr(tagger, "label_texts", None) is not None else ""
        name = options.name or f"{tagger.method.name}{texts}"
        for split, part, path in parts:
            measure(tagger, path, part, name, record_types(folder, split))


if __name__ == "__main__":
    main()
