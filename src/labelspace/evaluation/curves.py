"""Curves of a training run, drawn by matplotlib: import this file only where they are wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from labelspace.errors import MissingExtraError
from labelspace.evaluation.pictures import page_around, picture_file

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator
except ImportError as error:
    raise MissingExtraError(
        f"a plot needs matplotlib ({error}): pip install 'labelspace[plots]'"
    ) from None

Epochs = Sequence[Mapping[str, float]]

_METRICS = {"P": "Precision", "nDCG": "nDCG"}
_PARTS = {"train": "training data", "valid": "held-out data"}
_INCHES_A_PANEL = (4.6, 3.4)


def curves_picture(epochs: Epochs, title: str, kind: str) -> bytes:
    """A panel a metric and part, a line a k, as a PNG or SVG file.

    A run that kept no metrics shows its loss and its validation score instead.
    """
    return picture_file(_curves(epochs, title), kind)


def _curves(epochs: Epochs, title: str) -> Figure:
    panels = [
        (f"{word}@k on {where}", names)
        for metric, word in _METRICS.items()
        for part, where in _PARTS.items()
        if (names := _kept(epochs, f"{part} {metric}@"))
    ]
    if not panels:
        known = {"loss": "Loss", "score": "Validation score"}
        panels = [(word, [name]) for name, word in known.items() if _kept(epochs, name)]
    columns = min(2, len(panels))
    lines = -(-len(panels) // columns)
    width, height = _INCHES_A_PANEL
    figure = Figure(figsize=(width * columns, height * lines), layout="constrained")
    figure.suptitle(title, parse_math=False)
    for place, (heading, names) in enumerate(panels):
        _draw(figure.add_subplot(lines, columns, place + 1), epochs, heading, names)
    return figure


def curves_page(epochs: Epochs, title: str) -> bytes:
    """The same as a page of one file: the picture, and the figures as a table."""
    names = list(dict.fromkeys(name for entry in epochs for name in entry))
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    rows = "".join(
        "<tr>" + "".join(f"<td>{_figure(entry.get(name))}</td>" for name in names) + "</tr>\n"
        for entry in epochs
    )
    table = f"<table><tr>{head}</tr>\n{rows}</table>"
    return page_around(_curves(epochs, title), title, table)


def _kept(epochs: Epochs, beginning: str) -> list[str]:
    """The names that begin so, in their order; epochs of pretraining may lack them."""
    names = dict.fromkeys(name for entry in epochs for name in entry)
    return [name for name in names if name.startswith(beginning)]


def _draw(axes: Axes, epochs: Epochs, heading: str, names: Sequence[str]) -> None:
    for name in names:
        known = [entry for entry in epochs if name in entry]
        axes.plot(
            [entry["epoch"] for entry in known],
            [entry[name] for entry in known],
            marker="o",
            markersize=3,
            label=name.partition(" ")[2],
        )
    axes.set_title(heading)
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    if len(names) > 1:
        axes.legend()


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:g}" if value == int(value) else f"{value:.3f}"
