"""`labelspace compare`: methods and peers side by side on one data set."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from labelspace.cli import options
from labelspace.cli.output import Figure, print_json, print_table, say
from labelspace.cli.signals import exit_code, stopped_by, termination_as_interrupt
from labelspace.errors import DataError, LabelspaceError, ParameterError


@options.with_columns
def compare(
    columns: options.ColumnOptions,
    train: Annotated[Path, typer.Option("--train", help="Training data, or a folder of both.")],
    test: Annotated[Path | None, typer.Option("--test", help="Test data.")] = None,
    methods: Annotated[str, typer.Option(help="Names from `labelspace methods`.")] = "fusion,knn",
    peers: Annotated[str, typer.Option(help="Of omikuji, omikuji-bonsai, napkinxc.")] = "",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="METHOD.NAME=VALUE", help="A parameter; repeatable."),
    ] = None,
    features: options.Features = None,
    repeat: Annotated[
        int, typer.Option(min=1, help="Number of runs per entrant, with seeds 0, 1, ...")
    ] = 1,
    propensity: options.Propensity = "0.55,1.5",
    propensity_from: options.PropensityFrom = "train",
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the report here; - prints it.")
    ] = None,
    html_file: Annotated[Path | None, typer.Option("--html", help="Write a page here.")] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            "--state", help="File for finished runs; by default beside the report, as REPORT.state."
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a comparison that was stopped.")
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Drop a comparison that was stopped.")
    ] = False,
) -> None:
    """Train and test each entrant in a process of its own, on the same features.

    Reports accuracy, training time, time per example in a batch and alone, model size and memory.
    An entrant that fails is reported beside the others. With a file for the report, finished runs
    are kept when the comparison is stopped; the same command with --resume runs the others.

    Example: labelspace compare --train train.txt --test test.txt --methods knn --peers omikuji
    """
    from labelspace.comparison import compare as comparison
    from labelspace.comparison.finished_runs import check_state
    from labelspace.data import read_split

    if propensity_from not in ("train", "test"):
        raise ParameterError(f"--propensity-from {propensity_from}: expected train or test")
    constants = options.propensity_constants(propensity)
    chosen = comparison.entrants(
        options.names(methods), options.names(peers), options.settings(set_)
    )
    if not chosen:
        raise ParameterError("there is nothing to compare: give --methods or --peers")
    printed = json_file is not None and str(json_file) == "-"
    json_file = None if printed else json_file
    kept = state or _beside(json_file or html_file)
    for target in (json_file, html_file, kept):
        _check_target(target)
    if kept is None and resume:
        raise ParameterError("--resume needs the report's --json FILE, or --state FILE")
    if kept is not None:
        if restart:
            kept.unlink(missing_ok=True)
        check_state(kept, resume)
        if resume and not kept.exists():
            say(f"there is no unfinished comparison in {kept}: starting from the beginning")
    done: list[dict[str, Any]] = []
    with termination_as_interrupt():
        try:
            train_data, test_data = read_split(train, test, columns=columns.over())
            report = comparison.compare(
                train_data,
                test_data,
                chosen,
                features=features,
                repeat=repeat,
                propensity=constants,
                propensity_from=propensity_from,  # type: ignore[arg-type]  # checked above
                on_start=lambda name, seed: say(f"  {name}, seed {seed}: started"),
                on_result=lambda result: _report_one(result, done),
                state=kept,
                resume=resume,
            )
        except KeyboardInterrupt as stop:
            say(f"error: {stopped_by(stop)}; {_what_is_kept(kept, done)}")
            raise SystemExit(exit_code(stop)) from None
        report["data"] = {"name": data_set_name(train), **report["data"]}
        try:
            _write(report, json_file, html_file)
        finally:  # also where the disk is full
            print_json(report) if printed else _print_report(report)
        if kept is not None:
            kept.unlink(missing_ok=True)
    failed = [result["name"] for result in done if "error" in result]
    if len(failed) == len(done):
        raise LabelspaceError("every entrant failed")
    if failed:
        say(f"warning: {', '.join(failed)} failed; the other figures stand")


def data_set_name(train: Path) -> str:
    """Return the name of a data set: its folder's, or that of a file which is not just train.*."""
    place = train.resolve()
    own = place.name.partition(".")[0]
    return place.name if place.is_dir() else place.parent.name if own == "train" else own


def _check_target(target: Path | None) -> None:
    """Refuse a place that cannot be written, before anything runs."""
    if target is None or (target.exists() and not target.is_file() and not target.is_dir()):
        return  # a device or FIFO is written into
    if target.is_dir():
        raise DataError("this is a directory, expected a file", path=target)
    try:
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror or error}", path=target) from None


def _beside(report: Path | None) -> Path | None:
    """Return where finished runs are kept; nowhere if the report is no file."""
    if report is None or (report.exists() and not report.is_file()):
        return None
    return report.with_name(report.name + ".state")


def _report_one(result: dict[str, Any], done: list[dict[str, Any]]) -> None:
    done.append(result)
    if "error" in result:
        say(f"  {result['name']} failed: {result['error']}")
    else:
        say(f"  {result['name']}: P@1 {result['P@1']:.2f}, trained in {result['train_s']:.1f} s")


def _what_is_kept(kept: Path | None, done: list[dict[str, Any]]) -> str:
    """Say what becomes of the finished runs; print those that no file keeps."""
    if kept is not None and kept.exists():
        return f"finished runs are kept in {kept}: repeat the command with --resume to go on"
    finished = [result for result in done if "error" not in result]
    if not finished:
        return "no run was finished"
    _print_tables(finished)
    return "the entrants that were finished are above; --json FILE would have kept them"


def _write(report: dict[str, Any], json_file: Path | None, html_file: Path | None) -> None:
    from labelspace._core.streams import replacing
    from labelspace.comparison.report import comparison_page

    if json_file is not None:
        with replacing(json_file) as file:
            file.write(json.dumps(report, indent=2).encode())
    if html_file is not None:
        with replacing(html_file) as file:
            file.write(comparison_page(report, title=report["data"]["name"]).encode())


def _print_report(report: dict[str, Any]) -> None:
    from labelspace.comparison.report import runs_sentence

    _print_tables([each for each in report["entrants"] if "error" not in each])
    failed = [(each["name"], each["error"]) for each in report["entrants"] if "error" in each]
    if failed:
        print_table(("failed", "why"), failed)
    typer.echo(runs_sentence(report))


def _print_tables(entrants: list[dict[str, Any]]) -> None:
    """Print accuracy and cost; with deviations, figures are long and tables have fewer columns."""
    from labelspace.comparison.report import ACCURACY, three_digits, with_deviation

    if not entrants:
        return
    families = [ACCURACY["P"], ACCURACY["nDCG"], [*ACCURACY["PSP"], "ECE"]]
    if not any("std" in each for each in entrants):
        families = [families[0] + families[1], families[2]]
    for keys in families:
        rows = [(e["name"], *(Figure(with_deviation(e, key)) for key in keys)) for e in entrants]
        print_table(("percent", *keys), rows)
    costs = {
        "train s": "train_s",
        "batch ms": "batch_ms",
        "one ms p50": "one_ms_p50",
        "one ms p99": "one_ms_p99",
        "model MB": "model_mb",
        "peak MB": "peak_mb",
    }
    rows = [
        (e["name"], *(Figure(three_digits(e[key])) for key in costs.values())) for e in entrants
    ]
    print_table(("cost", *costs), rows)
