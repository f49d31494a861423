"""`labelspace tune`: search for the best parameters of a method on held-out training data."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from labelspace._core.plain import plain
from labelspace.cli import options
from labelspace.cli.output import (
    ProgressBar,
    Stages,
    print_json,
    print_message,
    progress_bar,
)
from labelspace.cli.signals import exit_code, stopped_by, termination_as_interrupt
from labelspace.errors import MissingExtraError
from labelspace.methods import DEFAULT_METHOD

if TYPE_CHECKING:
    from labelspace.tuning import Tuned
    from labelspace.tuning.study import Trial

PLOT = "trials.html"


@options.with_columns
def tune(
    columns: options.ColumnOptions,
    data: Annotated[Path, typer.Argument(help="Training data: JSONL, CSV, Parquet, XC text, ...")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Directory to write the study and the model to.")
    ],
    method: Annotated[
        str, typer.Option(help="Method; `labelspace methods` lists them.")
    ] = DEFAULT_METHOD,
    trials: Annotated[
        int, typer.Option(min=1, help="Number of trials, with those of earlier runs.")
    ] = 50,
    timeout: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Begin no trial after this time, e.g. 90s, 10m or 2h."),
    ] = None,
    metric: Annotated[
        str, typer.Option(help="What to maximise, e.g. P@1, nDCG@5 or PSP@5.")
    ] = "nDCG@5",
    set_: options.Settings = None,
    search: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Parameters to search, e.g. lr,dim, or linear.C of a member of fusion. "
            "Default: all that declare values to search.",
        ),
    ] = "",
    features: options.Features = None,
    labels: options.Labels = None,
    labels_header: options.LabelsHeader = None,
    labels_separator: options.LabelsSeparator = None,
    cuts: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of validation cuts per trial. Default: 1, up to 3 if the data are small.",
        ),
    ] = None,
    pruning: Annotated[
        bool, typer.Option(help="Stop trials that are below the median of earlier ones.")
    ] = True,
    jobs: Annotated[int, typer.Option(min=1, help="Number of trials at a time.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the cuts, the trials and the method.")] = 0,
    restart: Annotated[
        bool, typer.Option("--restart", help="Delete the study that is in the directory.")
    ] = False,
    engine: options.Engine = "local",
    address: options.Address = None,
    as_json: options.AsJson = False,
) -> None:
    """Search for the best parameters of a method, and train a model with them.

    Trials are fitted on a part of the training data and evaluated on the rest of it; a test file is
    never read. The first trial has the method's defaults, so the best one is not below them there.
    Then a model is trained on all data with the best parameters and saved in OUT/model. With
    fusion, its members and their usual parameters are searched. `labelspace methods NAME --search`
    shows what is tried.

    OUT also has report.txt and report.json (parameters and figures beside those of the defaults),
    trials.csv, and trials.html, a plot of the trials (extra plots).

    The study is kept in the directory. If the command is stopped, repeat it to continue; trials
    that were running are lost. With a larger --trials, it goes on to that number.

    --engine ray runs the trials on the nodes of a Ray cluster, --jobs of them at a time.

    Example: labelspace tune train.jsonl.gz --method glas --trials 50 --timeout 1h --out tuned/

    Example: labelspace tune train.jsonl.gz --method knn --search neighbours --out tuned/
    """
    from labelspace.engine import engine_of
    from labelspace.methods.registry import method_class
    from labelspace.model.store import check_target
    from labelspace.tuning import tune as run
    from labelspace.tuning.results import MODEL, report_text

    check_target(out / MODEL)
    limit = None if timeout is None else options.seconds(timeout, "--timeout")
    params = method_class(method).parse_parameters(options.settings(set_))
    texts = options.label_texts(labels, labels_header, labels_separator)
    stages, done = Stages(quiet=as_json), 0
    with termination_as_interrupt():
        try:
            with engine_of(engine, address) as cluster, progress_bar() as progress:
                bar = progress.add_task("trials", total=trials)

                def show(trial: Trial, count: int) -> None:
                    nonlocal done
                    done = count
                    progress.update(bar, completed=count)
                    if not as_json:
                        print_message(f"  {_line(trial, metric)}")

                tuned = run(
                    data,
                    method=method,
                    trials=trials,
                    timeout=limit,
                    metric=metric,
                    search=options.names(search),
                    out=out,
                    features=features,
                    labels=texts,
                    columns=columns.over(),
                    cuts=cuts,
                    pruning=pruning,
                    seed=seed,
                    engine=None if engine == "local" else cluster,
                    jobs=jobs,
                    restart=restart,
                    callbacks=[ProgressBar(progress)],
                    on_stage=stages,
                    on_trial=show,
                    **params,
                )
        except KeyboardInterrupt as stop:
            kept = f"finished trials are kept in {out}: repeat the command to continue"
            print_message(f"error: {stopped_by(stop)} after {done} trials; {kept}")
            raise SystemExit(exit_code(stop)) from None
    stages("")
    given = ["--labels", labels] if labels is not None else []
    given += ["--features", features] if features is not None else []
    command = _command(data, tuned, [*given, *options.column_arguments(columns)])
    _draw(tuned, out)
    if as_json:
        print_json({**tuned.report(), "command": command, "model": str(out / MODEL)})
        return
    for line in report_text(tuned.report()).splitlines():
        typer.echo(plain(line))
    print_message(f"the same model: {command}")
    print_message(f"next: labelspace evaluate {out / MODEL} TEST")


def _line(trial: Trial, metric: str) -> str:
    """Return a finished trial as a line."""
    named = ", ".join(f"{name}={value}" for name, value in trial.parameters.items())
    if trial.score is None:
        return f"trial {trial.number}: {trial.state}, {trial.reason}; {named or 'defaults'}"
    seconds = f"{trial.seconds:.1f} s"
    return f"trial {trial.number}: {metric} {trial.score:.2f}, {seconds}; {named or 'defaults'}"


def _command(data: Path, tuned: Tuned, further: list[str]) -> str:
    """Return the command that trains the same model."""
    from labelspace.tuning.results import settings_of

    words = ["labelspace", "train", str(data), "--method", tuned.method]
    for name, value in settings_of(tuned.parameters).items():
        words += ["--set", f"{name}={value}"]
    return shlex.join([*words, *further, "--out", "MODEL"])


def _draw(tuned: Tuned, out: Path) -> None:
    try:
        from labelspace.plots.trials import write_trials_plot
    except MissingExtraError as error:
        print_message(f"{out / PLOT} was not drawn: {error}")
        return
    title = f"{tuned.method}: {tuned.metric} on validation cuts"
    write_trials_plot([asdict(trial) for trial in tuned.trials], out / PLOT, tuned.metric, title)
