"""`labelspace plot`: pictures of how a model was trained and of what its scores are worth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from labelspace.cli import options
from labelspace.cli.output import say
from labelspace.errors import LabelspaceError, ParameterError

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

    The model must have been trained with `--history`. Members of fusion that are trained in epochs
    are drawn each on its own.

    Example: labelspace plot history model/ --out history.png
    """
    _check_ending(out)
    from labelspace._core.streams import replacing
    from labelspace.plots.curves import curves_page, curves_picture, runs_of

    kept = read_history(model)
    title = f"{model.resolve().name}: {kept['method']}"
    if out.suffix == ".png":
        content = curves_picture(kept, title, "png")
    else:
        content = curves_page(kept, title)
    with replacing(out) as file:
        file.write(content)
    counts = [f"{name} {len(epochs)} epochs".strip() for name, _, epochs in runs_of(kept)]
    say(f"{out}: {', '.join(counts)}")


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
    from labelspace._core.streams import replacing
    from labelspace.metrics import reliability as scores
    from labelspace.model.tagger import load
    from labelspace.plots.reliability import reliability_page, reliability_picture

    tagger = load(model)
    test = tagger.read_test(data, columns.over(tagger.columns_for(data)))
    found = scores.reliability(tagger.predict(test, top), test.labels, bins=bins)
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
    """What `train --history` has kept with the model: see `labelspace.runs.history.curves_of`."""
    from labelspace.model import store

    if not (model / store.HEADER).exists():
        raise LabelspaceError(f"there is no model in {model}: give the folder that train wrote")
    kept = store.load(model).documents.get("history")
    if kept is None:
        raise LabelspaceError(
            f"{model} keeps no history: train it with --history, by a method trained in epochs"
        )
    if not _is_history(kept):
        raise LabelspaceError(f"the history of {model} (history.json) is not one of labelspace")
    return dict(kept)


def _is_history(kept: Any, depth: int = 3) -> bool:
    """Whether a JSON value is the history of a method, or of its members."""
    if not isinstance(kept, dict) or not isinstance(kept.get("method"), str) or not depth:
        return False
    if "members" in kept:
        members = kept["members"]
        some = isinstance(members, list) and len(members) > 0
        return some and all(_is_history(member, depth - 1) for member in members)
    epochs = kept.get("epochs")
    return (
        isinstance(epochs, list)
        and len(epochs) > 0
        and all(isinstance(entry, dict) and "epoch" in entry for entry in epochs)
        and all(type(figure) in (int, float) for entry in epochs for figure in entry.values())
    )
