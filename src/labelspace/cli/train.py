"""`labelspace train`: from a file to a model directory."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from labelspace.cli import options
from labelspace.cli.output import ProgressBar, Stages, print_json, progress_bar, say
from labelspace.errors import LabelspaceError


def train(
    data: Annotated[Path, typer.Argument(help="Training data: JSONL, CSV, Parquet, XC text, ...")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the model goes.")],
    method: Annotated[str, typer.Option(help="See `labelspace methods`.")] = "knn",
    set_: options.Settings = None,
    features: options.Features = "tfidf",
    valid: Annotated[Path | None, typer.Option(help="Held-out data for early stopping.")] = None,
    text: options.Text = "",
    label: options.Label = "",
    path: options.PathLevels = "",
    numbers: options.Numbers = "",
    label_separator: options.Separator = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same model.")] = 0,
    checkpoint_minutes: Annotated[float, typer.Option(help="How often to checkpoint.")] = 5.0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where a run stopped.")] = False,
    restart: Annotated[bool, typer.Option("--restart", help="Drop an unfinished run.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Train a model and save it.

    Ctrl-C leaves a checkpoint beside the model; the same command with --resume goes on from it.

    Example: labelspace train train.jsonl.gz --method knn --set neighbours=10 --out model/
    """
    from labelspace import tagger
    from labelspace.memory import in_words
    from labelspace.methods.registry import method_class
    from labelspace.nn.callbacks import Checkpoint
    from labelspace.store import size_in_bytes

    params = method_class(method).parse_parameters({"seed": str(seed), **options.settings(set_)})
    unfinished = out.with_name(out.name + ".checkpoint")
    _settle_unfinished(unfinished, resume, restart)
    stages = Stages(quiet=as_json)
    try:
        with progress_bar() as progress:
            model = tagger.train(
                data,
                method=method,
                features=features,
                valid=valid,
                columns=options.columns(text, label, path, numbers, label_separator),
                callbacks=[
                    Checkpoint(unfinished, minutes=checkpoint_minutes, resume=resume),
                    ProgressBar(progress),
                ],
                on_stage=stages,
                **params,
            )
            stages("saving")
            model.save(out)
    except KeyboardInterrupt:
        if not unfinished.exists():
            raise LabelspaceError("interrupted before there was anything to keep") from None
        raise LabelspaceError(
            f"interrupted; the run is kept in {unfinished}: "
            "repeat the command with --resume to go on"
        ) from None
    shutil.rmtree(unfinished, ignore_errors=True)
    stages("")
    facts = {"model": str(out), "method": method, "bytes": size_in_bytes(out), **model.facts}
    if as_json:
        print_json(facts)
    else:
        say(f"{out}: {method} on {facts['data']['points']:,} examples with "
            f"{facts['data']['labels']:,} labels, {in_words(facts['bytes'])}")  # fmt: skip
        say(f"next: labelspace evaluate {out} TEST, or labelspace predict {out} NEW")


def _settle_unfinished(unfinished: Path, resume: bool, restart: bool) -> None:
    """An earlier run's checkpoint is neither lost nor picked up by accident."""
    if restart:
        shutil.rmtree(unfinished, ignore_errors=True)
    elif unfinished.exists() and not resume:
        raise LabelspaceError(
            f"{unfinished} holds an unfinished run: --resume goes on with it, --restart drops it"
        )
    elif resume and not unfinished.exists():
        say(f"there is no unfinished run in {unfinished}: starting from the beginning")
