"""`labelspace evaluate`: how good a model is on data it has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labelspace.cli import options
from labelspace.cli.output import print_json, print_table
from labelspace.errors import ParameterError

if TYPE_CHECKING:
    from labelspace.data.dataset import Dataset
    from labelspace.tagger import Tagger


@options.with_columns
def evaluate(
    columns: options.ColumnOptions,
    model: options.Model,
    data: Annotated[Path, typer.Argument(help="Test data with labels.")],
    k: Annotated[str, typer.Option(help="Cut-offs.")] = "1,3,5",
    propensity: options.Propensity = "0.55,1.5",
    propensity_from: options.PropensityFrom = "train",
    threshold: Annotated[
        str | None,
        typer.Option(help="Also F1 of labels scored at least this; auto is the model's own."),
    ] = None,
    levels: Annotated[
        bool, typer.Option("--levels", help="Also level by level of the taxonomy.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Precision, nDCG, recall, PSP and coverage at k, for all labels and by frequency.

    The expected calibration error (ECE) says how far scores are from the share of labels that are
    true; `labelspace plot reliability` shows where.

    --levels adds, for every level: precision, recall, F1 and accuracy of the labels given, the
    same for labels of at most 25 training examples, and how often there was none to give (NA).

    Example: labelspace evaluate model/ test.jsonl.gz --json

    Example: labelspace evaluate model/ test.parquet --path L0,L1,L2 --label brand --levels
    """
    from labelspace.evaluation import metrics
    from labelspace.evaluation.reliability import reliability
    from labelspace.evaluation.thresholds import RANKED
    from labelspace.tagger import load

    ks = _cut_offs(k)
    chosen = None if threshold is None else options.threshold(threshold)
    tagger = load(model)
    least = None if chosen is None else tagger.least_score(chosen)
    test = tagger.read(data, columns.over())
    # A set may be larger than the cut-offs: with a threshold, as many are ranked as `predict` does.
    ranking = tagger.predict(test, max(ks) if least is None else max(*ks, RANKED))
    found = metrics.evaluate(
        ranking,
        test.labels,
        tagger.label_counts,
        ks=ks,
        propensity=options.propensity_constants(propensity),
        propensity_from=propensity_from,  # type: ignore[arg-type]  # checked by evaluate
        threshold=least,
    )
    calibration = reliability(ranking, test.labels, k=max(ks))
    found["calibration"] = {"k": max(ks), **calibration.facts()}
    by_level = _level_metrics(tagger, test, least) if levels else None
    if as_json:
        print_json(found if by_level is None else {**found, "by_level": by_level})
        return
    _print_metrics(found, ks, f"{model} on {data}: {len(test):,} examples, in percent")
    if by_level is not None:
        _print_levels(by_level)


def _level_metrics(tagger: Tagger, test: Dataset, threshold: float | None) -> dict[str, Any]:
    """A threshold, if given, decides on every set; else paths are chosen where there are any."""
    from labelspace.data.levels import Levels
    from labelspace.data.taxonomy import joined
    from labelspace.evaluation.levels import RANKED, THRESHOLD, evaluate_levels

    taxonomy = joined([tagger.taxonomy, test.taxonomy], test.names())
    if taxonomy is None or tagger.label_counts is None:
        raise ParameterError(
            "--levels needs a taxonomy: --path columns, or hierarchy.tsv beside the data"
        )
    return evaluate_levels(
        tagger.predict(test, RANKED),
        test.labels,
        tagger.label_counts.counts,
        Levels.build(taxonomy, test.names()),
        single_path=threshold is None and bool(tagger.facts.get("single_path")),
        threshold=THRESHOLD if threshold is None else threshold,
    )


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
    calibration = found["calibration"]
    print_table(
        ("scores of", "expected calibration error"),
        [(f"the first {calibration['k']} labels", calibration["ECE"])],
    )
    f1 = [(group, v["micro-F1"], v["macro-F1"]) for group, v in groups.items() if "micro-F1" in v]
    if f1:
        print_table(("", "micro-F1", "macro-F1"), f1)


def _print_levels(found: dict[str, Any]) -> None:
    figures = ("examples", "precision", "recall", "micro-F1", "macro-F1", "accuracy")
    for part, title in (
        (None, f"All labels; given: {found['chosen']}"),
        ("tail", "Tail labels: at most 25 training examples"),
        ("head", "Head labels"),
    ):
        rows = []
        for name, level in found["levels"].items():
            values = level if part is None else level[part]
            rows.append((name, *(values[figure] for figure in figures)))
        print_table(("level", *figures), rows, title)
    empty = [(name, *level["NA"].values()) for name, level in found["levels"].items()]
    print_table(
        ("level", "without a label", "kept empty", "missed a label"),
        empty,
        "NA: no label on the level; never a success above",
    )
    hierarchical = found["hierarchical"]
    print_table(
        ("exact path", *(f"hierarchical {name}" for name in hierarchical)),
        [(found["exact path"], *hierarchical.values())],
    )
