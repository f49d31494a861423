"""The report of a comparison as files: JSON, an HTML page, CSV and LaTeX."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from labelspace._core.streams import replacing
from labelspace.comparison.csv_table import comparison_csv
from labelspace.comparison.latex_table import comparison_latex
from labelspace.comparison.page import comparison_page
from labelspace.errors import DataError


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
    report: Mapping[str, Any],
    json_file: Path | None,
    html_file: Path | None = None,
    csv_file: Path | None = None,
    latex_file: Path | None = None,
) -> None:
    """Write the report of `compare` to files.

    Parameters
    ----------
    report : mapping
        What `compare` returned.
    json_file, html_file, csv_file, latex_file : Path or None
        The files to write: everything as JSON, a page, a CSV table with a row per system, and a
        LaTeX table; None writes none.
    """
    title = report["data"].get("name", "comparison")
    forms: tuple[tuple[Path | None, Callable[[], str]], ...] = (
        (json_file, lambda: json.dumps(report, indent=2)),
        (html_file, lambda: comparison_page(report, title=title)),
        (csv_file, lambda: comparison_csv(report)),
        (latex_file, lambda: comparison_latex(report)),
    )
    for place, text in forms:
        if place is not None:
            with replacing(place) as file:
                file.write(text().encode("utf-8", "replace"))  # half a surrogate pair
