"""`labelspace predict`: labels for new data, in constant memory."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from labelspace.cli import options
from labelspace.cli.output import print_message, print_threshold, progress_bar
from labelspace.cli.signals import termination_as_interrupt
from labelspace.errors import ParameterError


@options.with_columns
def predict(
    columns: options.ColumnOptions,
    model: options.Model,
    data: Annotated[
        Path,
        typer.Argument(help="New data: a file, - for standard input, or a folder of .txt files."),
    ],
    top: Annotated[
        int | None,
        typer.Option(
            *("--top", "-k"),
            min=1,
            help="Maximum number of labels per example. Default: 5, or 50 with --threshold.",
        ),
    ] = None,
    threshold: Annotated[
        str | None,
        typer.Option(
            help="Leave out labels with a lower score; auto uses the model's own threshold."
        ),
    ] = None,
    threshold_for: options.ThresholdFor = None,
    valid: Annotated[
        Path | None, typer.Option(help="Held-out data with labels, for choosing the threshold.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File to write. Default: standard output."),
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format", help="jsonl, csv or parquet. Default: by the suffix of --out, else jsonl."
        ),
    ] = None,
    likeliest_path: Annotated[
        bool,
        typer.Option(
            "--likeliest-path",
            help="Also write the likeliest path in the taxonomy; one column per level in tables.",
        ),
    ] = False,
    only: options.Only = None,
    exclude: options.Exclude = None,
    ancestors: options.Ancestors = False,
    language: options.Language = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Examples in memory at a time.")] = 1024,
    engine: options.Engine = "local",
    address: options.Address = None,
) -> None:
    """Predict labels for new data, in constant memory.

    A line of JSONL: {"id": "a1", "labels": [{"name": "earbuds", "score": 0.93}, ...]}. CSV and
    Parquet have the columns id, labels and scores. The id of an example without one is the number
    of its row, counted from 1. If the model has label texts, each label of JSONL also has its id,
    and its URI and notation if they are known; CSV and Parquet have the ids in the column labels,
    and the columns names, uris and notations.

    The columns of a table default to those of the training data, which the model has saved; if one
    of several text columns is missing, the others are used. A .txt file that is not XC text is one
    document, as is each .txt file of a folder; its id is the file's name.

    --threshold auto returns label sets instead of rankings, by the threshold that
    `train --threshold-for` chose, or by one that is chosen on the data of --valid. The label and
    path columns and separators are those of --valid.

    --only and --exclude rank deeper until enough labels are found, as far as the method has
    candidates. --ancestors adds labels, so that there may be more than --top.

    --likeliest-path writes one path per example, chosen as in `evaluate --levels`, and the
    likeliest label of every other kind.

    --engine ray predicts on the nodes of a Ray cluster; the file is the same. After a crash or
    Ctrl-C, repeat the command: batches that are done, kept beside --out, are not predicted again.

    Example: labelspace predict model/ new.jsonl --top 5 --out tags.jsonl

    Example: labelspace predict model/ new.csv --likeliest-path --out tags.csv

    Example: labelspace predict model/ new.jsonl --exclude withdrawn.txt --language de

    Example: labelspace predict model/ new.jsonl --threshold auto --valid valid.jsonl
    """
    from labelspace.engine import engine_of
    from labelspace.model.prediction import checked_format
    from labelspace.model.tagger import load

    chosen = _checked_threshold(threshold, threshold_for, valid)
    checked_format(out, format_)
    tagger = load(model)
    if valid is not None:
        found = tagger.choose_threshold(
            valid, threshold_for or "micro-f1", columns=columns.over(tagger.columns_for(valid))
        )
        print_threshold(found.metadata())
    bars = out is not None or not sys.stdout.isatty()
    with (
        termination_as_interrupt(),
        engine_of(engine, address),
        progress_bar(bars=bars) as progress,
    ):
        task = progress.add_task("predicting", total=None)
        done = tagger.predict_file(
            data,
            out,
            k=top,
            threshold=chosen,
            format=format_,
            likeliest_path=likeliest_path,
            only=only,
            exclude=exclude,
            ancestors=ancestors,
            language=language,
            columns=columns.over(tagger.columns_for(data)),
            batch_size=batch_size,
            on_batch=lambda done: progress.update(task, description=f"{done:,} examples"),
        )
    if out is not None:
        print_message(f"{out}: {done:,} examples")


def _checked_threshold(
    threshold: str | None, threshold_for: str | None, valid: Path | None
) -> float | Literal["auto"] | None:
    """Return the threshold; raise ParameterError for options that would have no effect."""
    chosen = None if threshold is None else options.threshold(threshold)
    if chosen != "auto" and valid is not None:
        raise ParameterError(
            "--valid is used with --threshold auto only: add it, or leave out --valid"
        )
    if valid is None and threshold_for is not None:
        raise ParameterError("--threshold-for needs held-out data: give --valid FILE")
    return chosen
