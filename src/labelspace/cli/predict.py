"""`labelspace predict`: tags for new data, streamed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated

import typer

from labelspace.cli import options
from labelspace.cli.output import progress_bar, say


def predict(
    model: options.Model,
    data: Annotated[Path, typer.Argument(help="New data; labels are not needed.")],
    top: Annotated[int, typer.Option(min=1, help="How many labels an example gets.")] = 5,
    threshold: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Leave out labels scored below this.")
    ] = 0.0,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="JSONL file; standard output if left out.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Examples in memory at a time.")] = 1024,
    text: options.Text = "",
    numbers: options.Numbers = "",
) -> None:
    """Write the best labels of each example as JSONL, in constant memory.

    A line: {"id": "a1", "labels": [{"name": "earbuds", "score": 0.93}, ...]}

    Example: labelspace predict model/ new.jsonl --top 5 --out tags.jsonl
    """
    from labelspace.data import iter_batches
    from labelspace.tagger import load

    tagger = load(model)
    batches = iter_batches(
        data,
        batch_size=batch_size,
        columns=options.columns(text=text, numbers=numbers),
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
            for row, tags in enumerate(tagger.name_ranking(tagger.predict(batch, top))):
                record = {
                    "id": batch.ids[row] if batch.ids is not None else done + row,
                    "labels": [
                        {"name": tag.name, "score": round(tag.score, 6)}
                        for tag in tags
                        if tag.score >= threshold
                    ],
                }
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
            done += len(batch)
            progress.update(task, description=f"{done:,} tagged")
    if out is not None:
        say(f"{out}: {done:,} examples tagged")


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
