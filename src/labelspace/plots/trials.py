"""The trials of a tuning, drawn by matplotlib, which importing this module requires."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from labelspace._core.plain import plain
from labelspace.errors import MissingExtraError
from labelspace.plots.pictures import page_around, picture_file, write_plot

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator
except ImportError as error:
    raise MissingExtraError(
        f"a plot needs matplotlib ({error}): pip install 'labelspace[plots]'"
    ) from None

Trials = Sequence[Mapping[str, Any]]

_PANEL_INCHES = (4.2, 3.0)
_COLUMNS = 3
_DECADE = 10.0  # numbers that span more are drawn on a logarithmic axis
_BEST, _OTHER = "tab:red", "tab:blue"


def write_trials_plot(trials: Trials, out: str | Path, metric: str, title: str = "") -> None:
    """Draw the trials of a tuning into a file.

    The first panel has the score of each trial, the best one so far, and that of the defaults; the
    others have the score by the value of each parameter.

    Parameters
    ----------
    trials : sequence of mapping
        Of each trial "number", "state" ("complete", "pruned" or "failed"), "score", "reason" and
        "parameters"; the first one has the defaults.
    out : path
        The file to write: .png, or .html for a page with the figures as a table.
    metric : str
        Name of the score.
    title : str, default ""

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from labelspace.plots.trials import write_trials_plot
    >>> trials = [
    ...     {"number": 1, "state": "complete", "score": 60.0, "reason": "", "parameters": {}},
    ...     {"number": 2, "state": "complete", "score": 62.5, "reason": "",
    ...      "parameters": {"lr": 0.01}},
    ... ]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_trials_plot(trials, f"{folder}/trials.html", "P@1")
    ...     "<td>62.50</td>" in Path(folder, "trials.html").read_text()
    True
    """
    write_plot(
        out,
        lambda kind: picture_file(_figure(trials, metric, title), kind),
        lambda: page_around(_figure(trials, metric, title), title, _table(trials, metric)),
    )


def _figure(trials: Trials, metric: str, title: str) -> Figure:
    names = _names(trials)
    columns = min(_COLUMNS, 1 + len(names))
    lines = -(-(1 + len(names)) // columns)
    width, height = _PANEL_INCHES
    figure = Figure(figsize=(width * columns, height * lines), layout="constrained")
    figure.suptitle(plain(title), parse_math=False)
    _draw_scores(figure.add_subplot(lines, columns, 1), trials, metric)
    for place, name in enumerate(names):
        _draw_parameter(figure.add_subplot(lines, columns, 2 + place), trials, name, metric)
    return figure


def _draw_scores(axes: Axes, trials: Trials, metric: str) -> None:
    complete = [trial for trial in trials if trial["score"] is not None]
    axes.plot([t["number"] for t in complete], [t["score"] for t in complete], "o", markersize=4,
              color=_OTHER, label="complete")  # fmt: skip
    if complete:
        best, above = float("-inf"), []
        for trial in complete:
            best = max(best, trial["score"])
            above.append(best)
        numbers = [trial["number"] for trial in complete]
        axes.step(numbers, above, where="post", color=_BEST, label="best so far")
        bottom = min(trial["score"] for trial in complete)
        if complete[0]["number"] == trials[0]["number"]:
            axes.axhline(complete[0]["score"], color="gray", linestyle="--", label="defaults")
        for state, marker in (("pruned", "|"), ("failed", "x")):
            found = [trial["number"] for trial in trials if trial["state"] == state]
            if found:
                axes.plot(found, [bottom] * len(found), marker, color="gray", label=state)
    axes.set_title("Trials")
    axes.set_xlabel("trial")
    axes.set_ylabel(f"{metric} in percent")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")


def _draw_parameter(axes: Axes, trials: Trials, name: str, metric: str) -> None:
    known = [t for t in trials if t["score"] is not None and name in t["parameters"]]
    values = [trial["parameters"][name] for trial in known]
    scores = [trial["score"] for trial in known]
    are_numbers = all(type(value) in (int, float) for value in values)
    if values and are_numbers and min(values) > 0 and max(values) / min(values) > _DECADE:
        axes.set_xscale("log")
    axes.plot(values if are_numbers else [str(value) for value in values], scores, "o",
              markersize=4, color=_OTHER)  # fmt: skip
    if scores:
        place = scores.index(max(scores))
        value = values[place] if are_numbers else str(values[place])
        axes.plot([value], [scores[place]], "o", color=_BEST)
    if not are_numbers:
        axes.tick_params(axis="x", labelrotation=20, labelsize="small")
    axes.set_title(name, parse_math=False)
    axes.set_ylabel(f"{metric} in percent")
    axes.grid(alpha=0.3)


def _names(trials: Trials) -> list[str]:
    return list(dict.fromkeys(name for trial in trials for name in trial["parameters"]))


def _table(trials: Trials, metric: str) -> str:
    names = _names(trials)
    head = "".join(
        f"<th>{escape(plain(name))}</th>" for name in ("trial", metric, *names, "reason")
    )
    rows = "".join(
        "<tr>"
        + "".join(f"<td>{escape(plain(cell))}</td>" for cell in _cells(trial, names))
        + "</tr>\n"
        for trial in trials
    )
    return f"<table><tr>{head}</tr>\n{rows}</table>\n"


def _cells(trial: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    score = trial["state"] if trial["score"] is None else f"{trial['score']:.2f}"
    given = trial["parameters"]
    own = [str(given[name]) if name in given else "" for name in names]
    return [str(trial["number"]), score, *own, trial["reason"]]
