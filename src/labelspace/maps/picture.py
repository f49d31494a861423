"""The map as a picture, drawn by matplotlib, which importing this module requires."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from io import BytesIO
from textwrap import wrap

import numpy as np

from labelspace.errors import MissingExtraError
from labelspace.maps.disk import geodesics, view_radius
from labelspace.maps.label_map import (
    INK,
    OTHER,
    QUIET,
    RIM,
    LabelMap,
    frequency_levels,
    frequency_ticks,
)
from labelspace.maps.names import Box, Placed, beside, on_one_line

try:
    from matplotlib import rc_context
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.collections import Collection, LineCollection
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties
    from matplotlib.patches import Circle
    from matplotlib.patheffects import AbstractPathEffect, withStroke
except ImportError as error:
    raise MissingExtraError(
        f"a map as a picture needs matplotlib ({error}): pip install 'labelspace[plots]'; "
        "a page (.html) needs no matplotlib"
    ) from None

_INCHES, _DOTS = (10.0, 11.0), 200
_DOT = _DOTS / 72  # pixels of a typographic point
_DISK = (0.03, 0.065, 0.94, 0.94 * 10.0 / 11.0)  # of the figure: left, bottom, width, height
_SIZES = (0.62, 0.014, 0.35, 0.05)  # the legend of sizes
_CAPTION = 88  # characters of a line that ends before the legend begins
_MOST_LINES, _ARC_POINTS = 20_000, 16
_MOST_NAMES, _MOST_TRIED = 150, 5000


def picture(label_map: LabelMap, kind: str = "png") -> bytes:
    """Return the map as a PNG or SVG file."""
    figure = Figure(figsize=_INCHES, dpi=_DOTS, facecolor="white")
    canvas = FigureCanvasAgg(figure)
    radius = view_radius(label_map.points)
    limits = (-1.01 * radius, 1.01 * radius)
    axes = figure.add_axes(_DISK, xlim=limits, ylim=limits)
    axes.axis("off")
    rim = axes.add_patch(Circle((0, 0), radius, facecolor="none", edgecolor=RIM, linewidth=1.0))
    colours = np.array(label_map.colours)[label_map.group]
    lines = axes.add_collection(_lines(label_map, colours))
    for drawn in (lines, _points(axes, label_map, colours)):
        drawn.set_clip_path(rim)
    _write_margins(figure, label_map, radius)
    with warnings.catch_warnings():
        # Letters that the font lacks are drawn as boxes, without a warning.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        # A halo would turn the names of an SVG into shapes that cannot be searched.
        halo: Sequence[AbstractPathEffect] = (
            () if kind == "svg" else [withStroke(linewidth=1.8, foreground="white", alpha=0.85)]
        )
        _write_names(axes, label_map, radius, _Widths(canvas), halo)
        file, title = BytesIO(), on_one_line(label_map.title)
        if kind == "svg":
            # The same map gives the same file, with names as text.
            with rc_context({"svg.fonttype": "none", "svg.hashsalt": "labelspace"}):
                about = {"Title": title, "Date": None}
                FigureCanvasSVG(figure).print_svg(file, metadata=about)
        else:
            canvas.print_png(file, metadata={"Software": "labelspace", "Title": title})
    return file.getvalue()


def _lines(label_map: LabelMap, colours: np.ndarray) -> LineCollection:
    """Return the lines from labels to their parents; with many labels, of the frequent ones."""
    order = np.argsort(-label_map.weights, kind="stable")
    children = order[label_map.parent[order] >= 0][:_MOST_LINES]
    ends = label_map.points[children], label_map.points[label_map.parent[children]]
    arcs = geodesics(*ends, _ARC_POINTS)
    # The more lines, the fainter each.
    strength = float(np.clip(16.0 / np.sqrt(max(len(children), 1)), 0.15, 0.5))
    return LineCollection(
        list(np.stack([arcs.real, arcs.imag], axis=2)),
        colors=list(colours[children]),
        linewidths=0.5,
        alpha=strength,
        zorder=1,
    )


def _points(axes: Axes, label_map: LabelMap, colours: np.ndarray) -> Collection:
    order = np.argsort(label_map.weights, kind="stable")  # frequent ones on top
    points = label_map.points[order]
    return axes.scatter(
        points.real,
        points.imag,
        s=_areas(label_map)[order],
        c=list(colours[order]),
        linewidths=0,
        alpha=0.9,
        zorder=2,
    )


def _areas(label_map: LabelMap) -> np.ndarray:
    """Return the areas of the labels' dots."""
    few = float(np.clip(3.6 - 0.6 * np.log10(max(len(label_map), 10)), 0.7, 3.0))
    return np.asarray(few * (1.0 + 22.0 * frequency_levels(label_map.weights) ** 2.2))


