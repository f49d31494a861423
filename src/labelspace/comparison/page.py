"""The report of a comparison as an HTML page without scripts or links."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import Any

from labelspace.comparison.figures import (
    ACCURACY,
    Entrants,
    difference,
    flat_figures,
    label_texts_sentence,
    leader,
    percent,
    runs_sentence,
    significance_sentence,
    three_digits,
    with_deviation,
    without_failures,
)
from labelspace.comparison.peers import WITHOUT_SEED
from labelspace.metrics.packed_hits import METRICS as TESTED

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
p.note, td.chance { color: #68707f; }
@media (prefers-color-scheme: dark) {
  body { color: #e4e7ec; background: #14171d; } th, td { border-color: #2b303a; }
  td.best { background: #1e3324; } .bar i { background: #6fa3d8; }
  .bar.peer i { background: #4a5160; }
}
"""
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
LEVEL_METRICS = ("precision", "recall", "micro-F1", "macro-F1", "accuracy")


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
    entrants = without_failures(report)
    parts = [
        f"<p>{_data_sentence(report['data'])}</p>",
        f"<p>{_runs_sentence(report)} {escape(label_texts_sentence(report))}</p>",
        _failures(report["entrants"]),
    ]
    if entrants:
        parts += [
            f"<h2>P@1, in percent</h2>{_bars(entrants, 'P@1')}",
            f"<h2>Accuracy, in percent</h2>{_accuracy(entrants)}",
            _propensity_note(report),
            _significance(report),
            _bands(entrants, report["data"]),
            _levels(entrants),
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


def _failures(entrants: Entrants) -> str:
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


def _accuracy(entrants: Entrants) -> str:
    keys = [key for family in ACCURACY.values() for key in family]
    return _table(entrants, {key: key for key in keys}, percent, best=max)


def _costs(entrants: Entrants) -> str:
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


def _bands(entrants: Entrants, data: Mapping[str, Any]) -> str:
    """Return tables of frequent and rare labels; nothing where no system has such figures."""
    names = [band for band in BANDS if any(band in each.get("bands", {}) for each in entrants)]
    if not names:
        return ""
    tables = []
    for band in names:
        heads = {f"bands.{band}.{key}": key for key in BAND_METRICS}
        table = _table(_flat(entrants), heads, percent, best=max)
        tables.append(f"<h3>{band}: {data[f'{band}_labels']:,} labels</h3>{table}")
    return (
        "<h2>Frequent and rare labels, in percent</h2>"
        '<p class="note">The head labels hold half of all training assignments, the torso labels '
        "the next 35 %, the tail labels the rest. Each table counts the labels of one band alone, "
        f"at their places in the full ranking.</p>{''.join(tables)}"
    )


def _levels(entrants: Entrants) -> str:
    """Return tables of the levels of a taxonomy; nothing without one."""
    found = next((each["by_level"] for each in entrants if "by_level" in each), None)
    if found is None:
        return ""
    rows = _flat(entrants)
    heads = {"by_level.exact path": "exact path"}
    heads |= {
        f"by_level.hierarchical.{key}": f"hierarchical {key}"
        for key in ("precision", "recall", "F1")
    }
    tables = [_table(rows, heads, percent, best=max)]
    for level, figures in found["levels"].items():
        heads = {f"by_level.levels.{level}.{key}": key for key in LEVEL_METRICS}
        table = _table(rows, heads, percent, best=max)
        tables.append(
            f"<h3>{escape(level)}: {figures['labels']:,} labels in {figures['examples']:,} test "
            f"examples</h3>{table}"
        )
    return (
        "<h2>Level by level, in percent</h2>"
        f'<p class="note">Of the predicted labels ({escape(found["chosen"])}).</p>{"".join(tables)}'
    )


def _flat(entrants: Entrants) -> Entrants:
    """Return the systems with figures within figures by names such as "bands.tail.P@1"."""
    return [
        {
            "name": each["name"],
            "kind": each["kind"],
            **flat_figures(each),
            "std": flat_figures(each.get("std", {})),
        }
        for each in entrants
    ]


def _significance(report: Mapping[str, Any]) -> str:
    """Return the table of pairs; differences that may be chance are grey."""
    if "significance" not in report:
        return ""
    tests = report["significance"]
    head = "".join(f"<th>{escape(metric)}</th>" for metric in TESTED)
    rows = "".join(
        f"<tr><td>{escape(' - '.join(pair['names']))}</td>"
        + "".join(
            f"<td{' class=chance' if pair[metric]['p_holm'] >= tests['level'] else ''}>"
            f"{escape(difference(pair[metric]))}</td>"
            for metric in TESTED
        )
        + "</tr>"
        for pair in tests["pairs"]
    )
    table = _scrolled(f"<tr><th></th>{head}</tr>{rows}")
    return (
        f"<h2>Differences between systems, in percent</h2>{table}"
        f'<p class="note">{escape(significance_sentence(report))} Grey: p of '
        f"{tests['level']:g} or more, which may be chance.</p>"
    )


def _parameters(entrants: Entrants) -> str:
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
    entrants: Entrants, heads: Mapping[str, str], form: Callable[[Any], str], *, best: Any
) -> str:
    leaders = {key: leader(entrants, key, best) for key in heads}
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


def _bars(entrants: Entrants, key: str) -> str:
    bars = "".join(
        f'<span>{escape(e["name"])}</span><div class="bar {escape(e["kind"])}">'
        f'<i style="width:{min(max(e[key], 0.0), 100.0):.1f}%"></i></div>'
        f"<span>{escape(with_deviation(e, key))}</span>"
        for e in entrants
    )
    return f'<div class="bars">{bars}</div>'
