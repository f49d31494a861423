"""A comparison as one self-contained HTML page: no script, nothing fetched."""

from __future__ import annotations

from html import escape
from typing import Any

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem;
       color: #1c2330; background: #fff; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .6rem; text-align: right; border-bottom: 1px solid #e3e6ec; }
th:first-child, td:first-child { text-align: left; white-space: nowrap; }
svg { max-width: 44rem; display: block; }
td.best { font-weight: 700; background: #eaf4ea; }
.peer { color: #68707f; } .bar { fill: #3a6ea5; } .bar.peer { fill: #b8bfca; }
p.note { color: #68707f; }
@media (prefers-color-scheme: dark) {
  body { color: #e4e7ec; background: #14171d; } th, td { border-color: #2b303a; }
  td.best { background: #1e3324; } .bar { fill: #6fa3d8; } .bar.peer { fill: #4a5160; }
}
"""
# At 1, nDCG is P and PSnDCG is PSP.
_CUTS = {"P": (1, 3, 5), "nDCG": (3, 5), "PSP": (1, 3, 5), "PSnDCG": (3, 5)}
_ACCURACY = [f"{name}@{k}" for name, ks in _CUTS.items() for k in ks]
_COSTS = {
    "train_s": "train s",
    "batch_ms": "ms an example, batch",
    "one_ms_p50": "ms alone, median",
    "one_ms_p99": "ms alone, 99 %",
    "model_mb": "model MB",
    "peak_mb": "peak MB",
}


def comparison_page(report: dict[str, Any], title: str) -> str:
    """The report of `compare` for a browser."""
    entrants = report["entrants"]
    costs = _table(entrants, list(_COSTS), list(_COSTS.values()), "{:.3g}", best=min)
    machine = report["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>
<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>
<h1>{escape(title)}</h1>
<p>{_data_sentence(report["data"])}</p>
<h2>P@1</h2>{_bars(entrants, "P@1")}
<h2>Accuracy, in percent</h2>{_table(entrants, _ACCURACY, _ACCURACY, "{:.2f}", best=max)}
<h2>Cost</h2>{costs}
<p class="note">{machine["cores"]} cores ({escape(machine["processor"])}),
{machine["memory_gb"]} GB, Python {machine["python"]}; {escape(versions)}.
Each entrant ran in a process of its own, on the same features; peers are grey.</p>
</body></html>
"""


def _data_sentence(data: dict[str, Any]) -> str:
    return (
        f"{data['points']:,} training and {data['test_points']:,} test examples, "
        f"{data['features']:,} features, {data['labels']:,} labels "
        f"({data['labels_per_point']:.2f} an example)."
    )


def _table(
    entrants: list[dict[str, Any]], keys: list[str], heads: list[str], form: str, *, best: Any
) -> str:
    leaders = {key: best(e[key] for e in entrants) for key in keys}
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    rows = []
    for e in entrants:
        cells = "".join(
            f"<td{' class=best' if e[key] == leaders[key] else ''}>{form.format(e[key])}</td>"
            for key in keys
        )
        rows.append(f'<tr class="{e["kind"]}"><td>{escape(e["name"])}</td>{cells}</tr>')
    return f"<table><tr><th></th>{head}</tr>{''.join(rows)}</table>"


def _bars(entrants: list[dict[str, Any]], key: str) -> str:
    height, left, width = 26, 140, 560
    bars = []
    for place, e in enumerate(entrants):
        y, length = place * height, e[key] / 100 * width
        bars.append(
            f'<text x="{left - 8}" y="{y + 17}" text-anchor="end" fill="currentColor">'
            f"{escape(e['name'])}</text>"
            f'<rect class="bar {e["kind"]}" x="{left}" y="{y + 4}" width="{length:.1f}" '
            f'height="{height - 8}" rx="2"/>'
            f'<text x="{left + length + 6:.1f}" y="{y + 17}" fill="currentColor">'
            f"{e[key]:.2f}</text>"
        )
    size = f'viewBox="0 0 {left + width + 70} {height * len(entrants)}"'
    return f'<svg {size} font-size="14" role="img" aria-label="{key}">{"".join(bars)}</svg>'
