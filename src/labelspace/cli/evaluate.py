"""`labelspace evaluate`: how good a model is on data it has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from labelspace.cli import options
from labelspace.cli.output import print_json, print_table
from labelspace.errors import ParameterError


def evaluate(
    model: options.Model,
    data: Annotated[Path, typer.Argument(help="Test data with labels.")],
    k: Annotated[str, typer.Option(help="Cut-offs.")] = "1,3,5",
    propensity: options.Propensity = "0.55,1.5",
    propensity_from: options.PropensityFrom = "train",
    threshold: Annotated[
        float | None, typer.Option(help="Also F1 of labels scored at least this.")
    ] = None,
    text: options.Text = "",
    label: options.Label = "",
    path: options.PathLevels = "",
    numbers: options.Numbers = "",
    label_separator: options.Separator = None,
    as_json: options.AsJson = False,
) -> None:
    """Precision, nDCG, recall, PSP and coverage at k, for all labels and by frequency.

    Example: labelspace evaluate model/ test.jsonl.gz --json
    """
    from labelspace.data import read
    from labelspace.evaluation import metrics
    from labelspace.tagger import load

    ks = _cut_offs(k)
    tagger = load(model)
    test = read(
        data,
        columns=options.columns(text, label, path, numbers, label_separator),
        label_names=tagger.label_names,
        unknown_labels="extend",
        n_features=tagger.pipeline.n_numeric or None,
        zero_based=tagger.zero_based,
    )
    found = metrics.evaluate(
        tagger.predict(test, max(ks)),
        test.labels,
        tagger.label_counts,
        ks=ks,
        propensity=options.propensity_constants(propensity),
        propensity_from=propensity_from,  # type: ignore[arg-type]  # checked by evaluate
        threshold=threshold,
    )
    if as_json:
        print_json(found)
    else:
        _print_metrics(found, ks, f"{model} on {data}: {len(test):,} examples, in percent")


def _cut_offs(text: str) -> list[int]:
    try:
        return [int(part) for part in options.names(text)]
    except ValueError:
        raise ParameterError(f"--k {text}: expected integers such as 1,3,5") from None


def _print_metrics(found: dict[str, Any], ks: list[int], title: str) -> None:
    groups = {"all labels": found, **{f"{b} labels": v for b, v in found.get("bands", {}).items()}}
    families = dict.fromkeys(key.partition("@")[0] for key in found if "@" in key)
    rows = [
        (group if place == 0 else "", family, *(values[f"{family}@{k}"] for k in ks))
        for group, values in groups.items()
        for place, family in enumerate(families)
    ]
    print_table(("", "", *(f"@{k}" for k in ks)), rows, title)
    f1 = [(group, v["micro-F1"], v["macro-F1"]) for group, v in groups.items() if "micro-F1" in v]
    if f1:
        print_table(("", "micro-F1", "macro-F1"), f1)
