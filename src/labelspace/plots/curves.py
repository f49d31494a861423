"""Curves of a training run, drawn by matplotlib: import this file only where they are wanted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from labelspace.errors import MissingExtraError
from labelspace.plots.pictures import page_around, picture_file

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator
except ImportError as error:
    raise MissingExtraError(
        f"a plot needs matplotlib ({error}): pip install 'labelspace[plots]'"
    ) from None

Epochs = Sequence[Mapping[str, float]]
Curves = Mapping[str, Any]  # see `labelspace.runs.history.curves_of`

_METRICS = {"P": "Precision", "nDCG": "nDCG"}
_PARTS = {"train": "training data", "valid": "held-out data"}
_INCHES_A_PANEL = (4.6, 3.4)


class _Panel(NamedTuple):
    """What one pair of axes shows: the figures of these names over the epochs, a line each."""

    heading: str
    axis: str
    names: list[str]
    epochs: Epochs


def curves_picture(curves: Curves, title: str, kind: str) -> bytes:
    """Draw one panel per metric and part, one line per k, as a PNG or SVG file.

    A run that kept no metrics shows its loss and its validation score instead. Members of a method
    that combines several have panels of their own; of learners in a row the first one is drawn.
    """
    return picture_file(_curves(curves, title), kind)


def runs_of(curves: Curves) -> Iterator[tuple[str, str, Epochs]]:
    """Yield the name, metric and epochs of each run: of the method, or of each of its members."""
    if "members" not in curves:
        yield "", str(curves.get("metric") or ""), curves["epochs"]
        return
    counted: dict[str, int] = {}
    for member in curves["members"]:
        name = str(member["method"])
        counted[name] = counted.get(name, 0) + 1
        shown = name if counted[name] == 1 else f"{name} {counted[name]}"
        for inner, metric, epochs in runs_of(member):
            yield f"{shown}, {inner}" if inner else shown, metric, epochs


def _panels(name: str, metric: str, epochs: Epochs) -> list[_Panel]:
    epochs = [entry for entry in epochs if entry.get("learner", 1) == 1]
    before = f"{name}: " if name else ""
    panels = [
        _Panel(f"{before}{word}@k on {where}", f"{word}@k in percent", names, epochs)
        for key, word in _METRICS.items()
        for part, where in _PARTS.items()
        if (names := _kept(epochs, f"{part} {key}@"))
    ]
    if panels:
        return panels
    axes = {"loss": "loss", "score": f"{metric} in percent" if metric else "validation score"}
    headings = {"loss": "Loss on training data", "score": "Validation score"}
    return [
        _Panel(f"{before}{headings[key]}", axis, [key], epochs)
        for key, axis in axes.items()
        if _kept(epochs, key)
    ]


def _curves(curves: Curves, title: str) -> Figure:
    panels = [panel for run in runs_of(curves) for panel in _panels(*run)]
    columns = min(2, len(panels))
    lines = -(-len(panels) // max(1, columns))
    width, height = _INCHES_A_PANEL
    size = (width * max(1, columns), height * max(1, lines))
    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(title, parse_math=False)
    for place, panel in enumerate(panels):
        _draw(figure.add_subplot(lines, columns, place + 1), panel)
    return figure


def curves_page(curves: Curves, title: str) -> bytes:
    """Draw the same as a page of one file: the picture, and the figures as a table per run."""
    tables = "".join(_table(name, epochs) for name, _, epochs in runs_of(curves))
    return page_around(_curves(curves, title), title, tables)


def _table(run: str, epochs: Epochs) -> str:
    names = list(dict.fromkeys(name for entry in epochs for name in entry))
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    rows = "".join(
        "<tr>" + "".join(f"<td>{_figure(entry.get(name))}</td>" for name in names) + "</tr>\n"
        for entry in epochs
    )
    caption = f"<caption>{escape(run)}</caption>" if run else ""
    return f"<table>{caption}<tr>{head}</tr>\n{rows}</table>\n"


def _kept(epochs: Epochs, beginning: str) -> list[str]:
    """The names that begin so, in their order; epochs of pretraining may lack them."""
    names = dict.fromkeys(name for entry in epochs for name in entry)
    return [name for name in names if name.startswith(beginning)]


def _draw(axes: Axes, panel: _Panel) -> None:
    for name in panel.names:
        known = [entry for entry in panel.epochs if name in entry]
        axes.plot(
            [entry["epoch"] for entry in known],
            [entry[name] for entry in known],
            marker="o",
            markersize=3,
            label=name.partition(" ")[2],
        )
    axes.set_title(panel.heading)
    axes.set_xlabel("epoch")
    axes.set_ylabel(panel.axis)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    if len(panel.names) > 1:
        axes.legend()


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:g}" if value == int(value) else f"{value:.3f}"
