"""Results of benchmarks: results/NAME.json, and NAME.md with the same rows as a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"
Row = dict[str, Any]


def kept(name: str) -> list[Row]:
    """Return the stored rows."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def keep(name: str, rows: list[Row], keys: tuple[str, ...]) -> None:
    """Store rows in place of those with the same keys, and print them; others are kept."""
    new = {tuple(row.get(key) for key in keys) for row in rows}
    others = [row for row in kept(name) if tuple(row.get(key) for key in keys) not in new]
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps([*others, *rows], indent=2) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(table([*others, *rows]), encoding="utf-8")
    print(table(rows), flush=True)


def table(rows: list[Row]) -> str:
    """Return rows as a Markdown table, with every column that any row has."""
    head = list(dict.fromkeys(key for row in rows for key in row))
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        values = [row.get(key, "") for key in head]
        cells = [f"{v:.2f}" if isinstance(v, float) else str(v) for v in values]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
