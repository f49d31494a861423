"""Updates: a model trained on half of a set and updated with the rest, against one trained on all.

    python benchmarks/update.py FOLDER... [--method fusion] [--portions 10] [--rows N] [--cut]

The first half of the training file is trained on; the second half follows in portions. Both models
are evaluated on the test file, or with --cut on the last tenth of the training file. Seconds are
those of the whole call: features, memory check and training; `cpu` is processor time, which other
processes do not change as much. Those of portions are means. `new labels` are labels without an
example in the first half. Right after the portion with their first examples, and after all of them,
is measured in how many test examples that have such a label it is among the best 20. At the end,
single examples are added one by one. Writes benchmarks/results/update.json and .md.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
import time
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import labelspace as ls
from kept import keep
from labelspace.model.store import size_in_bytes
from labelspace.model.tagger import Tagger

FOUND_IN = 20  # best labels among which a new label counts as found
SINGLES = 20  # examples that are added one by one
Record = dict[str, Any]


def records(path: Path) -> list[Record]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        found = [json.loads(line) for line in lines]
    return [{"text": each["text"], "labels": each["labels"]} for each in found]


def timed(action: Any) -> tuple[Any, np.ndarray]:
    """Return a value, and wall time and processor time of all threads."""
    start = np.array([time.perf_counter(), time.process_time()])
    value = action()
    return value, np.array([time.perf_counter(), time.process_time()]) - start


def seconds_of(spent: np.ndarray) -> dict[str, float]:
    return {"seconds": float(spent[0]), "cpu": float(spent[1])}


def figures(tagger: Tagger, test: list[Record]) -> dict[str, float]:
    found = tagger.evaluate(test)
    with tempfile.TemporaryDirectory() as folder:
        tagger.save(Path(folder) / "model")
        size = size_in_bytes(Path(folder) / "model")
    shown = {name: found[name] for name in ("P@1", "P@3", "P@5")}
    return {**shown, "ECE": found["calibration"]["ECE"], "MB": size / 1e6}


def found_share(tagger: Tagger, test: list[Record], labels: set[str]) -> tuple[int, int]:
    """Return in how many test examples one of the labels is found, and of how many."""
    rows = [each for each in test if labels.intersection(each["labels"])]
    hits = total = 0
    tagged = tagger.tag_many([row["text"] for row in rows], k=FOUND_IN)
    for row, tags in zip(rows, tagged, strict=True):
        names = {tag.name for tag in tags}
        wanted = labels.intersection(row["labels"])
        hits, total = hits + len(wanted & names), total + len(wanted)
    return hits, total


def labels_of(rows: Iterable[Record]) -> set[str]:
    return {label for row in rows for label in row["labels"]}


def measure(folder: Path, method: str, portions: int, limit: int | None, cut: bool) -> None:
    train = records(folder / "train.jsonl.gz")[:limit]
    test = [] if cut else records(folder / "test.jsonl.gz")
    if cut:
        train, test = train[: -len(train) // 10], train[-len(train) // 10 :]
    common = {"set": folder.name + (" (cut)" if cut else ""), "method": method}
    half = len(train) // 2
    tagger, spent = timed(lambda: ls.train(train[:half], method=method, progress=False))
    rows = [{"model": "first half", **figures(tagger, test), **seconds_of(spent)}]
    print(rows, flush=True)
    known, new = labels_of(train[:half]), set()
    at_once, of_portions = [], []
    bounds = np.linspace(half, len(train), portions + 1).astype(int)
    for start, stop in pairwise(bounds):
        portion = train[start:stop]
        fresh = labels_of(portion) - known
        of_portions.append(timed(lambda portion=portion: tagger.update(portion))[1])
        at_once.append(found_share(tagger, test, fresh))
        known, new = known | fresh, new | fresh
        print(f"portion of {len(portion)}: {of_portions[-1]} s", at_once[-1], flush=True)
    hits, total = np.sum(at_once, axis=0)
    updated = {
        "model": f"{portions} portions",
        **figures(tagger, test),
        **seconds_of(np.mean(of_portions, axis=0)),
        "longest cpu": float(np.max(of_portions, axis=0)[1]),
        "new labels at once": 100 * hits / max(1, total),
        "new labels": _percent(found_share(tagger, test, new)),
    }
    print(updated, flush=True)
    # Examples that no model has seen: the measurement of accuracy is over for this model.
    singles, rest = test[:SINGLES], test[SINGLES:]
    before = tagger.evaluate(rest)["P@1"]
    of_singles = [timed(lambda each=each: tagger.update([each]))[1] for each in singles]
    updated |= {
        "single": float(np.median(of_singles, axis=0)[0]),
        "single cpu": float(np.median(of_singles, axis=0)[1]),
        "P@1 change": tagger.evaluate(rest)["P@1"] - before,
    }
    print(updated, flush=True)
    whole, spent = timed(lambda: ls.train(train, method=method, progress=False))
    rows += [
        updated,
        {
            "model": "all at once",
            **figures(whole, test),
            **seconds_of(spent),
            "new labels": _percent(found_share(whole, test, new)),
        },
    ]
    keep("update", [{**common, **row} for row in rows], ("set", "method", "model"))


def _percent(counts: tuple[int, int]) -> float:
    return 100 * counts[0] / max(1, counts[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--method", default="fusion")
    parser.add_argument("--portions", type=int, default=10)
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--cut", action="store_true")
    given = parser.parse_args()
    for folder in given.folders:
        measure(folder, given.method, given.portions, given.rows, given.cut)


if __name__ == "__main__":
    main()
