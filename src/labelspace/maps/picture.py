"""The map as a picture, drawn by matplotlib, which importing this module requires."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from io import BytesIO
from textwrap import wrap

import numpy as np

from labelspace.errors import MissingExtraError
from labelspace.maps.disk import geodesics, ring_distances, view_radius
from labelspace.maps.edges import most_frequent
from labelspace.maps.label_map import (
    INK,
    QUIET,
    RING,
    STOPS,
    UNKNOWN,
    LabelMap,
    frequency_levels,
    frequency_ticks,
)
from labelspace.maps.names import Box, Placed, beside, on_one_line

try:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.collections import LineCollection
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties
    from matplotlib.patches import Circle
    from matplotlib.patheffects import withStroke
except ImportError as error:
    raise MissingExtraError(
        f"a map as a picture needs matplotlib ({error}): pip install 'labelspace[plots]'; "
        "a page (.html) needs no matplotlib"
    ) from None

_INCHES, _DOTS = (10.0, 11.0), 200
_DOT = _DOTS / 72  # pixels of a typographic point
_DISK = (0.03, 0.065, 0.94, 0.94 * 10.0 / 11.0)  # of the figure: left, bottom, width, height
_SCALE = (0.66, 0.045, 0.31, 0.010)
_CAPTION = 100  # characters of a line that ends before the scale begins
_MOST_EDGES, _ARC_POINTS = 2500, 24
_MOST_NAMES, _MOST_TRIED = 140, 5000
_SHADES = LinearSegmentedColormap.from_list("frequency", STOPS)


def picture(label_map: LabelMap) -> bytes:
    """Return the map as a PNG file."""
    figure = Figure(figsize=_INCHES, dpi=_DOTS, facecolor="white")
    canvas = FigureCanvasAgg(figure)
    radius = view_radius(label_map.points)
    limits = (-1.01 * radius, 1.01 * radius)
    axes = figure.add_axes(_DISK, xlim=limits, ylim=limits)
    axes.axis("off")
    _draw_rings(axes, radius)
    outline = Circle((0, 0), radius, facecolor="none", edgecolor=QUIET, linewidth=0.8)
    axes.add_patch(outline)
    for drawn in (*_draw_edges(axes, label_map), _draw_points(axes, label_map)):
        drawn.set_clip_path(outline)
    _write_margins(figure, label_map, radius)
    with warnings.catch_warnings():
        # Letters that the font lacks are drawn as boxes, without a warning.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        _write_names(axes, label_map, radius, _Widths(canvas))
        file = BytesIO()
        canvas.print_png(file, metadata={"Software": "labelspace", "Title": label_map.title})
    return file.getvalue()


def _draw_rings(axes: Axes, radius: float) -> None:
    """Draw circles at round distances from the centre."""
    circle = np.exp(1j * np.linspace(0.0, 2 * np.pi, 361))
    for distance in ring_distances(radius):
        ring = np.tanh(0.5 * distance) * circle
        axes.plot(ring.real, ring.imag, color=RING, linewidth=0.6, zorder=0)
        axes.annotate(
            f"{distance:.3g}",
            (0.0, -np.tanh(0.5 * distance)),
            fontsize=6,
            color=QUIET,
            ha="center",
            va="center",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
            zorder=0.5,
        )


def _draw_edges(axes: Axes, label_map: LabelMap) -> Iterator[Artist]:
    edges = most_frequent(label_map.edges, label_map.weights, _MOST_EDGES)
    if not len(edges):
        return
    ends = label_map.points[edges]
    arcs = geodesics(ends[:, 0], ends[:, 1], _ARC_POINTS)
    lines = np.stack([arcs.real, arcs.imag], axis=2)
    # The more lines, the fainter each.
    strength = float(np.clip(8.0 / np.sqrt(len(edges)), 0.16, 0.6))
    yield axes.add_collection(
        LineCollection(list(lines), colors="#8b97a6", linewidths=0.45, alpha=strength, zorder=1)
    )


def _draw_points(axes: Axes, label_map: LabelMap) -> Artist:
    order = np.argsort(label_map.weights, kind="stable")  # frequent ones on top
    level = frequency_levels(label_map.weights[order])
    few = float(np.clip(3.0 - 0.5 * np.log10(max(len(label_map), 10)), 0.6, 2.5))
    points = label_map.points[order]
    return axes.scatter(
        points.real,
        points.imag,
        s=few * (1.2 + 14.0 * level**2),
        c=UNKNOWN if label_map.counts is None else _SHADES(level),
        linewidths=0,
        zorder=2,
    )


def _write_names(axes: Axes, label_map: LabelMap, radius: float, widths: _Widths) -> None:
    """Write names of the most frequent labels where they overlap no others."""
    order = np.argsort(-label_map.weights, kind="stable")[:_MOST_TRIED]
    order = order[np.abs(label_map.points[order]) <= radius]
    level, points = frequency_levels(label_map.weights), label_map.points[order]
    places = axes.transData.transform(np.column_stack([points.real, points.imag]))
    frame = axes.get_window_extent()
    placed = Placed(Box(frame.x0, frame.y0, frame.x1, frame.y1), most=_MOST_NAMES)
    halo = [withStroke(linewidth=1.6, foreground="white", alpha=0.85)]
    for label, (x, y) in zip(order.tolist(), places.tolist(), strict=True):
        name = on_one_line(label_map.names[label])
        size = 5.4 + 3.0 * level[label] ** 2
        gap = (0.012 + 0.014 * level[label]) * _DOTS
        box = placed.first_free(beside(x, y, widths.of(name, size), 1.3 * size * _DOT, gap))
        if box is not None:
            middle = (box.left, (box.top + box.bottom) / 2)
            left, height = axes.transData.inverted().transform(middle)
            axes.text(
                left,
                height,
                name,
                fontsize=size,
                color=INK,
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
    """Write the title and notes above, the colour scale below."""
    model, how = label_map.notes
    figure.text(0.03, 0.972, on_one_line(label_map.title), fontsize=16, color=INK, weight="bold",
                parse_math=False)  # fmt: skip
    figure.text(0.03, 0.953, model, fontsize=9, color=INK, parse_math=False)
    notes = ["Rings: distance from the centre."]
    outside = int((np.abs(label_map.points) > radius).sum())
    if outside:
        notes.append(f"{outside:,} labels lie farther out.")
    if len(label_map.edges):
        notes.append("Lines: the taxonomy.")
    lines = [line for part in (how, " ".join(notes)) for line in wrap(part, _CAPTION)]
    figure.text(0.03, 0.014, "\n".join(lines), fontsize=7.5, color=QUIET, linespacing=1.5)
    if label_map.counts is None:
        return
    scale = figure.add_axes(_SCALE, xlim=(0, 1), yticks=[])
    scale.imshow(np.linspace(0, 1, 256)[None], aspect="auto", cmap=_SHADES, extent=(0, 1, 0, 1))
    marks = frequency_ticks(int(label_map.counts.max(initial=1)))
    where = np.log(marks) / max(np.log(marks[-1]), 1e-9)
    scale.set_xticks(where, [f"{mark:,}" for mark in marks])
    scale.tick_params(length=2, width=0.5, labelsize=7, colors=QUIET, pad=2)
    scale.set_title("training examples per label", fontsize=7.5, color=QUIET, loc="left", pad=3)
    for side in scale.spines.values():
        side.set_visible(False)
