"""The picture is drawn without a screen, whatever the names hold."""

from __future__ import annotations

import struct
import sys

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


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    from labelspace.errors import MissingExtraError

    monkeypatch.delitem(sys.modules, "labelspace.maps.picture", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    with pytest.raises(MissingExtraError, match=r"labelspace\[plots\]"):
        import labelspace.maps.picture  # noqa: F401
