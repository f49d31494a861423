"""`labelspace train`: from a file to a model directory."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labelspace.cli import options
from labelspace.cli.output import (
    ProgressBar,
    Stages,
    print_json,
    progress_bar,
    say,
    say_threshold,
)
from labelspace.cli.plot import HISTORY
from labelspace.errors import LabelspaceError, ParameterError
from labelspace.methods import DEFAULT_METHOD

if TYPE_CHECKING:
    from labelspace.methods.base import Method


@options.with_columns
def train(
    columns: options.ColumnOptions,
    data: Annotated[Path, typer.Argument(help="Training data: JSONL, CSV, Parquet, XC text, ...")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the model goes.")],
    method: Annotated[str, typer.Option(help="See `labelspace methods`.")] = DEFAULT_METHOD,
    set_: options.Settings = None,
    features: options.Features = None,
    valid: Annotated[Path | None, typer.Option(help="Held-out data for early stopping.")] = None,
    budget: options.Budget = None,
    threshold_for: options.ThresholdFor = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same model.")] = 0,
    checkpoint_minutes: Annotated[float, typer.Option(help="How often to checkpoint.")] = 5.0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where a run stopped.")] = False,
    restart: Annotated[bool, typer.Option("--restart", help="Drop an unfinished run.")] = False,
    history: Annotated[
        bool, typer.Option("--history", help="Keep P@k and nDCG@k of each epoch with the model.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Train a model and save it.

    Ctrl-C leaves a checkpoint beside the model; the same command with --resume goes on from it.

    Example: labelspace train train.jsonl.gz --out model/

    Example: labelspace train train.jsonl.gz --method knn --set neighbours=10 --out model/
    """
    from labelspace import training
    from labelspace.memory import in_words
    from labelspace.methods.registry import method_class
    from labelspace.nn.callbacks import Checkpoint
    from labelspace.nn.history import History
    from labelspace.store import check_target, size_in_bytes

    check_target(out)
    chosen = {"seed": str(seed), **options.settings(set_)}
    if budget is not None:
        if "budget" not in method_class(method).parameters:
            raise ParameterError(f"--budget: {method} has no budget; use --method fusion")
        chosen["budget"] = str(options.seconds(budget))
    params = method_class(method).parse_parameters(chosen)
    unfinished = out.with_name(out.name + ".checkpoint")
    _settle_unfinished(unfinished, resume, restart)
    stages = Stages(quiet=as_json)
    try:
        with progress_bar() as progress:
            model = training.train(
                data,
                method=method,
                features=features,
                valid=valid,
                threshold_for=threshold_for,
                columns=columns.over(),
                callbacks=[
                    Checkpoint(unfinished, minutes=checkpoint_minutes, resume=resume),
                    ProgressBar(progress),
                    *([History()] if history else []),
                ],
                on_stage=stages,
                **params,
            )
            stages("saving")
            model.save(out)
            if history:
                _keep_history(out, model.method)
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
        _say_extras(facts)
        say(f"next: labelspace evaluate {out} TEST, or labelspace predict {out} NEW")


def _say_extras(facts: dict[str, Any]) -> None:
    """How fast texts were read, and the threshold where one was chosen."""
    if "text_features" in facts:
        speed = facts["text_features"]
        say(f"features {speed['name']}: {speed['texts_per_second']:,} texts per second")
    if "threshold" in facts:
        say_threshold(facts["threshold"])


def _keep_history(out: Path, method: Method) -> None:
    """The curve as a small file in the model directory, for `labelspace plot history`."""
    epochs = getattr(method, "history_", None)
    if epochs is None:
        say(f"{method.name} is not trained in epochs: there is no history to keep")
        return
    text = json.dumps({"method": method.name, "epochs": epochs}, indent=1)
    (out / HISTORY).write_text(text + "\n", encoding="utf-8")


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
