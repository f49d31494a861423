"""Training curves, drawn by matplotlib, which importing this module requires."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from labelspace._core.plain import plain
from labelspace.errors import LabelspaceError, MissingExtraError
from labelspace.model import store
from labelspace.plots.pictures import page_around, picture_file, write_plot

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
_PANEL_INCHES = (4.6, 3.4)


class _Panel(NamedTuple):
    """The content of one pair of axes: a line over the epochs for each of these names."""

    heading: str
    axis: str
    names: list[str]
    epochs: Epochs


def read_curves(model: str | Path) -> dict[str, Any]:
    """Read the training curve that `train --history` saved with a model.

    Parameters
    ----------
    model : path
        The model's directory.

    Returns
    -------
    dict
        The curve, in the form of `labelspace.runs.history.curves_of`.

    Raises
    ------
    LabelspaceError
        If there is no model, or it was trained without `--history`.
    """
    if not (Path(model) / store.HEADER).exists():
        raise LabelspaceError(f"there is no model in {model}: give the directory that train wrote")
    kept = store.load(model).documents.get("history")
    if kept is None:
        raise LabelspaceError(
            f"{model} has no history: train it with --history, by a method trained in epochs"
        )
    if not _is_history(kept):
        raise LabelspaceError(f"{model}: history.json is not a training history of labelspace")
    return dict(kept)


def _is_history(kept: Any, depth: int = 3) -> bool:
    """Return whether a JSON value is the history of a method, or of its members."""
    if not isinstance(kept, dict) or not isinstance(kept.get("method"), str) or not depth:
        return False
    if "members" in kept:
        members = kept["members"]
        some = isinstance(members, list) and len(members) > 0
        return some and all(_is_history(member, depth - 1) for member in members)
    epochs = kept.get("epochs")
    return (
        isinstance(epochs, list)
        and len(epochs) > 0
        and all(isinstance(entry, dict) and "epoch" in entry for entry in epochs)
        and all(type(figure) in (int, float) for entry in epochs for figure in entry.values())
    )


def write_curves(curves: Curves, out: str | Path, title: str = "") -> None:
    """Draw a training curve into a file.

    One panel per metric and part of the data, one line per k. A run without metrics shows its loss
    and its validation score instead. Members of fusion have panels of their own; of an ensemble,
    the first model is drawn.

    Parameters
    ----------
    curves : dict
        What `read_curves` returned.
    out : path
        The file to write: .png, or .html for a page with the figures as a table.
    title : str, default ""
        The title.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from labelspace.plots.curves import write_curves
    >>> epochs = [{"epoch": 1, "loss": 0.7}, {"epoch": 2, "loss": 0.4}]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_curves({"method": "glas", "epochs": epochs}, f"{folder}/curves.html")
    ...     "<td>0.400</td>" in Path(folder, "curves.html").read_text()
    True
    """
    write_plot(
        out, lambda kind: curves_picture(curves, title, kind), lambda: curves_page(curves, title)
    )


def curves_picture(curves: Curves, title: str, kind: str) -> bytes:
    """Return the drawn curve as a PNG or SVG file."""
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
    width, height = _PANEL_INCHES
    size = (width * max(1, columns), height * max(1, lines))
    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(plain(title), parse_math=False)
    for place, panel in enumerate(panels):
        _draw(figure.add_subplot(lines, columns, place + 1), panel)
    return figure


def curves_page(curves: Curves, title: str) -> bytes:
    """Return the drawn curve as an HTML page, with the figures as a table per run."""
    tables = "".join(_table(name, epochs) for name, _, epochs in runs_of(curves))
    return page_around(_curves(curves, title), title, tables)


def _table(run: str, epochs: Epochs) -> str:
    names = list(dict.fromkeys(name for entry in epochs for name in entry))
    head = "".join(f"<th>{escape(plain(name))}</th>" for name in names)
    rows = "".join(
        "<tr>" + "".join(f"<td>{_figure(entry.get(name))}</td>" for name in names) + "</tr>\n"
        for entry in epochs
    )
    caption = f"<caption>{escape(plain(run))}</caption>" if run else ""
    return f"<table>{caption}<tr>{head}</tr>\n{rows}</table>\n"


def _kept(epochs: Epochs, beginning: str) -> list[str]:
    """Return the names with this prefix, in order; epochs of pretraining may lack them."""
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
    axes.set_title(plain(panel.heading), parse_math=False)
    axes.set_xlabel("epoch")
    axes.set_ylabel(plain(panel.axis), parse_math=False)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    if len(panel.names) > 1:
        axes.legend()


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:g}" if value == int(value) else f"{value:.3f}"
