"""The report of a comparison as files: JSON, and an HTML page without scripts or links."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from html import escape
from math import floor, log10
from pathlib import Path
from typing import Any

from labelspace._core.streams import replacing
from labelspace.comparison.peers import WITHOUT_SEED
from labelspace.errors import DataError

_STYLE = """
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem;
       color: #1c2330; background: #fff; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.scroll { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .6rem; text-align: right; border-bottom: 1px solid #e3e6ec;
         white-space: nowrap; }
th:first-child, td:first-child, td.text { text-align: left; }
td.text { white-space: normal; min-width: 14rem; }
.bars { display: grid; grid-template-columns: minmax(0, max-content) minmax(4rem, 1fr) max-content;
        gap: .3rem .6rem; max-width: 44rem; font-variant-numeric: tabular-nums; }
.bar i { display: block; height: 1.1em; margin-top: .2em; border-radius: 2px; background: #3a6ea5; }
td.best { font-weight: 700; background: #eaf4ea; }
.peer { color: #68707f; } .bar.peer i { background: #b8bfca; }
p.note { color: #68707f; }
@media (prefers-color-scheme: dark) {
  body { color: #e4e7ec; background: #14171d; } th, td { border-color: #2b303a; }
  td.best { background: #1e3324; } .bar i { background: #6fa3d8; }
  .bar.peer i { background: #4a5160; }
}
"""
# At 1, nDCG is P and PSnDCG is PSP.
_CUTS = {"P": (1, 3, 5), "nDCG": (3, 5), "PSP": (1, 3, 5), "PSnDCG": (3, 5)}
ACCURACY = {name: [f"{name}@{k}" for k in ks] for name, ks in _CUTS.items()}
COST_NAMES = {
    "train_s": "training, s",
    "batch_ms": "per example in a batch, ms",
    "one_ms_p50": "one alone, median, ms",
    "one_ms_p99": "one alone, 99 %, ms",
    "model_mb": "model, MB",
    "peak_mb": "peak memory, MB",
}
BANDS = ("head", "torso", "tail")
BAND_METRICS = ("P@1", "recall@5", "nDCG@5", "coverage@5")

_Entrants = Sequence[Mapping[str, Any]]


def check_report_file(target: Path | None) -> None:
    """Raise DataError if the file cannot be written, before anything is run."""
    if target is None or (target.exists() and not target.is_file() and not target.is_dir()):
        return  # a device or FIFO is written into
    if target.is_dir():
        raise DataError("this is a directory, expected a file", path=target)
    try:
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror or error}", path=target) from None


def write_report(
    report: Mapping[str, Any], json_file: Path | None, html_file: Path | None = None
) -> None:
    """Write the report of `compare` to files.

    Parameters
    ----------
    report : mapping
        What `compare` returned.
    json_file, html_file : Path or None
        The files to write, as JSON and as a page; None writes none.
    """
    if json_file is not None:
        with replacing(json_file) as file:
            file.write(json.dumps(report, indent=2).encode())
    if html_file is not None:
        title = report["data"].get("name", "comparison")
        with replacing(html_file) as file:
            file.write(comparison_page(report, title=title).encode())


def comparison_page(report: Mapping[str, Any], title: str) -> str:
    """Return the report of `compare` as an HTML page.

    Parameters
    ----------
    report : mapping
        What `compare` returned.
    title : str
        The title of the page.

    Returns
    -------
    str
        The page, which needs no other file.
    """
    entrants = [each for each in report["entrants"] if "error" not in each]
    parts = [
        f"<p>{_data_sentence(report['data'])}</p>",
        f"<p>{_runs_sentence(report)}</p>",
        _failures(report["entrants"]),
    ]
    if entrants:
        parts += [
            f"<h2>P@1, in percent</h2>{_bars(entrants, 'P@1')}",
            f"<h2>Accuracy, in percent</h2>{_accuracy(entrants)}",
            _propensity_note(report),
            _bands(entrants, report["data"]),
            f"<h2>Cost</h2>{_costs(entrants)}",
        ]
    parts += [f"<h2>Parameters</h2>{_parameters(report['entrants'])}", _machine_note(report)]
    body = "\n".join(part for part in parts if part)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>
<body>
<h1>{escape(title)}</h1>
{body}
</body></html>
"""


def three_digits(value: float) -> str:
    """Return a number with three significant digits, without an exponent: 0.0123, 1.20, 12,346."""
    if value != 0 and abs(value) < 0.001:
        return "<0.001" if value > 0 else f"{value:.3f}"
    digits = 2 if value == 0 else 2 - floor(log10(abs(value)))
    return f"{value:,.{max(0, digits)}f}"


def percent(value: float | None) -> str:
    """Return a figure in percent with two decimals, nothing for None."""
    return "" if value is None else f"{value:.2f}"


def with_deviation(
    entrant: Mapping[str, Any], key: str, form: Callable[[Any], str] = percent
) -> str:
    """Return a figure of a system, with its standard deviation over several runs."""
    shown, deviation = form(entrant.get(key)), entrant.get("std", {}).get(key)
    return shown if deviation is None else f"{shown} ± {form(deviation)}"


def runs_sentence(report: Mapping[str, Any]) -> str:
    """Return a sentence on the runs that the figures come from."""
    seeds = report["settings"]["seeds"]
    if len(seeds) == 1:
        return f"One run per system, seed {seeds[0]}."
    return (
        f"Mean ± sample standard deviation (n - 1) over {len(seeds)} runs per system, "
        f"seeds {', '.join(map(str, seeds))}."
    )


def _runs_sentence(report: Mapping[str, Any]) -> str:
    names = [each["name"] for each in report["entrants"] if each["name"] in WITHOUT_SEED]
    also = f" {escape(' and '.join(names))} take no seed: their figures differ from run to run."
    if len(names) == 1:
        also = f" {escape(names[0])} takes no seed: its figures differ from run to run."
    return f"{escape(runs_sentence(report))}{also if names else ''}"


def _data_sentence(data: Mapping[str, Any]) -> str:
    features = "" if data["features"] is None else f"{data['features']:,} features, "
    bands = ", ".join(f"{data[f'{band}_labels']:,} {band}" for band in BANDS)
    return (
        f"{data['points']:,} training and {data['test_points']:,} test examples, {features}"
        f"{data['labels']:,} labels ({bands}); {data['labels_per_point']:.2f} labels per training "
        f"example, {data['points_per_label']:.2f} training examples per label."
    )


def _failures(entrants: _Entrants) -> str:
    failed = [each for each in entrants if "error" in each]
    if not failed:
        return ""
    rows = "".join(
        f"<tr><td>{escape(each['name'])}</td><td class=text>{escape(each['error'])}</td></tr>"
        for each in failed
    )
    return f"<h2>Failed</h2>{_scrolled(rows)}"


def _scrolled(rows: str) -> str:
    return f'<div class="scroll"><table>{rows}</table></div>'


def _accuracy(entrants: _Entrants) -> str:
    keys = [key for family in ACCURACY.values() for key in family]
    return _table(entrants, {key: key for key in keys}, percent, best=max)


def _costs(entrants: _Entrants) -> str:
    return _table(entrants, COST_NAMES, three_digits, best=min)


def _propensity_note(report: Mapping[str, Any]) -> str:
    settings = report["settings"]
    a, b = settings["propensity"]
    counted = "training" if settings["propensity_from"] == "train" else "test"
    return (
        '<p class="note">P@k: share of the first k labels that are true. nDCG@k: the same, with '
        "more weight on the first places. PSP@k and PSnDCG@k: propensity-scored precision and "
        "nDCG, in which a true label counts the more the rarer it is, since rare labels are more "
        f"often missing from the data (A = {a:g}, B = {b:g}, counted in the {counted} labels; in "
        "percent of the best possible ranking).</p>"
    )


def _bands(entrants: _Entrants, data: Mapping[str, Any]) -> str:
    """Return tables of frequent and rare labels; nothing where no system has such figures."""
    names = [band for band in BANDS if any(band in each.get("bands", {}) for each in entrants)]
    if not names:
        return ""
    tables = []
    for band in names:
        rows = [
            {
                "name": each["name"],
                "kind": each["kind"],
                **each.get("bands", {}).get(band, {}),
                "std": each.get("std", {}).get("bands", {}).get(band, {}),
            }
            for each in entrants
        ]
        table = _table(rows, {key: key for key in BAND_METRICS}, percent, best=max)
        tables.append(f"<h3>{band}: {data[f'{band}_labels']:,} labels</h3>{table}")
    return (
        "<h2>Frequent and rare labels, in percent</h2>"
        '<p class="note">The head labels hold half of all training assignments, the torso labels '
        "the next 35 %, the tail labels the rest. Each table counts the labels of one band alone, "
        f"at their places in the full ranking.</p>{''.join(tables)}"
    )


def _parameters(entrants: _Entrants) -> str:
    rows = "".join(
        f'<tr class="{escape(each["kind"])}"><td>{escape(each["name"])}</td>'
        f"<td class=text>{escape(_settings(each['params']))}</td></tr>"
        for each in entrants
    )
    return _scrolled(rows)


def _settings(params: Mapping[str, Any]) -> str:
    shown = {
        name: "none" if value is None else str(value).lower() if isinstance(value, bool) else value
        for name, value in params.items()
    }
    return ", ".join(f"{name}={value}" for name, value in shown.items())


def _machine_note(report: Mapping[str, Any]) -> str:
    machine = report["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    features = report["settings"]["features"]
    how = "the same features" if features is None else f"features {features}"
    peers = any(each["kind"] == "peer" for each in report["entrants"])
    return (
        f'<p class="note">{escape(report["date"][:16].replace("T", " "))} UTC; '
        f"{machine['cores']} cores ({escape(machine['processor'])}), {machine['memory_gb']} GB, "
        f"Python {escape(machine['python'])}; {escape(versions)}. Each system ran in its own "
        f"process, on {escape(how)}{'; peers are grey' if peers else ''}.</p>"
    )


def _table(
    entrants: _Entrants, heads: Mapping[str, str], form: Callable[[Any], str], *, best: Any
) -> str:
    leaders = {
        key: best((e[key] for e in entrants if e.get(key) is not None), default=None)
        for key in heads
    }
    head = "".join(f"<th>{escape(name)}</th>" for name in heads.values())
    rows = []
    for e in entrants:
        cells = "".join(
            f"<td{' class=best' if _leads(e.get(key), leaders[key]) else ''}>"
            f"{escape(with_deviation(e, key, form))}</td>"
            for key in heads
        )
        rows.append(f'<tr class="{escape(e["kind"])}"><td>{escape(e["name"])}</td>{cells}</tr>')
    return _scrolled(f"<tr><th></th>{head}</tr>{''.join(rows)}")


def _leads(value: float | None, leader: float | None) -> bool:
    return value is not None and value == leader


def _bars(entrants: _Entrants, key: str) -> str:
    bars = "".join(
        f'<span>{escape(e["name"])}</span><div class="bar {escape(e["kind"])}">'
        f'<i style="width:{min(max(e[key], 0.0), 100.0):.1f}%"></i></div>'
        f"<span>{escape(with_deviation(e, key))}</span>"
        for e in entrants
    )
    return f'<div class="bars">{bars}</div>'