def _write_names(
    axes: Axes,
    label_map: LabelMap,
    radius: float,
    widths: _Widths,
    halo: Sequence[AbstractPathEffect],
) -> None:
    """Write names of groups, then of the most frequent labels, where they overlap no others."""
    frequent = np.argsort(-label_map.weights, kind="stable")[:_MOST_TRIED]
    order = np.concatenate([label_map.heads, frequent[~np.isin(frequent, label_map.heads)]])
    order = order[np.abs(label_map.points[order]) <= radius]
    level, points = frequency_levels(label_map.weights), label_map.points[order]
    areas = _areas(label_map)
    places = axes.transData.transform(np.column_stack([points.real, points.imag]))
    frame = axes.get_window_extent()
    placed = Placed(Box(frame.x0, frame.y0, frame.x1, frame.y1), most=_MOST_NAMES)
    titles = dict(zip(label_map.heads.tolist(), label_map.titles, strict=True))
    colours, left = label_map.colours, label_map.names_left
    for label, (x, y) in zip(order.tolist(), places.tolist(), strict=True):
        name = on_one_line(titles.get(label) or label_map.short_name(label))
        size = 11.0 if label in titles else 5.4 + 2.6 * level[label] ** 2
        gap = (np.sqrt(areas[label]) / 2 + 1.5) * _DOT
        width = widths.of(name, size) * (1.12 if label in titles else 1.0)  # of bold letters
        box = placed.first_free(beside(x, y, width, 1.3 * size * _DOT, gap, left[label]))
        if box is not None:
            middle = (box.left, (box.top + box.bottom) / 2)
            begin, height = axes.transData.inverted().transform(middle)
            axes.text(
                begin,
                height,
                name,
                fontsize=size,
                weight="bold" if label in titles else "normal",
                color=colours[label_map.group[label]] if label in titles else INK,
                va="center_baseline",
                path_effects=halo,
                parse_math=False,  # a dollar sign in a name starts no formula
                zorder=3,
            )


class _Widths:
    """Widths of names in pixels, summed over their letters."""

    def __init__(self, canvas: FigureCanvasAgg) -> None:
        self.renderer, self.font = canvas.get_renderer(), FontProperties(size=10)
        self.letters: dict[str, float] = {}

    def of(self, name: str, size: float) -> float:
        for letter in set(name) - self.letters.keys():
            # Between two bars, since a blank at the end would measure as nothing.
            self.letters[letter] = self._measured(f"|{letter}|") - self._measured("||")
        return sum(self.letters[letter] for letter in name) * size / 10

    def _measured(self, text: str) -> float:
        return float(self.renderer.get_text_width_height_descent(text, self.font, False)[0])


def _write_margins(figure: Figure, label_map: LabelMap, radius: float) -> None:
    """Write the title and notes above, the legend of sizes below."""
    model, how = label_map.notes
    figure.text(0.03, 0.972, on_one_line(label_map.title), fontsize=16, color=INK, weight="bold",
                parse_math=False)  # fmt: skip
    figure.text(0.03, 0.953, model, fontsize=9, color=INK, parse_math=False)
    outside = int((np.abs(label_map.points) > radius).sum())
    if outside:
        how += f" {outside:,} labels lie farther out."
    lines = wrap(how, _CAPTION)
    figure.text(0.03, 0.014, "\n".join(lines), fontsize=7.5, color=QUIET, linespacing=1.5)
    if label_map.counts is None:
        return
    legend = figure.add_axes(_SIZES, xlim=(0, 1), ylim=(0, 1))
    legend.axis("off")
    marks = frequency_ticks(int(label_map.counts.max(initial=1)))
    where = (np.arange(len(marks)) + 0.5) / len(marks)
    areas, levels = _areas(label_map), frequency_levels(label_map.counts)
    shown = [areas[np.argmin(np.abs(levels - level))] for level in _levels_of(marks)]
    legend.scatter(where, np.full(len(marks), 0.45), s=shown, c=OTHER, linewidths=0)
    for x, mark in zip(where, marks, strict=True):
        legend.text(x, 0.05, f"{mark:,}", fontsize=7, color=QUIET, ha="center")
    legend.text(0.0, 0.82, "training examples per label", fontsize=7.5, color=QUIET)


def _levels_of(marks: list[int]) -> np.ndarray:
    return frequency_levels(np.array(marks))
