"""The overview table of the benchmarks: the default method beside other packages.

    python benchmarks/overview.py [FOLDER...] [--methods NAME,...] [--peers NAME,...]

Each FOLDER holds train and test files; without one, the generated shop of `make demo` is used. All
systems of a set run in turn, on the same features; peers that are not installed are left out.
Figures are written to results/overview.json and to the README beside this file; sets that are not
given keep their rows, with the date and the commit of their own measurement.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from kept import Row, keep, kept, markdown_table
from labelspace.comparison.compare import Entrant, compare, entrants, raise_if_failed
from labelspace.comparison.peers import installed
from labelspace.data import read_split
from labelspace.datasets.products import write_catalogue

README = Path(__file__).resolve().with_name("README.md")
BEGIN, END = "<!-- overview: written by overview.py -->\n", "<!-- /overview -->\n"
METRICS = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5", "ECE")
COSTS = ("train_s", "batch_ms", "one_ms_p50", "model_mb", "peak_mb")
FOR_RARE_LABELS = Entrant("fusion", "method", {"objective": "psp"})


def measure(folder: Path, methods: list[str], peers: list[str]) -> None:
    """Compare the systems on one data set and write its rows."""
    train, test = read_split(folder)
    field = entrants(methods, peers, {})
    if "fusion" in methods:
        field.append(FOR_RARE_LABELS)
    report = compare(train, test, field, on_result=raise_if_failed)
    rows = [row_of(folder.name, system) for system in report["entrants"]]
    keep("overview", rows, ("set", "system"))
    write_readme(kept("overview"), report["machine"])


def row_of(name: str, system: dict[str, Any]) -> Row:
    """Return the row of a system on a set."""
    rare = system["kind"] == "method" and system["params"].get("objective") == "psp"
    shown = f"{system['name']}, objective=psp" if rare else system["name"]
    figures = {key: system[key] for key in (*METRICS, *COSTS) if key in system}
    return {"set": name, "system": shown, **figures}


def write_readme(rows: list[Row], machine: dict[str, Any]) -> None:
    """Replace the table between the marks of the README."""
    before, _, rest = README.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    where = (
        f"Last run: {machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB, "
        f"Python {machine['python']}; {versions}.\n"
    )
    README.write_text(before + BEGIN + where + "\n" + table(rows) + END + after, encoding="utf-8")


def table(rows: list[Row]) -> str:
    """Return the rows as a Markdown table; rows stored before they had dates have none."""
    dated = [key for key in ("date", "commit") if any(key in row for row in rows)]
    cells = []
    for row in sorted(rows, key=lambda row: row["set"]):
        accuracy = [f"{row[key]:.2f}" if key in row else "" for key in METRICS]
        costs = [f"{row[key]:.3g}" if row[key] < 1000 else f"{row[key]:.0f}" for key in COSTS]
        origin = [row.get(key, "") for key in dated]
        cells.append([row["set"], row["system"], *accuracy, *costs, *origin])
    return markdown_table(["set", "system", *METRICS, *COSTS, *dated], cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--methods", default="knn,fusion")
    parser.add_argument("--peers", default="omikuji,omikuji-bonsai,napkinxc,pecos")
    options = parser.parse_args()
    methods, peers = options.methods.split(","), installed(options.peers.split(","))
    for folder in options.folders:
        measure(folder, methods, peers)
    if not options.folders:
        with tempfile.TemporaryDirectory() as scratch:
            shop = Path(scratch) / "generated-shop"
            write_catalogue(shop, train=8000, test=2000, seed=0)
            measure(shop, methods, peers)


if __name__ == "__main__":
    main()
