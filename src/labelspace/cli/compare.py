"""`labelspace compare`: methods and peers side by side on one data set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from labelspace.cli import options
from labelspace.cli.output import print_json, print_table, say
from labelspace.errors import ParameterError


@options.with_columns
def compare(
    columns: options.ColumnOptions,
    train: Annotated[Path, typer.Option("--train", help="Training data, or a folder of both.")],
    test: Annotated[Path | None, typer.Option("--test", help="Test data.")] = None,
    methods: Annotated[
        str, typer.Option(help="Names from `labelspace methods`.")
    ] = "most-common,knn",
    peers: Annotated[str, typer.Option(help="Of omikuji, omikuji-bonsai, napkinxc.")] = "",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="METHOD.NAME=VALUE", help="A parameter; repeatable."),
    ] = None,
    features: options.Features = None,
    repeat: Annotated[int, typer.Option(min=1, help="Runs an entrant, seeds 0, 1, ...")] = 1,
    propensity: options.Propensity = "0.55,1.5",
    propensity_from: options.PropensityFrom = "train",
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the report here; - prints it.")
    ] = None,
    html_file: Annotated[Path | None, typer.Option("--html", help="Write a page here.")] = None,
) -> None:
    """Train and test each entrant in a process of its own, on the same features.

    Reports accuracy, training time, time per example in a batch and alone, model size and memory.

    Example: labelspace compare --train train.txt --test test.txt --methods knn --peers omikuji
    """
    from labelspace.data import read_split
    from labelspace.evaluation import compare as comparison
    from labelspace.evaluation.report import comparison_page

    if propensity_from not in ("train", "test"):
        raise ParameterError(f"--propensity-from {propensity_from}: expected train or test")
    chosen = comparison.entrants(
        options.names(methods), options.names(peers), options.settings(set_)
    )
    train_data, test_data = read_split(train, test, columns=columns.over())
    report = comparison.compare(
        train_data,
        test_data,
        chosen,
        features=features,
        repeat=repeat,
        propensity=options.propensity_constants(propensity),
        propensity_from=propensity_from,  # type: ignore[arg-type]  # checked above
        on_result=_say_result,
    )
    if html_file is not None:
        html_file.write_text(comparison_page(report, title=str(train)), encoding="utf-8")
    if json_file is not None and str(json_file) == "-":
        print_json(report)
        return
    if json_file is not None:
        json_file.write_text(json.dumps(report, indent=2), encoding="utf-8")
    _print_report(report)


def _say_result(result: dict[str, Any]) -> None:
    say(f"  {result['name']}: P@1 {result['P@1']:.2f}, trained in {result['train_s']:.1f} s")


def _print_report(report: dict[str, Any]) -> None:
    entrants = report["entrants"]
    accuracy = [f"{name}@{k}" for name in ("P", "nDCG", "PSP") for k in (1, 3, 5)]
    print_table(("", *accuracy), [(e["name"], *(e[key] for key in accuracy)) for e in entrants])
    costs = {
        "train s": "train_s",
        "batch ms": "batch_ms",
        "one ms p50": "one_ms_p50",
        "one ms p99": "one_ms_p99",
        "model MB": "model_mb",
        "peak MB": "peak_mb",
    }
    rows = [
        (e["name"], *(f"{e[key]:.3g}" for key in costs.values()), _error_of(e)) for e in entrants
    ]
    print_table(("", *costs, "ECE %"), rows)


def _error_of(entrant: dict[str, Any]) -> str:
    """The expected calibration error of the scores; those of peers promise none."""
    return f"{entrant['ECE']:.2f}" if "ECE" in entrant else ""
