"""`labelspace reproduce`: a table or figure of a paper, run again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labelspace.cli import options
from labelspace.cli.output import Figure, print_json, print_message, print_table
from labelspace.cli.signals import exit_code, stopped_by, termination_as_interrupt
from labelspace.errors import MissingExtraError, ParameterError


def reproduce(
    name: Annotated[str | None, typer.Argument(help="Name of the experiment.")] = None,
    list_all: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Run on small samples with one seed, in minutes.")
    ] = False,
    data: Annotated[
        Path,
        typer.Option(
            "--data",
            envvar="LABELSPACE_DATA",
            help="Folder that holds the data sets, each in a folder of its name.",
        ),
    ] = Path("data"),
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for the report. Default: reproductions/NAME."),
    ] = None,
    sets: Annotated[str, typer.Option(metavar="NAMES", help="Run on these data sets only.")] = "",
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Number of runs per row, with seeds 0, 1, ...")
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=1, help="Trainings at a time, each in a process of its own.")
    ] = 1,
    as_json: options.AsJson = False,
) -> None:
    """Run a table or figure of a paper again.

    Settings that a paper leaves open are chosen on held-out training examples, with the same number
    of settings for each side of a comparison. The report has the paper's figures beside the
    measured ones, as JSON (results.json), Markdown (report.md) and a picture. Finished runs are
    kept in the report's folder: a command that was stopped and is repeated continues there. With
    --quick, generated data stand in for data sets that are not at hand.

    Example: labelspace reproduce hyperbolic-figure2 --quick --data data/ --out figure2/
    """
    from labelspace.reproductions.registry import experiments

    if list_all or name is None:
        if name is None and not list_all:
            raise ParameterError("name an experiment; labelspace reproduce --list shows them")
        known = experiments().values()
        if as_json:
            print_json([{"name": e.name, "title": e.title, "source": e.source} for e in known])
        else:
            listed = [(each.name, each.title, each.source) for each in known]
            print_table(("experiment", "what is compared", "source"), listed)
        return
    from labelspace.engine import LocalEngine
    from labelspace.reproductions.report import as_json as document
    from labelspace.reproductions.report import table, write_report
    from labelspace.reproductions.run import reproduce as run

    folder = out or Path("reproductions") / (f"{name}-quick" if quick else name)
    with termination_as_interrupt():
        try:
            results = run(
                name,
                data,
                folder,
                quick=quick,
                seeds=seeds,
                only=options.names(sets),
                engine=LocalEngine(jobs),
                on_run=lambda line: print_message(f"  {line}"),
            )
        except KeyboardInterrupt as stop:
            print_message(
                f"error: {stopped_by(stop)}; finished runs are kept in {folder}: "
                "repeat the command to continue"
            )
            raise SystemExit(exit_code(stop)) from None
    if results.replaced:
        names = ", ".join(results.replaced)
        print_message(f"warning: {names} not found in {data}: generated data take their place")
    try:
        write_report(results, folder)
    except MissingExtraError as error:
        print_message(f"warning: no picture: {error}")
    if as_json:
        typer.echo(document(results), nl=False)
        return
    columns, rows = table(results)
    print_table(columns, [[*map(Figure, row)] for row in rows], results.experiment.title)
    print_message(f"report: {folder}")
