"""The report of an experiment: results.json, report.md and a picture in the output folder."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labelspace._core.plain import plain
from labelspace._core.streams import replacing
from labelspace._version import __version__
from labelspace.comparison.compare import machine
from labelspace.errors import MissingExtraError
from labelspace.methods.parameters import written
from labelspace.reproductions.results import Results, Row, is_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOTS_PER_INCH = 130


def write_report(results: Results, out: str | Path) -> list[Path]:
    """Write results.json, report.md and NAME.png; return the files.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed; the other files are written then.
    """
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"results.json": as_json(results), "report.md": as_markdown(results)}
    for name, text in texts.items():
        with replacing(folder / name) as file:
            file.write(text.encode())
    picture = folder / f"{results.experiment.name}.png"
    figure = _figure(results)
    with replacing(picture) as file:
        figure.savefig(file, format="png", dpi=DOTS_PER_INCH)
    return [*(folder / name for name in texts), picture]


def as_json(results: Results) -> str:
    """Return all results as JSON."""
    experiment = results.experiment
    document = {
        "experiment": experiment.name,
        "title": experiment.title,
        "source": experiment.source,
        "notes": experiment.notes,
        "quick": results.quick,
        "generated in place of": results.replaced,
        "labelspace": __version__,
        "machine": machine(),
        "rows": [_row(row) for row in results.rows],
        "paper": [dict(each) for each in results.unmatched()],
    }
    return json.dumps(document, indent=1) + "\n"


def _row(row: Row) -> dict[str, Any]:
    names = [name for name, value in row.runs[0].items() if is_number(value)] if row.runs else []
    return {
        **asdict(row),
        "mean": {name: row.mean(name) for name in names},
        "standard_error": {name: row.error(name) for name in names} if len(row.runs) > 1 else {},
    }


def as_markdown(results: Results) -> str:
    """Return the table of an experiment, with the paper's figures beside ours."""
    experiment = results.experiment
    parts = [f"# {experiment.name}: {experiment.title}", f"Source: {experiment.source}."]
    if results.quick:
        parts.append(
            "This is the quick form: small samples, one seed. It only shows the direction."
        )
    if results.replaced:
        names = ", ".join(results.replaced)
        parts.append(f"Generated data stand in place of {names}: not comparable with the paper.")
    parts.append(markdown_table(*table(results)))
    parts.append(_seeds_sentence(results.rows))
    quoted = results.unmatched()
    if quoted:
        columns = list(dict.fromkeys(name for each in quoted for name in each))
        rows = [[_cell(each.get(name)) for name in columns] for each in quoted]
        parts += ["Quoted from the paper, not measured here:", markdown_table(columns, rows)]
    if any(row.tried for row in results.rows):
        parts += ["Settings compared on held-out training examples:", _tried(results)]
    if experiment.notes:
        parts.append(experiment.notes)
    return "\n\n".join(parts) + "\n"


def table(results: Results) -> tuple[list[str], list[list[str]]]:
    """Return the columns and rows of the table: ours, and the paper's where it has some."""
    ours = list(results.experiment.columns)
    quoted = [name for name in ours if any(name in row.paper for row in results.rows)]
    chosen = ["chosen"] if any(row.chosen for row in results.rows) else []
    columns = [*results.key_columns, *ours, *(f"paper {name}" for name in quoted), *chosen]
    rows = [
        [
            *(_cell(row.key.get(name)) for name in results.key_columns),
            *(_measured(row, name) for name in ours),
            *(_cell(row.paper.get(name)) for name in quoted),
            *([_setting(row.chosen)] if chosen else []),
        ]
        for row in results.rows
    ]
    return columns, rows


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(
        "| " + " | ".join(plain(c).replace("|", "\\|") for c in line) + " |" for line in lines
    )


def _measured(row: Row, name: str) -> str:
    mean, error = row.mean(name), row.error(name)
    if math.isnan(mean):
        return "failed" if any("failed" in run for run in row.runs) else ""
    return _digits(mean) if math.isnan(error) else f"{_digits(mean)} ± {_digits(error)}"


def _digits(value: float) -> str:
    return f"{value:.2f}" if abs(value) >= 0.1 or abs(value) < 1e-9 else f"{value:.2g}"


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _setting(setting: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={written(value)}" for name, value in setting.items())


def _seeds_sentence(rows: Sequence[Row]) -> str:
    counts = sorted({len(row.runs) for row in rows})
    if counts == [1]:
        return "One run per row."
    words = " or ".join(map(str, counts))
    return f"Mean and standard error over {words} runs per row, which differ in seed or split."


def _tried(results: Results) -> str:
    """Return the scores of all settings that were compared, one line per row of the table."""
    metric = results.experiment.metric
    columns = [*results.key_columns, f"{metric} on held-out training examples, by setting"]
    rows = [
        [
            *(_cell(row.key.get(name)) for name in results.key_columns),
            "; ".join(
                f"{_setting(setting)}: {'failed' if math.isinf(score) else _digits(score)}"
                for setting, score in row.tried
            ),
        ]
        for row in results.rows
        if row.tried
    ]
    return markdown_table(columns, rows)


def _figure(results: Results) -> Figure:
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            f"a plot needs matplotlib ({error}): pip install 'labelspace[plots]'"
        ) from None
    return results.experiment.plot(results) if results.experiment.plot else dot_plot(results)


def dot_plot(results: Results) -> Figure:
    """Return a picture of the table's first column: a dot per row, beside the paper's figure."""
    from matplotlib.figure import Figure

    name = results.experiment.columns[0]
    labels = [", ".join(f"{value}" for value in row.key.values()) for row in results.rows]
    figure = Figure(figsize=(7.0, 1.2 + 0.26 * len(labels)), layout="constrained")
    axes = figure.add_subplot()
    places = range(len(labels))
    errors = [0.0 if math.isnan(row.error(name)) else row.error(name) for row in results.rows]
    means = [row.mean(name) for row in results.rows]
    axes.errorbar(means, places, xerr=errors, fmt="o", capsize=3, label="measured")
    quoted = [(row.paper[name], y) for y, row in enumerate(results.rows) if name in row.paper]
    if quoted:
        axes.plot(*zip(*quoted, strict=True), "D", mfc="none", color="black", label="paper")
        axes.legend()
    axes.set_yticks(list(places), labels, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel(name)
    axes.grid(alpha=0.3)
    axes.set_title(results.experiment.title, fontsize=10, parse_math=False)
    return figure
