"""Updates: a model trained on half of a set and updated with the rest, against one trained on all.

    python benchmarks/update.py FOLDER... [--method fusion] [--portions 10] [--rows N] [--cut]
        [--labels]

The first half of the training file is trained on; the second half follows in portions. Both models
are evaluated on the test file, or with --cut on every tenth line of the training file, which is not
trained on then: files may be ordered, so that their end is no sample of them. --rows takes so many
lines, evenly spread. With --labels, `label_texts.tsv` of the folder is used: the first training has
the texts of its own labels, every portion brings those of its new ones.

Seconds are those of the whole call: features, memory check and training; reading of files and
evaluation are not timed. `cpu` is processor time of all threads, which other processes do not
change as much. Those of portions are means. `new labels` are labels without an example in the first
half. Right after the portion with their first examples, and after all of them, is measured in how
many test examples that have such a label it is among the best 20. At the end, single examples are
added one by one; `single` is their median, after the first. Writes benchmarks/results/update.json
and .md.
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
from labelspace.data import read_label_texts
from labelspace.data.label_texts import LabelTexts
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
        names = {tag.id for tag in tags}
        wanted = labels.intersection(row["labels"])
        hits, total = hits + len(wanted & names), total + len(wanted)
    return hits, total


def labels_of(rows: Iterable[Record]) -> set[str]:
    return {label for row in rows for label in row["labels"]}


def split(folder: Path, limit: int | None, cut: bool) -> tuple[list[Record], list[Record]]:
    """Return the examples to train on, in their order, and those to measure on."""
    train = records(folder / "train.jsonl.gz")
    if limit is not None and limit < len(train):
        train = [train[place] for place in np.linspace(0, len(train) - 1, limit).astype(int)]
    if not cut:
        return train, records(folder / "test.jsonl.gz")
    rest = [each for place, each in enumerate(train) if place % 10 != 9]
    return rest, train[9::10]


def texts_of(texts: LabelTexts | None, rows: list[Record], known: set[str]) -> LabelTexts | None:
    """Return the texts of the labels of these examples and of known ones."""
    if texts is None:
        return None
    wanted = labels_of(rows) | known
    return texts.aligned([each for each in texts.ids if each in wanted])


def measure(
    folder: Path, method: str, portions: int, limit: int | None, cut: bool, labels: bool
) -> None:
    train, test = split(folder, limit, cut)
    kinds = (" (cut)" if cut else "") + (" (label texts)" if labels else "")
    common = {"set": folder.name + kinds, "method": method}
    texts = read_label_texts(folder / "label_texts.tsv") if labels else None
    half = len(train) // 2
    first = texts_of(texts, train[:half], set())
    tagger, spent = timed(
        lambda: ls.train(train[:half], method=method, labels=first, progress=False)
    )
    rows = [{"model": "first half", **figures(tagger, test), **seconds_of(spent)}]
    print(rows, flush=True)
    known, new = labels_of(train[:half]), set()
    at_once, of_portions = [], []
    bounds = np.linspace(half, len(train), portions + 1).astype(int)
    for start, stop in pairwise(bounds):
        portion = train[start:stop]
        fresh = labels_of(portion) - known
        own = texts_of(texts, portion, known)
        of_portions.append(
            timed(lambda portion=portion, own=own: tagger.update(portion, labels=own))[1]
        )
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
    of_singles = [
        timed(lambda each=each: tagger.update([each], labels=None))[1] for each in singles
    ][1:]
    updated |= {
        "single": float(np.median(of_singles, axis=0)[0]),
        "single cpu": float(np.median(of_singles, axis=0)[1]),
        "longest single": float(np.max(of_singles, axis=0)[0]),
        "P@1 change": tagger.evaluate(rest)["P@1"] - before,
    }
    print(updated, flush=True)
    last = texts_of(texts, train, set())
    whole, spent = timed(lambda: ls.train(train, method=method, labels=last, progress=False))
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
    parser.add_argument("--labels", action="store_true")
    given = parser.parse_args()
    for folder in given.folders:
        measure(folder, given.method, given.portions, given.rows, given.cut, given.labels)


if __name__ == "__main__":
    main()
