"""A process that damages models, loads and uses them, and reports what came of it.

It reads lines `NAME NUMBER` and writes a line of JSON for each: what was done, and whether the
model was refused with an error of labelspace, gave valid answers, or neither.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import resource
import shutil
import sys
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from hostile.models import examples
from hostile.mutations import mutate
from labelspace.cli.info import info
from labelspace.errors import LabelspaceError, ParameterError, UnsupportedError
from labelspace.model.tagger import Tagger, load

_MEMORY = 8 << 30  # of addresses: sizes that a file claims must not be allocated
_UPDATED = 25  # one of so many models is also updated: that takes long
_ROWS = examples(12, seed=1)
_TEXTS = [row["text"] for row in _ROWS]


class Malformed(Exception):
    """An answer that no model may give."""


# Errors of Python that a load may meet: what they say is that an entry is missing or of another
# type. An IndexError or a MemoryError would say that something was used before it was checked.
_FORESEEN = (KeyError, TypeError, ValueError, AttributeError)


def examine(place: Path, *, update: bool = False) -> str:
    """Load and use a model; return "refused" or "valid", else raise what went wrong."""
    try:
        tagger = load(place)
    except LabelspaceError as error:
        message = str(error)
        if str(place) not in message or "\n" in message or len(message) > 1000:
            raise Malformed(f"the error is no sentence on the model: {message[:300]!r}") from None
        cause = error.__cause__
        if cause is not None and not isinstance(cause, (LabelspaceError, OSError, *_FORESEEN)):
            raise Malformed(f"{type(cause).__name__} while it was loaded: {cause}") from cause
        return "refused"
    refused = False
    try:
        (batch,) = tagger.iter_batches(_ROWS)
        X = tagger.pipeline.transform(batch)
    except LabelspaceError:
        return "refused"
    for use in _uses(tagger, X, place, update):
        try:
            use()
        except (ParameterError, UnsupportedError):
            continue  # the model has no threshold or no neighbours: that is right of many
        except LabelspaceError:
            refused = True
    return "refused" if refused else "valid"


def _uses(tagger: Tagger, X: Any, place: Path, update: bool) -> Iterator[Any]:
    method = tagger.method
    n = len(tagger.label_names)
    rows = [{name: row[name] for name in ("text", "price", "stock")} for row in _ROWS]
    for k in (3, 1, n + 2):
        yield lambda k=k: _check_ranking(method.predict(X, k), method.n_labels_, k)
    yield lambda: [_check_tags(tags) for tags in tagger.tag_many(rows, 3)]
    yield lambda: tagger.tag_many(rows, 3, "auto")
    yield lambda: tagger.tag_many(rows, 3, ancestors=True)
    yield lambda: tagger.evaluate(_ROWS)
    yield lambda: _shown(place)
    yield lambda: repr(tagger)
    yield lambda: tagger.label_paths()
    yield lambda: tagger.label_children()
    yield lambda: tagger.explain(X[:1])
    yield lambda: tagger.neighbours(X[:1])
    yield lambda: tagger.find_labels("apple", 3)
    yield lambda: tagger.names("de")
    yield lambda: [tagger.describe_label(name) for name in tagger.label_names[:3]]
    if method.can_explain:
        yield lambda: _check_numbers([each[1] for each in method.explain(X[:1], 0).features])
    if method.can_compare_labels:
        yield lambda: _check_numbers([each[1] for each in method.similar_labels(0, 3)])
    if method.can_find_examples:
        yield lambda: [_check_numbers([near.similarity]) for near in method.nearest_examples(X[:1])]
    if method.has_space:
        yield lambda: _check_numbers(method.embed(X[:2]))
        yield lambda: _check_numbers(method.label_vectors_)
    if method.can_update and update:
        yield lambda: tagger.update(_ROWS)
        yield lambda: _check_ranking(method.predict(X, 3), method.n_labels_, 3)


def _shown(place: Path) -> None:
    """Show the metadata as `labelspace info` does, and write them as JSON."""
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        info(str(place))
        info(str(place), as_json=True)


def _check_ranking(ranking: Any, n_labels: int, k: int) -> None:
    labels, scores = ranking.labels, ranking.scores
    if labels.shape != scores.shape or labels.shape != (len(_ROWS), k):
        raise Malformed(f"shape {labels.shape}, {scores.shape}")
    if labels.min() < -1 or labels.max() >= n_labels:
        raise Malformed(f"labels from {labels.min()} to {labels.max()} of {n_labels}")
    if not np.isfinite(scores).all() or scores.min() < 0 or scores.max() > 1:
        raise Malformed(f"scores from {scores.min()} to {scores.max()}")
    if scores[labels < 0].any():
        raise Malformed("a place without a label has a score")
    for row in labels:
        if len(np.unique(row[row >= 0])) < (row >= 0).sum():
            raise Malformed(f"a label twice: {row}")


def _check_tags(tags: Any) -> None:
    for tag in tags:
        if not np.isfinite(tag.score) or not 0 <= tag.score <= 1:
            raise Malformed(f"score {tag.score}")
        if not isinstance(tag.name, str):
            raise Malformed(f"name {tag.name!r}")


def _check_numbers(numbers: Any) -> None:
    if not np.isfinite(np.asarray(numbers, np.float64)).all():
        raise Malformed("a number that is not finite")


def attempt(
    models: Path, name: str, number: int, scratch: Path, before: str = ""
) -> dict[str, Any]:
    """Damage a copy of a model as the number says, and return what came of it."""
    place = scratch / f"{name}-{number}"
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(models / name, place, copy_function=os.link)
    done = mutate(place, Random(f"{name} {number}"))
    found = {"name": name, "number": number, "done": done}
    try:
        exec(before)
        return {**found, "result": examine(place, update=number % _UPDATED == 0)}
    except Exception as error:
        origin = error if error.__cause__ is None else error.__cause__
        frames = traceback.extract_tb(origin.__traceback__)
        where = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames[-3:]]
        text = f"{type(error).__name__}: {error}"[:300]
        return {**found, "result": "broken", "kind": text, "where": " < ".join(where[::-1])}


def main() -> None:
    models, scratch, before = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    warmed = set()
    for line in sys.stdin:
        name, number = line.split()
        if name not in warmed:  # compiles all loops that an undamaged model uses
            result = examine(models / name, update=True)
            resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
            warmed.add(name)
            print(json.dumps({"name": name, "number": -1, "result": result}), flush=True)
        print(json.dumps(attempt(models, name, int(number), scratch, before)), flush=True)


if __name__ == "__main__":
    main()
