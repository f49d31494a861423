"""Figures of plots written to a file, as a picture or inside a page."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from labelspace._core.plain import plain
from labelspace._core.streams import replacing
from labelspace.errors import ParameterError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DOTS = 150  # per inch


def check_plot_file(out: Path) -> None:
    """Raise ParameterError if the file is neither .html nor .png."""
    if out.suffix not in (".html", ".png"):
        raise ParameterError(f"--out {out}: expected a name that ends in .html or .png")


def write_plot(out: str | Path, picture: Callable[[str], bytes], page: Callable[[], bytes]) -> None:
    """Write `picture("png")` to a .png file or `page()` to an .html file."""
    target = Path(out)
    check_plot_file(target)
    content = picture("png") if target.suffix == ".png" else page()
    with replacing(target) as file:
        file.write(content)


def picture_file(figure: Figure, kind: str) -> bytes:
    """Return a PNG or SVG file without a date, so that the same figures give the same bytes."""
    buffer = BytesIO()
    figure.savefig(buffer, format=kind, dpi=_DOTS, metadata={"Date": None} if kind == "svg" else {})
    return buffer.getvalue()


def page_around(figure: Figure, title: str, table: str) -> bytes:
    """Return an HTML page with the figure and, below it, a table of what it shows."""
    svg = picture_file(figure, "svg").decode()
    page = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(plain(title))}</title>\n"
        "<style>body { font: 14px sans-serif; margin: 2em } "
        "svg { max-width: 100%; height: auto } td, th { padding: 0 .6em; text-align: right }"
        f"</style></head>\n<body>{svg[svg.index('<svg') :]}\n{table}</body></html>\n"
    )
    return page.encode()
