"""The commands in their order in `--help`; each has a file of its own."""

from __future__ import annotations

from typing import Annotated

import typer

from labelspace._version import __version__
from labelspace.cli import (
    cache,
    compare,
    data,
    evaluate,
    explain,
    info,
    labels,
    map,
    methods,
    neighbours,
    plan,
    plot,
    predict,
    reproduce,
    serve,
    train,
    tune,
    update,
)

app = typer.Typer(
    name="labelspace",
    help="Multi-label text classification for thousands to millions of labels.\n\n"
    "Example: labelspace train train.jsonl.gz --out model/ && "
    "labelspace predict model/ new.jsonl --top 5",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None: ...


app.command("train")(train.train)
app.command("evaluate")(evaluate.evaluate)
app.command("predict")(predict.predict)
app.command("explain")(explain.explain)
app.command("neighbours")(neighbours.neighbours)
app.command("update")(update.update)
app.command("labels")(labels.labels)
app.command("serve")(serve.serve)
# `--json FILE` leaves the file as an argument, which `compare` handles.
app.command("compare", context_settings={"allow_extra_args": True})(compare.compare)
app.command("tune")(tune.tune)
app.command("reproduce")(reproduce.reproduce)
app.command("map")(map.map_labels)
app.add_typer(plot.app, name="plot")
app.add_typer(data.app, name="data")
app.add_typer(cache.app, name="cache")
app.command("methods")(methods.methods)
app.command("info")(info.info)
app.command("plan")(plan.plan)
