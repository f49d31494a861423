"""The picture is drawn without a screen, whatever the names hold."""

from __future__ import annotations

import struct
import sys
from dataclasses import replace
from xml.sax.saxutils import escape

import pytest

from support.drawn import RUDE, small_map

pytest.importorskip("matplotlib")


def size(png):
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", png[16:24])


@pytest.mark.parametrize(
    "drawn",
    [small_map(title=RUDE), small_map(counted=False), small_map(n=1)],
    ids=["rude names", "no counts", "one label"],
)
def test_a_picture_is_a_png(drawn):
    from labelspace.maps.picture import picture

    assert size(picture(drawn)) == (2000, 2200)


def test_an_svg_names_all_groups():
    from labelspace.maps.names import on_one_line
    from labelspace.maps.picture import picture

    drawn = small_map()
    svg = picture(drawn, "svg").decode()
    assert svg.startswith("<?xml")
    assert "<img" not in svg
    assert svg == picture(drawn, "svg").decode()
    for head in drawn.heads:
        assert f">{escape(on_one_line(drawn.names[head]))}<" in svg


def test_the_caption_ends_before_the_legend():
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from labelspace.maps.label_map import _HOW
    from labelspace.maps.picture import _DOTS, _INCHES, _write_margins

    how = f"{_HOW} Lines: from the most frequent label of a cluster to others."
    figure = Figure(figsize=_INCHES, dpi=_DOTS)
    renderer = FigureCanvasAgg(figure).get_renderer()
    _write_margins(figure, replace(small_map(), notes=("a $ model $x", how)), 0.5)
    caption = figure.texts[-1]
    assert " ".join(caption.get_text().split()).startswith(how)
    extent = caption.get_window_extent(renderer)
    assert extent.x1 < figure.axes[0].get_window_extent(renderer).x0
    assert extent.y0 > 0


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    from labelspace.errors import MissingExtraError

    monkeypatch.delitem(sys.modules, "labelspace.maps.picture", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    with pytest.raises(MissingExtraError, match=r"labelspace\[plots\]"):
        import labelspace.maps.picture  # noqa: F401
