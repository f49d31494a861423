"""`labelspace train`: train a model on a file and save it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labelspace.cli import options
from labelspace.cli.output import (
    ProgressBar,
    Stages,
    print_json,
    print_message,
    print_threshold,
    progress_bar,
)
from labelspace.cli.signals import exit_code, stopped_by, termination_as_interrupt
from labelspace.errors import CheckpointError, ParameterError
from labelspace.methods import DEFAULT_METHOD

if TYPE_CHECKING:
    from labelspace.runs.callbacks import Checkpoint


@options.with_columns
def train(
    columns: options.ColumnOptions,
    data: Annotated[Path, typer.Argument(help="Training data: JSONL, CSV, Parquet, XC text, ...")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Directory to write the model to.")],
    method: Annotated[
        str, typer.Option(help="Method; `labelspace methods` lists them.")
    ] = DEFAULT_METHOD,
    set_: options.Settings = None,
    features: options.Features = None,
    valid: Annotated[Path | None, typer.Option(help="Held-out data for early stopping.")] = None,
    labels: options.Labels = None,
    labels_header: options.LabelsHeader = None,
    labels_separator: options.LabelsSeparator = None,
    budget: options.Budget = None,
    threshold_for: options.ThresholdFor = None,
    seed: Annotated[int, typer.Option(help="Random seed: the same seed gives the same model.")] = 0,
    checkpoint_minutes: Annotated[
        float, typer.Option(help="Minutes between checkpoints; 0 writes one after every batch.")
    ] = 5.0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a run that was stopped.")
    ] = False,
    restart: Annotated[bool, typer.Option("--restart", help="Delete an unfinished run.")] = False,
    history: Annotated[
        bool,
        typer.Option(
            "--history", help="Save P@k and nDCG@k of each epoch with the model, for plot history."
        ),
    ] = False,
    engine: options.Engine = "local",
    address: options.Address = None,
    workers: options.Workers = None,
    as_json: options.AsJson = False,
) -> None:
    """Train a model and save it.

    Ctrl-C, SIGTERM and SIGHUP leave a checkpoint beside the model; repeat the command with --resume
    to continue from it. The columns of a table that are given here are saved with the model.

    --engine ray fits members of fusion, and labels of linear classifiers and trees, on a Ray
    cluster; the model is the same. With --workers, the batches of one neural network are divided
    among workers; the model is the same up to the rounding of sums.

    Example: labelspace train train.jsonl.gz --out model/

    Example: labelspace train train.jsonl.gz --labels vocabulary.ttl --out model/

    Example: labelspace train train.jsonl.gz --method knn --set neighbours=10 --out model/
    """
    from labelspace._core.machine import in_words
    from labelspace.engine import engine_of
    from labelspace.methods.registry import method_class
    from labelspace.model import training
    from labelspace.model.store import check_target, size_in_bytes
    from labelspace.model.unfinished import discard, unfinished_run
    from labelspace.runs.callbacks import Checkpoint
    from labelspace.runs.history import History

    check_target(out)
    chosen = {"seed": str(seed), **options.settings(set_)}
    if budget is not None:
        if "budget" not in method_class(method).parameters:
            raise ParameterError(f"--budget: {method} has no budget; use --method fusion")
        chosen["budget"] = str(options.seconds(budget))
    if workers is not None and not method_class(method).can_train_in_workers:
        raise ParameterError(
            f"--workers: {method} does not train in batches that workers can share; leave it out"
        )
    params = method_class(method).parse_parameters(chosen)
    texts = options.label_texts(labels, labels_header, labels_separator)
    unfinished = out.with_name(out.name + ".checkpoint")
    stages = Stages(quiet=as_json)
    with (
        termination_as_interrupt(),
        unfinished_run(unfinished, method, resume=resume, restart=restart),
    ):
        checkpoint = Checkpoint(unfinished, minutes=checkpoint_minutes, resume=resume)
        try:
            with engine_of(engine, address, workers=workers), progress_bar() as progress:
                model = training.train(
                    data,
                    method=method,
                    features=features,
                    valid=valid,
                    labels=texts,
                    threshold_for=threshold_for,
                    columns=columns.over(),
                    # The history first: a checkpoint holds what it added to an epoch.
                    callbacks=[
                        *([History()] if history else []), checkpoint, ProgressBar(progress)
                    ],
                    on_stage=stages,
                    **params,
                )  # fmt: skip
                stages("saving")
                model.save(out)
        except KeyboardInterrupt as stop:
            print_message(f"error: {_stopped(stop, checkpoint, unfinished)}")
            raise SystemExit(exit_code(stop)) from None
        discard(unfinished)
    if history and model.history is None:
        print_message(f"{method} is not trained in epochs: there is no history to save")
    stages("")
    metadata = {"model": str(out), "method": method, "bytes": size_in_bytes(out), **model.metadata}
    if as_json:
        print_json(metadata)
    else:
        print_message(f"{out}: {method} on {metadata['data']['points']:,} examples with "
            f"{metadata['data']['labels']:,} labels, {in_words(metadata['bytes'])}")  # fmt: skip
        _say_extras(metadata)
        print_message(f"next: labelspace evaluate {out} TEST, or labelspace predict {out} NEW")


def _say_extras(metadata: dict[str, Any]) -> None:
    """Print what is known of labels, the speed of the features, and the threshold, if any."""
    if "label_texts" in metadata:
        texts, data = metadata["label_texts"], metadata["data"]
        languages = ", ".join(texts["languages"]) or "language unknown"
        print_message(
            f"label texts: {texts['names']:,} names of {texts['named']:,} labels ({languages}); "
            f"{data['labels'] - data['labels_used']:,} labels have no examples"
        )
    if "text_features" in metadata:
        speed = metadata["text_features"]
        print_message(f"features {speed['name']}: {speed['texts_per_second']:,} texts per second")
    if "threshold" in metadata:
        print_threshold(metadata["threshold"])


def _stopped(stop: KeyboardInterrupt, checkpoint: Checkpoint, unfinished: Path) -> str:
    """Write a checkpoint of a run that was stopped and return a sentence on what is kept."""
    from labelspace.model.unfinished import has_content

    how = stopped_by(stop)
    try:
        checkpoint.keep()
    except CheckpointError as error:
        return f"{how}; training since the last checkpoint is lost: {error}"
    if not has_content(unfinished):
        return f"{how} before there was anything to save"
    return f"{how}; the run is kept in {unfinished}: repeat the command with --resume to continue"
