"""Results of benchmarks: results/NAME.json, and NAME.md with the same figures as a table."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
Row = dict[str, Any]


def kept(name: str) -> list[Row]:
    """Return the stored rows."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def keep(name: str, rows: list[Row], keys: tuple[str, ...]) -> None:
    """Store rows in place of those with the same keys, and print them; others are kept.

    Each new row gets the date and the commit of its measurement.
    """
    new = {tuple(row.get(key) for key in keys) for row in rows}
    others = [row for row in kept(name) if tuple(row.get(key) for key in keys) not in new]
    rows = [{**row, **provenance()} for row in rows]
    write(name, [*others, *rows], table([*others, *rows]))
    print(table(rows), flush=True)


def write(name: str, value: Any, markdown: str) -> None:
    """Write a result as JSON and as Markdown."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(markdown, encoding="utf-8")


def provenance() -> dict[str, str]:
    """Return today's date and the commit, marked if the package was changed since.

    Outside of a checkout there is the date alone.
    """
    date = {"date": f"{datetime.now(UTC):%Y-%m-%d}"}
    try:
        commit = _git("rev-parse", "--short", "HEAD").strip()
        changed = _git("status", "--porcelain", "--", "src")
    except (OSError, subprocess.CalledProcessError):
        return date
    return {**date, "commit": f"{commit} with changes" if changed else commit}


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def table(rows: list[Row]) -> str:
    """Return rows as a Markdown table, with every column that any row has."""
    head = list(dict.fromkeys(key for row in rows for key in row))
    cells = ([_cell(row.get(key, "")) for key in head] for row in rows)
    return markdown_table(head, cells)


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table of formatted cells."""
    lines = [" | ".join(head), *(" | ".join(row) for row in rows)]
    written = [f"| {line} |" for line in lines]
    return "\n".join([written[0], "|" + "---|" * len(head), *written[1:]]) + "\n"


def best_seconds(action: Callable[[], object], repeats: int = 3) -> float:
    """Return the shortest wall time of several calls."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def _cell(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)
