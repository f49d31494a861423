"""`labelspace predict`: tags for new data, streamed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated, Literal

import typer

from labelspace.cli import options
from labelspace.cli.output import progress_bar, say, say_threshold
from labelspace.errors import ParameterError


@options.with_columns
def predict(
    columns: options.ColumnOptions,
    model: options.Model,
    data: Annotated[Path, typer.Argument(help="New data; labels are not needed.")],
    top: Annotated[
        int | None,
        typer.Option(min=1, help="How many labels at most; if left out 5, 50 with a threshold."),
    ] = None,
    threshold: Annotated[
        str | None,
        typer.Option(help="Leave out labels scored below this; auto is the model's own."),
    ] = None,
    threshold_for: options.ThresholdFor = None,
    valid: Annotated[
        Path | None, typer.Option(help="Held-out data with labels, to choose the threshold on.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="JSONL file; standard output if left out.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Examples in memory at a time.")] = 1024,
) -> None:
    """Write the best labels of each example as JSONL, in constant memory.

    A line: {"id": "a1", "labels": [{"name": "earbuds", "score": 0.93}, ...]}

    --threshold auto gives sets instead of rankings: by the threshold that `train --threshold-for`
    chose, or by one chosen now on the data of --valid. --label, --path and --label-separator are
    for those data.

    Example: labelspace predict model/ new.jsonl --top 5 --out tags.jsonl

    Example: labelspace predict model/ new.jsonl --threshold auto --valid valid.jsonl
    """
    from labelspace.data import iter_batches
    from labelspace.evaluation.thresholds import RANKED
    from labelspace.tagger import load

    chosen = _checked_threshold(threshold, threshold_for, valid)
    tagger = load(model)
    if valid is not None:
        found = tagger.choose_threshold(valid, threshold_for or "micro-f1", columns=columns.over())
        say_threshold(found.facts())
    least = tagger.least_score(chosen)
    if top is None:
        top = 5 if threshold is None else RANKED
    batches = iter_batches(
        data,
        batch_size=batch_size,
        columns=columns.over(),
        label_names=tagger.label_names,
        unknown_labels="drop",
        require_labels=False,
        n_features=tagger.pipeline.n_numeric or None,
        zero_based=tagger.zero_based,
        n_labels=len(tagger.label_names),
    )
    done = 0
    with _writer(out) as file, progress_bar() as progress:
        task = progress.add_task("tagging", total=None)
        for batch in batches:
            ranking = tagger.predict(batch, top)
            for row, tags in enumerate(tagger.name_ranking(ranking, least)):
                record = {
                    "id": batch.ids[row] if batch.ids is not None else done + row,
                    "labels": [{"name": tag.name, "score": round(tag.score, 6)} for tag in tags],
                }
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
            done += len(batch)
            progress.update(task, description=f"{done:,} tagged")
    if out is not None:
        say(f"{out}: {done:,} examples tagged")


def _checked_threshold(
    threshold: str | None, threshold_for: str | None, valid: Path | None
) -> float | Literal["auto"]:
    """The options as one value; those that would do nothing are refused."""
    chosen = options.threshold(threshold or "0")
    if chosen != "auto" and valid is not None:
        raise ParameterError("--valid is for --threshold auto, which chooses on its data")
    if valid is None and threshold_for is not None:
        raise ParameterError("--threshold-for needs --valid FILE with held-out data to choose on")
    return chosen


@contextmanager
def _writer(out: Path | None) -> Iterator[IO[str]]:
    """Standard output, or a file that appears under its name only when it is whole."""
    if out is None:
        yield sys.stdout
        return
    part = out.with_name(out.name + ".part")
    with part.open("w", encoding="utf-8") as file:
        yield file
    os.replace(part, out)
