"""Models with and without label texts, on the test files.

    python benchmarks/label_texts.py FOLDER... [--methods fusion,lexical,labeltext] [--set N=V]
    python benchmarks/label_texts.py FOLDER... --cut 4000 [--rows 10000]

Each folder has train.* and test.*, and label texts beside them. `fusion` is trained without and
with label texts, methods that do nothing without them with label texts alone. With --cut, so many
examples are cut from the training file at random and ranked in place of the test file: for choices,
so that the test file is used once. --rows trains on so many of the others only.

Columns: P, nDCG and PSP at 1, 3 and 5; nDCG of 20 labels, divided by that of an ideal ranking of
all true labels; recall at 5 and 20 of labels without training examples ("unseen") and of labels
with 1 to 5: shares of the pairs of an example and a label, whose numbers are given too. "ms" is the
time for an example alone, with its features, the median of 200. Writes results/label-texts.json
and .md.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kept import Row, keep
from labelspace.data import read_split
from labelspace.data.dataset import Dataset
from labelspace.labels.propensity import LabelCounts
from labelspace.methods.registry import method_class
from labelspace.metrics.ranking import evaluate, hits, ndcgs
from labelspace.model.reading import without_label_texts
from labelspace.model.tagger import Tagger
from labelspace.model.training import train
from labelspace.ranking import Ranking

RANKED = 20
SINGLES = 200  # examples that are ranked one by one
BANDS = {"unseen": (0, 0), "1-5": (1, 5)}  # training examples of a label


def by_count(ranking: Ranking, Y: Any, counts: np.ndarray) -> Row:
    """Return recall of labels with no and with few training examples, and how many pairs."""
    found = hits(ranking, Y)
    row: Row = {}
    for name, (low, high) in BANDS.items():
        among = (counts >= low) & (counts <= high)
        n_true = int(among[Y.indices].sum())
        row[f"{name} pairs"] = n_true
        for k in (5, RANKED):
            right = found[:, :k] & among[ranking.labels[:, :k]]
            row[f"{name} R@{k}"] = 100 * float(right.sum()) / n_true if n_true else None
    return row


def figures(ranking: Ranking, Y: Any, counts: LabelCounts) -> Row:
    """Return all figures of a ranking of 20 labels, in percent."""
    whole = evaluate(ranking, Y, counts, bands=False)
    n_true = np.diff(Y.indptr)
    ndcg = ndcgs(hits(ranking, Y), n_true, RANKED, ideal_at=max(int(n_true.max()), RANKED))
    return {
        **{f"{name}@{k}": whole[f"{name}@{k}"] for name in ("P", "nDCG", "PSP") for k in (1, 3, 5)},
        f"nDCG@{RANKED}": 100 * float(ndcg.mean()),
        **by_count(ranking, Y, counts.widened(max(Y.shape[1], int(ranking.labels.max()) + 1))),
    }


def single_ms(tagger: Tagger, texts: list[str]) -> float:
    """Return the median time for a text alone."""
    times = []
    for text in texts[: SINGLES + 20]:
        start = time.perf_counter()
        tagger.tag(text, k=5)
        times.append(1000 * (time.perf_counter() - start))
    return float(np.median(times[20:] or times))


def measure(train_data: Dataset, test: Dataset, method: str, params: dict[str, Any]) -> Row:
    """Train and rank; data without label texts give a model without."""
    start = time.perf_counter()
    tagger = train(train_data, method=method, progress=False, **params)
    seconds = time.perf_counter() - start
    assert tagger.label_counts is not None
    ranking = tagger.predict(test, RANKED)
    own = figures(ranking, test.labels, tagger.label_counts)
    times = {"train s": seconds, "ms": single_ms(tagger, list(test.texts or ()))}
    return {**own, **times}


def data_of(folder: Path, cut: int | None, rows: int | None, seed: int) -> tuple[Dataset, Dataset]:
    """Return training and test data with the same label numbers, and label texts in the first."""
    known, test = read_split(folder, label_texts="auto")
    if known.label_texts is None:
        raise SystemExit(f"{folder}: there are no label texts beside the data")
    order = np.random.default_rng(seed).permutation(len(known))
    if cut is not None:
        if not 0 < cut < len(known):
            raise SystemExit(f"--cut {cut}: expected 1 to {len(known) - 1}")
        chosen, order = np.sort(order[:cut]), order[cut:]
        test = replace(known.take(chosen), label_texts=None)
    if cut is not None or rows is not None:
        known = known.take(np.sort(order[:rows]))
    return known, test


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--methods", default="fusion,lexical,labeltext")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE",
                        help="parameter of fusion")  # fmt: skip
    parser.add_argument("--cut", type=int, metavar="N", help="rank N examples of the train file")
    parser.add_argument("--rows", type=int, metavar="N", help="train on N examples only")
    parser.add_argument("--seed", type=int, default=0, help="which examples these are")
    return parser.parse_args()


def main() -> None:
    options = parse()
    settings = dict(pair.split("=", 1) for pair in options.set)
    for folder in options.folders:
        with_texts, test = data_of(folder, options.cut, options.rows, options.seed)
        part = "test" if options.cut is None else f"cut of {options.cut}, seed {options.seed}"
        if options.rows is not None:
            part += f", {options.rows} rows"
        for method in options.methods.split(","):
            own = method_class(method).parse_parameters(settings if method == "fusion" else {})
            variants = [("with", with_texts)]
            if method == "fusion":
                variants.insert(0, ("without", without_label_texts(with_texts)))
            for texts, data in variants:
                row = measure(data, test, method, own)
                keys = {"set": folder.name, "part": part, "method": method, "label texts": texts}
                more = {"set by": ", ".join(options.set)} if options.set else {}
                keep("label-texts", [{**keys, **more, **row}], (*keys, "set by"))


if __name__ == "__main__":
    main()
