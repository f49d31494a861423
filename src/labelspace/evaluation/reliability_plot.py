"""The reliability of scores as a picture: share of true labels against score."""

from __future__ import annotations

from html import escape
from io import BytesIO

import numpy as np

from labelspace.errors import MissingExtraError
from labelspace.evaluation.reliability import Reliability

try:
    from matplotlib.figure import Figure
except ImportError as error:
    raise MissingExtraError(
        f"a plot needs matplotlib ({error}): pip install 'labelspace[plots]'"
    ) from None

_DOTS = 150


def reliability_picture(found: Reliability, title: str, kind: str) -> bytes:
    """Above, how often labels of a score are true; below, how many have it. PNG or SVG."""
    figure = Figure(figsize=(5.2, 6.2), layout="constrained")
    figure.suptitle(f"{title}\nexpected calibration error {100 * found.ece:.2f} %")
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
    buffer = BytesIO()
    # No date in the file: the same figures give the same bytes.
    metadata = {"Date": None} if kind == "svg" else None
    figure.savefig(buffer, format=kind, dpi=_DOTS, metadata=metadata)
    return buffer.getvalue()


def reliability_page(found: Reliability, title: str) -> bytes:
    """The same as a page of one file: the picture, and the figures as a table."""
    svg = reliability_picture(found, title, "svg").decode()
    rows = "".join(
        f"<tr><td>{one['from']:g} to {one['to']:g}</td><td>{one['pairs']:,}</td>"
        f"<td>{one['score']:.3f}</td><td>{one['true']:.3f}</td></tr>\n"
        for one in found.facts()["bins"]
    )
    page = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title>\n<style>body {{ font: 14px sans-serif; margin: 2em }} "
        "svg { max-width: 100%; height: auto } td, th { padding: 0 .6em; text-align: right }"
        f"</style></head>\n<body>{svg[svg.index('<svg') :]}\n"
        "<table><tr><th>score</th><th>labels</th><th>mean score</th><th>share true</th></tr>\n"
        f"{rows}</table></body></html>\n"
    )
    return page.encode()
