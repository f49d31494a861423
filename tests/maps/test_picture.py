"""The picture is drawn without a screen, whatever the names hold."""

from __future__ import annotations

import struct
import sys
from dataclasses import replace

import numpy as np
import pytest

from labelspace.maps.placing import place
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


@pytest.mark.parametrize("geometry", ["euclidean", "hyperbolic"])
def test_the_caption_ends_before_the_scale_of_colours(geometry):
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from labelspace.maps.picture import _DOTS, _INCHES, _write_margins

    vectors = np.random.default_rng(0).uniform(-0.4, 0.4, (12, 3)).astype(np.float32)
    how = place(vectors, geometry, small_map().near.labels)[1]
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
