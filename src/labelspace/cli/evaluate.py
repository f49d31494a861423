"""`labelspace evaluate`: metrics of a model on test data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from labelspace.cli import options
from labelspace.cli.output import print_json, print_message, print_table, progress_bar
from labelspace.cli.signals import termination_as_interrupt
from labelspace.errors import ParameterError


@options.with_columns
def evaluate(
    columns: options.ColumnOptions,
    model: options.Model,
    data: Annotated[Path, typer.Argument(help="Test data with labels.")],
    cutoffs: Annotated[
        str, typer.Option(metavar="NUMBERS", help="Values of k for P@k and the other metrics.")
    ] = "1,3,5",
    k: Annotated[str | None, typer.Option("--k", hidden=True)] = None,
    propensity: options.Propensity = "0.55,1.5",
    propensity_from: options.PropensityFrom = "train",
    threshold: Annotated[
        str | None,
        typer.Option(
            help="Also report F1 of labels with at least this score; auto uses the model's own."
        ),
    ] = None,
    levels: Annotated[
        bool, typer.Option("--levels", help="Also report each level of the taxonomy.")
    ] = False,
    save: Annotated[
        bool, typer.Option("--save", help="Also write the figures to the model's card.")
    ] = False,
    engine: options.Engine = "local",
    address: options.Address = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure a model on test data.

    Reports precision, nDCG, recall, PSP and coverage at k, for all labels and for frequent and rare
    ones.

    The expected calibration error (ECE) is the mean difference between scores and the share of
    labels that are true; `labelspace plot reliability` draws it.

    --levels adds, for every level: precision, recall, F1 and accuracy of the predicted labels, the
    same for labels with at most 25 training examples, and figures of examples without a label (NA).

    --save adds the figures, with the name of the file and the date, to those that `labelspace info`
    and the page of `labelspace serve` show.

    The columns of a table default to those of the training data, which the model has saved. A
    warning reports the share of labels that are not in the model.

    --engine ray ranks labels on the nodes of a Ray cluster; the figures are the same.

    Example: labelspace evaluate model/ test.jsonl.gz --json

    Example: labelspace evaluate model/ test.parquet --levels

    Example: labelspace evaluate model/ test.parquet --save
    """
    from labelspace.engine import engine_of
    from labelspace.model.tagger import load

    ks = _cut_offs(cutoffs if k is None else k)
    constants = options.propensity_constants(propensity)
    chosen = None if threshold is None else options.threshold(threshold)
    tagger = load(model)
    with termination_as_interrupt(), engine_of(engine, address), progress_bar():
        found = tagger.evaluate(
            data,
            ks=ks,
            levels=levels,
            threshold=chosen,
            propensity=constants,
            propensity_from=propensity_from,  # type: ignore[arg-type]  # checked by evaluate
            columns=columns.over(tagger.columns_for(data)),
            save_to=model if save else None,
        )
    if save:
        print_message(f"the figures were saved to {model}")
    if as_json:
        print_json(found)
        return
    _print_metrics(found, ks, f"{model} on {data}: {found['examples']:,} examples, in percent")
    if "by_level" in found:
        _print_levels(found["by_level"])


def _cut_offs(text: str) -> list[int]:
    try:
        found = [int(part) for part in options.names(text)]
    except ValueError:
        found = []
    if not found or min(found) < 1:
        raise ParameterError(f"--cutoffs {text}: expected integers of at least 1, such as 1,3,5")
    return found


def _print_metrics(found: dict[str, Any], ks: list[int], title: str) -> None:
    groups = {"all labels": found, **{f"{b} labels": v for b, v in found.get("bands", {}).items()}}
    families = dict.fromkeys(key.partition("@")[0] for key in found if "@" in key)
    rows = [
        (group if place == 0 else "", family, *(values[f"{family}@{k}"] for k in ks))
        for group, values in groups.items()
        for place, family in enumerate(families)
    ]
    print_table(("", "", *(f"@{k}" for k in ks)), rows, title)
    calibration = found["calibration"]
    print_table(
        ("scores of", "expected calibration error"),
        [(f"the first {calibration['k']} labels", _or_dash(calibration["ECE"]))],
    )
    f1 = [(group, v["micro-F1"], v["macro-F1"]) for group, v in groups.items() if "micro-F1" in v]
    if f1:
        print_table(("", "micro-F1", "macro-F1"), f1)


def _or_dash(value: float | None) -> float | str:
    """Return a dash for a share of nothing."""
    return "-" if value is None else value


def _print_levels(found: dict[str, Any]) -> None:
    figures = ("examples", "precision", "recall", "micro-F1", "macro-F1", "accuracy")
    for part, title in (
        (None, f"All labels; predicted: {found['chosen']}"),
        ("tail", "Tail labels: at most 25 training examples"),
        ("head", "Head labels"),
    ):
        rows = []
        for name, level in found["levels"].items():
            values = level if part is None else level[part]
            rows.append((name, *(_or_dash(values[figure]) for figure in figures)))
        print_table(("level", *figures), rows, title)
    empty = [
        (name, *map(_or_dash, level["NA"].values())) for name, level in found["levels"].items()
    ]
    print_table(
        ("level", "without a label", "kept empty", "missed a label"),
        empty,
        "NA: examples without a label on the level, which count as no success above",
    )
    hierarchical = found["hierarchical"]
    print_table(
        ("exact path", *(f"hierarchical {name}" for name in hierarchical)),
        [(_or_dash(found["exact path"]), *map(_or_dash, hierarchical.values()))],
    )
