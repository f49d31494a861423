"""Reliability diagrams: the share of true labels against the score, drawn by matplotlib."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from labelspace._core.plain import plain
from labelspace.errors import InputError, MissingExtraError
from labelspace.metrics.reliability import Reliability
from labelspace.plots.pictures import page_around, picture_file, write_plot

try:
    from matplotlib.figure import Figure
except ImportError as error:
    raise MissingExtraError(
        f"a plot needs matplotlib ({error}): pip install 'labelspace[plots]'"
    ) from None


def write_reliability(found: Reliability, out: str | Path, title: str = "") -> None:
    """Draw a reliability diagram into a file, above a histogram of the scores.

    Parameters
    ----------
    found : Reliability
        What `labelspace.metrics.reliability.reliability` returned.
    out : path
        The file to write: .png, or .html for a page with the figures as a table.
    title : str, default ""
        The title.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from labelspace.metrics.reliability import reliability
    >>> from labelspace.plots.reliability import write_reliability
    >>> from labelspace.ranking import Ranking
    >>> from scipy.sparse import csr_matrix
    >>> ranking = Ranking(np.array([[0], [1]], np.int32), np.array([[0.9], [0.3]], np.float32))
    >>> found = reliability(ranking, csr_matrix([[1.0, 0.0], [1.0, 0.0]]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_reliability(found, f"{folder}/reliability.html")
    ...     "<table>" in Path(folder, "reliability.html").read_text()
    True
    """
    write_plot(
        out,
        lambda kind: reliability_picture(found, title, kind),
        lambda: reliability_page(found, title),
    )


def reliability_picture(found: Reliability, title: str, kind: str) -> bytes:
    """Return the drawn diagram as a PNG or SVG file."""
    return picture_file(_drawn(found, title), kind)


def _drawn(found: Reliability, title: str) -> Figure:
    if not found.counts.any():
        raise InputError("no label is predicted for any example: there are no scores to draw")
    figure = Figure(figsize=(5.2, 6.2), layout="constrained")
    heading = f"{plain(title)}\nexpected calibration error {100 * found.ece:.2f} %"
    figure.suptitle(heading, parse_math=False)  # a dollar sign in a title starts no formula
    shares, numbers = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    bins = len(found.counts)
    filled = found.counts > 0
    left = np.arange(bins)[filled] / bins
    shares.bar(left, found.hits[filled], 1 / bins, align="edge", alpha=0.5, edgecolor="white")
    shares.plot([0, 1], [0, 1], color="grey", linestyle="--", label="perfectly calibrated")
    shares.plot(found.scores[filled], found.hits[filled], marker="o", label="measured")
    shares.set_ylabel("share of true labels")
    shares.set_ylim(0, 1)
    shares.legend()
    numbers.bar(left, found.counts[filled], 1 / bins, align="edge", alpha=0.5, edgecolor="white")
    numbers.set_yscale("log")
    numbers.set_ylabel("labels")
    numbers.set_xlabel("score")
    numbers.set_xlim(0, 1)
    for axes in (shares, numbers):
        axes.grid(alpha=0.3)
    return figure


def reliability_page(found: Reliability, title: str) -> bytes:
    """Return the drawn diagram as an HTML page, with the figures as a table."""
    rows = "".join(
        f"<tr><td>{one['from']:g} to {one['to']:g}</td><td>{one['pairs']:,}</td>"
        f"<td>{one['score']:.3f}</td><td>{one['true']:.3f}</td></tr>\n"
        for one in found.metadata()["bins"]
    )
    head = "<th>score</th><th>labels</th><th>mean score</th><th>share true</th>"
    table = f"<table><tr>{head}</tr>\n{rows}</table>"
    return page_around(_drawn(found, title), title, table)
