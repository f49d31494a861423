"""The report of a comparison as CSV: one row per system, two columns per figure if repeated."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from typing import Any

from labelspace._core.plain import spreadsheet_text
from labelspace.comparison.figures import flat_figures


def comparison_csv(report: Mapping[str, Any]) -> str:
    """Return the report of `compare` as CSV.

    Parameters
    ----------
    report : mapping
        What `compare` returned.

    Returns
    -------
    str
        A header and one row per system: name, kind and method, whether it read label texts (where
        the data have some), the number of runs, every figure
        of the report (such as "P@1" and "bands.tail.P@1") and, with several runs, each followed by
        its standard deviation ("P@1 std"); then the error of a system that failed, and the
        parameters as JSON. What a system does not have is empty.
    """
    entrants = [(each, flat_figures(each)) for each in report["entrants"]]
    names = list(dict.fromkeys(name for _, figures in entrants for name in figures))
    repeated = len(report["settings"]["seeds"]) > 1
    heads = [head for name in names for head in ((name, f"{name} std") if repeated else (name,))]
    texts = ("label_texts",) if "label_texts" in report["data"] else ()
    text = io.StringIO()
    table = csv.DictWriter(
        text,
        ("name", "kind", "method", *texts, "runs", *heads, "error", "params"),
        extrasaction="ignore",  # without repeats, nothing has a deviation
        lineterminator="\n",
    )
    table.writerow({head: spreadsheet_text(head) for head in table.fieldnames})
    for each, figures in entrants:
        deviations = flat_figures(each.get("std", {}))
        table.writerow(
            {
                **{
                    name: spreadsheet_text(each.get(name))
                    for name in ("name", "kind", "method", *texts, "error")
                },
                "runs": 0 if "error" in each else len(report["settings"]["seeds"]),
                **figures,
                **{f"{name} std": value for name, value in deviations.items()},
                "params": json.dumps(each["params"]),
            }
        )
    return text.getvalue()
