"""`labelspace plot`: pictures of how a model was trained and of what its scores are worth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from labelspace.cli import options
from labelspace.cli.output import say
from labelspace.errors import DataError, LabelspaceError, ParameterError

HISTORY = "history.json"

app = typer.Typer(
    help="Draw how a model was trained, or what its scores are worth.\n\n"
    "Example: labelspace plot history model/ --out history.png",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def plot() -> None: ...


@app.command("history")
def history(
    model: options.Model,
    out: Annotated[Path, typer.Option("--out", "-o", help="A name that ends in .html or .png.")],
) -> None:
    """Draw P@k and nDCG@k over the epochs, on training and on held-out data.

    The model must have been trained with `--history`.

    Example: labelspace plot history model/ --out history.png
    """
    _check_ending(out)
    from labelspace.data._files import replacing
    from labelspace.evaluation.curves import curves_page, curves_picture

    kept = read_history(model)
    title = f"{model.resolve().name}: {kept['method']}"
    if out.suffix == ".png":
        content = curves_picture(kept["epochs"], title, "png")
    else:
        content = curves_page(kept["epochs"], title)
    with replacing(out) as file:
        file.write(content)
    say(f"{out}: {len(kept['epochs'])} epochs")


@app.command("reliability")
@options.with_columns
def reliability(
    columns: options.ColumnOptions,
    model: options.Model,
    data: Annotated[Path, typer.Argument(help="Test data with labels.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="A name that ends in .html or .png.")],
    top: Annotated[int, typer.Option(min=1, help="How many labels of an example count.")] = 5,
    bins: Annotated[int, typer.Option(min=1, help="Number of bins.")] = 10,
) -> None:
    """Draw the share of labels that are true against their score: at best, a diagonal.

    Example: labelspace plot reliability model/ test.jsonl.gz --out reliability.png
    """
    _check_ending(out)
    from labelspace.data._files import replacing
    from labelspace.evaluation import reliability as scores
    from labelspace.evaluation.reliability_plot import reliability_page, reliability_picture
    from labelspace.tagger import load

    tagger = load(model)
    test = tagger.read_test(data, columns.over(tagger.columns_for(data)))
    found = scores.reliability(tagger.predict(test, top), test.labels, bins=bins)
    if not found.counts.any():
        raise DataError("the model gives no label to any of these examples", path=data)
    title = f"{model.resolve().name} on {data.name}: {tagger.method.name}, best {top} labels"
    if out.suffix == ".png":
        content = reliability_picture(found, title, "png")
    else:
        content = reliability_page(found, title)
    with replacing(out) as file:
        file.write(content)
    say(f"{out}: expected calibration error {100 * found.ece:.2f} percent")


def _check_ending(out: Path) -> None:
    if out.suffix not in (".html", ".png"):
        raise ParameterError(f"--out {out}: expected a name that ends in .html or .png")


def read_history(model: Path) -> dict[str, Any]:
    """What `train --history` left in the model directory."""
    path = model / HISTORY
    if not path.exists():
        raise LabelspaceError(f"{model} keeps no history: train it with --history")
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        if not all("epoch" in entry for entry in kept["epochs"]) or "method" not in kept:
            raise KeyError("epoch")
    except (ValueError, KeyError, TypeError) as error:
        raise LabelspaceError(f"{path} is not a history of labelspace: {error!r}") from None
    return dict(kept)
