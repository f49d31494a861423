"""`labelspace plot`: training curves and reliability diagrams."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labelspace.cli import options
from labelspace.cli.output import print_message

app = typer.Typer(
    help="Draw training curves, or how well scores are calibrated.\n\n"
    "Example: labelspace plot history model/ --out history.png",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Out = Annotated[
    Path, typer.Option("--out", "-o", help="File to write: .html (page) or .png (picture).")
]


@app.callback()
def plot() -> None: ...


@app.command("history")
def history(model: options.Model, out: Out) -> None:
    """Draw training curves: metrics over the epochs.

    Shows P@k and nDCG@k on training and on held-out data. The model must have been trained with
    `--history`. Members of fusion that are trained in epochs are drawn separately.

    Example: labelspace plot history model/ --out history.png
    """
    from labelspace.plots.pictures import check_plot_file

    check_plot_file(out)
    from labelspace.plots.curves import read_curves, runs_of, write_curves

    kept = read_curves(model)
    write_curves(kept, out, f"{model.resolve().name}: {kept['method']}")
    counts = [f"{name} {len(epochs)} epochs".strip() for name, _, epochs in runs_of(kept)]
    print_message(f"{out}: {', '.join(counts)}")


@app.command("reliability")
@options.with_columns
def reliability(
    columns: options.ColumnOptions,
    model: options.Model,
    data: Annotated[Path, typer.Argument(help="Test data with labels.")],
    out: Out,
    top: options.Top = 5,
    bins: Annotated[int, typer.Option(min=1, help="Number of bins.")] = 10,
) -> None:
    """Draw a reliability diagram of the scores.

    It shows the share of predicted labels that are true, per score. Scores are calibrated where the
    curve lies on the diagonal; below it they are too high.

    Example: labelspace plot reliability model/ test.jsonl.gz --out reliability.png
    """
    from labelspace.plots.pictures import check_plot_file

    check_plot_file(out)
    from labelspace.metrics import reliability as scores
    from labelspace.model.tagger import load
    from labelspace.plots.reliability import write_reliability

    tagger = load(model)
    test = tagger.read_test(data, columns.over(tagger.columns_for(data)))
    found = scores.reliability(tagger.predict(test, top), test.labels, bins=bins)
    title = f"{model.resolve().name} on {data.name}: {tagger.method.name}, best {top} labels"
    write_reliability(found, out, title)
    print_message(f"{out}: expected calibration error {100 * found.ece:.2f} percent")
