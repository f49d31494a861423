"""`labelspace compare`: methods and other packages side by side on one data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labelspace._core.plain import plain
from labelspace.cli import options
from labelspace.cli.output import Figure, print_json, print_message, print_table
from labelspace.cli.signals import exit_code, stopped_by, termination_as_interrupt
from labelspace.errors import LabelspaceError, ParameterError

if TYPE_CHECKING:
    from labelspace.data import Dataset


@options.with_columns
def compare(
    context: typer.Context,
    columns: options.ColumnOptions,
    train: Annotated[
        Path, typer.Option("--train", help="Training data, or a folder with train and test data.")
    ],
    test: Annotated[Path | None, typer.Option("--test", help="Test data.")] = None,
    methods: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Methods; `labelspace methods` lists them. NAME:PRESET for a preset of a method, "
            "NAME:no-labels for one that does not read the label texts.",
        ),
    ] = "fusion,knn",
    peers: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Other packages: omikuji, omikuji-one-tree, omikuji-bonsai, napkinxc, pecos and "
            "sklearn-ovr.",
        ),
    ] = "",
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="METHOD.NAME=VALUE",
            help="Set a parameter of a method, named as in --methods; repeatable.",
        ),
    ] = None,
    features: options.Features = None,
    labels: options.Labels = None,
    labels_header: options.LabelsHeader = None,
    labels_separator: options.LabelsSeparator = None,
    repeat: Annotated[
        int, typer.Option(min=1, help="Number of runs per method, with seeds 0, 1, ...")
    ] = 1,
    propensity: options.Propensity = "0.55,1.5",
    propensity_from: options.PropensityFrom = "train",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write the report to, as JSON.")
    ] = None,
    html_file: Annotated[
        Path | None, typer.Option("--html", help="File to write the report to, as a page.")
    ] = None,
    csv_file: Annotated[
        Path | None,
        typer.Option("--csv", help="File to write the figures to, as CSV: one row per method."),
    ] = None,
    latex_file: Annotated[
        Path | None,
        typer.Option("--latex", help="File to write the figures to, as a LaTeX table (booktabs)."),
    ] = None,
    as_json: options.AsJson = False,
    state: Annotated[
        Path | None,
        typer.Option(
            "--state", help="File for finished runs. Default: beside the report, as REPORT.state."
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a comparison that was stopped.")
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Delete a comparison that was stopped.")
    ] = False,
    engine: options.Engine = "local",
    address: options.Address = None,
) -> None:
    """Compare methods and other packages on a data set.

    Each is trained and tested in its own process, on the same features. The report has accuracy,
    training time, time per example in a batch and alone, model size and peak memory; with --repeat,
    means and standard deviations. A paired randomisation test over the test examples shows which
    differences between methods are more than chance. A method that fails does not stop the others.
    Label texts, given by --labels or found beside the data, are read by methods that use them.
    If the report is written to a file, finished runs are kept when the comparison is stopped;
    repeat the command with --resume for the rest.

    --engine ray runs methods and seeds on the nodes of a Ray cluster, one run at a time per node;
    times are those of the nodes, so use nodes of one kind.

    Example: labelspace compare --train train.txt --test test.txt --methods knn --peers omikuji

    Example: labelspace compare --train data/ --methods fusion,fusion:no-labels
    """
    from labelspace.comparison import compare as comparison
    from labelspace.comparison.finished_runs import check_state, state_file
    from labelspace.comparison.report import check_report_file, write_report
    from labelspace.data import read_split
    from labelspace.engine import engine_of

    out, printed = _report_file(out, as_json, context.args)
    if propensity_from not in ("train", "test"):
        raise ParameterError(f"--propensity-from {propensity_from}: expected train or test")
    constants = options.propensity_constants(propensity)
    texts = options.label_texts(labels, labels_header, labels_separator)
    chosen = comparison.entrants(
        options.names(methods), options.names(peers), options.settings(set_)
    )
    if not chosen:
        raise ParameterError("there is nothing to compare: give --methods or --peers")
    files = (out, html_file, csv_file, latex_file)
    kept = state or state_file(next((file for file in files if file is not None), None))
    for target in (*files, kept):
        check_report_file(target)
    if kept is None and resume:
        raise ParameterError("--resume needs the --out FILE of the report, or --state FILE")
    if kept is not None:
        if restart:
            kept.unlink(missing_ok=True)
        check_state(kept, resume)
        if resume and not kept.exists():
            print_message(
                f"there is no unfinished comparison in {kept}: starting from the beginning"
            )
    done: list[dict[str, Any]] = []
    with termination_as_interrupt(), engine_of(engine, address):
        try:
            train_data, test_data = read_split(
                train, test, columns=columns.over(), label_texts=texts
            )
            _say_label_texts(train_data)
            report = comparison.compare(
                train_data,
                test_data,
                chosen,
                name=comparison.data_set_name(train),
                features=features,
                repeat=repeat,
                propensity=constants,
                propensity_from=propensity_from,  # type: ignore[arg-type]  # checked above
                on_start=lambda name, seed: print_message(f"  {name}, seed {seed}: started"),
                on_result=lambda result: _report_one(result, done),
                state=kept,
                resume=resume,
            )
        except KeyboardInterrupt as stop:
            print_message(f"error: {stopped_by(stop)}; {_what_is_kept(kept, done)}")
            raise SystemExit(exit_code(stop)) from None
        try:
            write_report(report, *files)
        finally:  # also where the disk is full
            print_json(report) if printed else _print_report(report)
        if kept is not None:
            kept.unlink(missing_ok=True)
    failed = [result["name"] for result in done if "error" in result]
    if len(failed) == len(done):
        raise LabelspaceError("every method failed")
    if failed:
        print_message(f"warning: {', '.join(failed)} failed; the other figures are not affected")


def _say_label_texts(train: Dataset) -> None:
    """Print where label texts come from: they may have been found beside the data."""
    texts = train.label_texts
    if texts is not None:
        print_message(f"  label texts of {texts.n_named:,} labels: {texts.source or 'given'}")


def _report_file(
    out: Path | None, as_json: bool, others: Sequence[str]
) -> tuple[Path | None, bool]:
    """Return the file of the report, and whether it is printed as JSON.

    `--json FILE` writes to the file, as `--out FILE` does; `--json -` prints, as `--json` does.
    """
    if not others:
        return out, as_json
    if not as_json or len(others) > 1:
        raise ParameterError(f"unexpected argument {others[-1]}: see labelspace compare --help")
    if others[0] == "-":
        return out, True
    if out is not None:
        raise ParameterError(f"--out {out} and --json {others[0]}: give one file for the report")
    return Path(others[0]), False


def _report_one(result: dict[str, Any], done: list[dict[str, Any]]) -> None:
    done.append(result)
    if "error" in result:
        print_message(f"  {result['name']} failed: {result['error']}")
    else:
        print_message(
            f"  {result['name']}: P@1 {result['P@1']:.2f}, trained in {result['train_s']:.1f} s"
        )


def _what_is_kept(kept: Path | None, done: list[dict[str, Any]]) -> str:
    """Return a sentence on what is kept of finished runs; print those that no file keeps."""
    if kept is not None and kept.exists():
        return f"finished runs are kept in {kept}: repeat the command with --resume to continue"
    finished = [result for result in done if "error" not in result]
    if not finished:
        return "no run was finished"
    _print_tables(finished)
    return "finished runs are printed above; with --out FILE they would be kept"


def _print_report(report: dict[str, Any]) -> None:
    from labelspace.comparison.figures import (
        label_texts_sentence,
        runs_sentence,
        without_failures,
    )

    _print_tables(without_failures(report))
    _print_differences(report)
    failed = [(each["name"], each["error"]) for each in report["entrants"] if "error" in each]
    if failed:
        print_table(("failed", "error"), failed)
    typer.echo(plain(f"{runs_sentence(report)} {label_texts_sentence(report)}".strip()))


def _print_tables(entrants: Sequence[Mapping[str, Any]]) -> None:
    """Print accuracy and cost; with deviations, figures are long and tables have fewer columns."""
    from labelspace.comparison.figures import ACCURACY, COST_HEADS, three_digits, with_deviation

    if not entrants:
        return
    families = [ACCURACY["P"], ACCURACY["nDCG"], [*ACCURACY["PSP"], "ECE"]]
    if not any("std" in each for each in entrants):
        families = [families[0] + families[1], families[2]]
    for keys in families:
        rows = [(e["name"], *(Figure(with_deviation(e, key)) for key in keys)) for e in entrants]
        print_table(("percent", *keys), rows)
    rows = [
        (e["name"], *(Figure(with_deviation(e, key, three_digits)) for key in COST_HEADS))
        for e in entrants
    ]
    print_table(("cost", *COST_HEADS.values()), rows)


def _print_differences(report: Mapping[str, Any]) -> None:
    """Print what the tests of pairs found, for some metrics; the files have all of them."""
    from labelspace.comparison.figures import difference, significance_sentence

    if "significance" not in report:
        return
    shown = ("P@1", "P@5", "nDCG@5")
    rows = [
        (" - ".join(pair["names"]), *(Figure(difference(pair[metric])) for metric in shown))
        for pair in report["significance"]["pairs"]
    ]
    print_table(("difference", *shown), rows)
    typer.echo(plain(significance_sentence(report)))
