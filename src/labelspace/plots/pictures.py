"""What plots share: a figure as a file, and a page of one file around it."""

from __future__ import annotations

from html import escape
from io import BytesIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DOTS = 150


def picture_file(figure: Figure, kind: str) -> bytes:
    """As a PNG or SVG file without a date: the same figures give the same bytes."""
    buffer = BytesIO()
    figure.savefig(buffer, format=kind, dpi=_DOTS, metadata={"Date": None} if kind == "svg" else {})
    return buffer.getvalue()


def page_around(figure: Figure, title: str, table: str) -> bytes:
    """A page with the figure and, below, an HTML table of what it shows."""
    svg = picture_file(figure, "svg").decode()
    page = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title>\n<style>body {{ font: 14px sans-serif; margin: 2em }} "
        "svg { max-width: 100%; height: auto } td, th { padding: 0 .6em; text-align: right }"
        f"</style></head>\n<body>{svg[svg.index('<svg') :]}\n{table}</body></html>\n"
    )
    return page.encode()
