"""The reliability of scores as a picture: share of true labels against score."""

from __future__ import annotations

import numpy as np

from labelspace.errors import InputError, MissingExtraError
from labelspace.metrics.reliability import Reliability
from labelspace.plots.pictures import page_around, picture_file

try:
    from matplotlib.figure import Figure
except ImportError as error:
    raise MissingExtraError(
        f"a plot needs matplotlib ({error}): pip install 'labelspace[plots]'"
    ) from None


def reliability_picture(found: Reliability, title: str, kind: str) -> bytes:
    """Above, how often labels of a score are true; below, how many have it. PNG or SVG."""
    return picture_file(_drawn(found, title), kind)


def _drawn(found: Reliability, title: str) -> Figure:
    if not found.counts.any():
        raise InputError("no example is given any label: there are no scores to draw")
    figure = Figure(figsize=(5.2, 6.2), layout="constrained")
    heading = f"{title}\nexpected calibration error {100 * found.ece:.2f} %"
    figure.suptitle(heading, parse_math=False)  # a dollar sign in a title starts no formula
    shares, numbers = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    bins = len(found.counts)
    filled = found.counts > 0
    left = np.arange(bins)[filled] / bins
    shares.bar(left, found.hits[filled], 1 / bins, align="edge", alpha=0.5, edgecolor="white")
    shares.plot([0, 1], [0, 1], color="grey", linestyle="--", label="score = share")
    shares.plot(found.scores[filled], found.hits[filled], marker="o", label="measured")
    shares.set_ylabel("share that is true")
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
    """The same as a page of one file: the picture, and the figures as a table."""
    rows = "".join(
        f"<tr><td>{one['from']:g} to {one['to']:g}</td><td>{one['pairs']:,}</td>"
        f"<td>{one['score']:.3f}</td><td>{one['true']:.3f}</td></tr>\n"
        for one in found.metadata()["bins"]
    )
    head = "<th>score</th><th>labels</th><th>mean score</th><th>share true</th>"
    table = f"<table><tr>{head}</tr>\n{rows}</table>"
    return page_around(_drawn(found, title), title, table)
