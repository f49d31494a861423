"""The files of a study: trials.csv, report.json, report.txt, and the directory of the model."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from labelspace._core.plain import spreadsheet_text
from labelspace._core.streams import replacing
from labelspace.methods.parameters import written
from labelspace.tuning.study import REPORT, Trial

MODEL, TABLE, TEXT = "model", "trials.csv", "report.txt"


def settings_of(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Return parameters as `--set` takes them; those of members of a fusion one by one."""
    found = {name: written(value) for name, value in parameters.items()}
    for pair in found.pop("member_settings", "").split(";"):
        name, equals, value = pair.strip().partition("=")
        if equals:
            found[name] = value
    return found


def write_trials(folder: Path, trials: Sequence[Trial], metric: str) -> None:
    """Write the trials as CSV, a row each, with a column per parameter."""
    names = list(dict.fromkeys(name for trial in trials for name in trial.parameters))
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["trial", "state", metric, "seconds", "reason", *names])
    for trial in trials:
        score = "" if trial.score is None else f"{trial.score:.4f}"
        own = [
            written(trial.parameters[name]) if name in trial.parameters else "" for name in names
        ]
        reason = spreadsheet_text(trial.reason)
        table.writerow([trial.number, trial.state, score, trial.seconds, reason, *own])
    with replacing(folder / TABLE) as file:
        file.write(text.getvalue().encode())


def write_report(folder: Path, report: Mapping[str, Any]) -> None:
    """Write a report as JSON and as text."""
    with replacing(folder / REPORT) as file:
        file.write((json.dumps(report, indent=2, ensure_ascii=False) + "\n").encode())
    with replacing(folder / TEXT) as file:
        file.write(report_text(report).encode())


def report_text(report: Mapping[str, Any]) -> str:
    """Return a report in lines: figures and parameters of the best trial beside the defaults'."""
    best, defaults = report["best"], report["defaults"]
    counts = ", ".join(f"{count} {state}" for state, count in report["trials"].items())
    cuts = f"{report['cuts']} validation cut" + ("s" if report["cuts"] > 1 else "")
    lines = [f"{report['method']}, tuned for {report['metric']} on {cuts}: {counts}", ""]
    rows: list[tuple[str, ...]] = [("", "defaults", "best", "difference")]
    for name, value in best["figures"].items():
        before = defaults["figures"].get(name)
        known = ("", "") if before is None else (f"{before:.2f}", f"{value - before:+.2f}")
        rows.append((name, known[0], f"{value:.2f}", known[1]))
    lines += _aligned(rows)
    if not best["parameters"]:
        return "\n".join([*lines, "", "No trial was better than the defaults.", ""])
    rows = [("parameter", "default", "best")]
    for name, value in best["parameters"].items():
        rows.append((name, defaults["parameters"][name], value))
    return "\n".join([*lines, "", *_aligned(rows), ""])


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def kept_trial(folder: Path) -> int | None:
    """Return the number of the trial that the model in the folder is of; None if there is none."""
    try:
        number = json.loads((folder / REPORT).read_text(encoding="utf-8"))["best"]["trial"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return number if isinstance(number, int) else None
