"""Options that several commands share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from labelspace.errors import ParameterError

if TYPE_CHECKING:
    from labelspace.data import Columns, LabelTexts

KEYWORD = inspect.Parameter.KEYWORD_ONLY

Features = Annotated[
    str | None,
    typer.Option(
        "--features",
        metavar="NAMES",
        help="Text features: tfidf, chars, hashing, tokens, static, word2vec or sentences:DIR. "
        "Combine with +, e.g. tfidf+static. Default: chosen by the method.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Set a parameter of the method; repeatable."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Propensity = Annotated[
    str,
    typer.Option(
        "--propensity",
        metavar="A,B",
        help="Constants of PSP; papers use 0.5,0.4 for Wikipedia and 0.6,2.6 for Amazon data.",
    ),
]
PropensityFrom = Annotated[
    str,
    typer.Option("--propensity-from", help="Label frequencies for PSP: those of train or test."),
]
ThresholdFor = Annotated[
    str | None,
    typer.Option(
        "--threshold-for",
        metavar="GOAL",
        help="Choose a threshold on held-out data that optimises micro-f1, macro-f1, or recall at "
        "a precision, e.g. precision=0.9.",
    ),
]
Budget = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="TIME",
        help="Training time to aim for, e.g. 90s, 10m or 2h (fusion only); it may be exceeded.",
    ),
]
Labels = Annotated[
    str | None,
    typer.Option(
        "--labels",
        metavar="FILE",
        help="Label texts (names, synonyms, ...): TSV, CSV, JSONL or SKOS. Default: those beside "
        "the data, if any; none uses none.",
    ),
]
LabelsHeader = Annotated[
    str | None,
    typer.Option(
        "--labels-header",
        metavar="NAMES",
        help="Columns of label texts without a header, e.g. id,name@de,name@en.",
    ),
]
LabelsSeparator = Annotated[
    str | None,
    typer.Option(
        "--labels-separator",
        metavar="TEXT",
        help="Separator of several names within a cell of label texts, e.g. ', '.",
    ),
]
Only = Annotated[
    Path | None,
    typer.Option(
        "--only", help="File with the only labels to predict: ids or names, one per line."
    ),
]
Exclude = Annotated[
    Path | None,
    typer.Option("--exclude", help="File with labels to leave out: ids or names, one per line."),
]
Ancestors = Annotated[
    bool,
    typer.Option(
        "--ancestors",
        help="Add the ancestors of every label, so that each is given with its whole path.",
    ),
]
Language = Annotated[
    str | None,
    typer.Option("--language", metavar="CODE", help="Language of the labels' names, e.g. en."),
]
Engine = Annotated[
    str,
    typer.Option("--engine", help="Where independent tasks run: local (this machine) or ray."),
]
Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="ADDRESS",
        help="Ray cluster: auto (that of this machine) or HOST:PORT. Default: one is started.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        help="Train one neural network by up to so many workers of --engine ray, which share the "
        "examples of a batch.",
    ),
]
Model = Annotated[Path, typer.Argument(help="Model directory, as written by `train --out`.")]
Top = Annotated[
    int, typer.Option("--top", "-k", min=1, help="Number of labels per example that are used.")
]


def names(text: str) -> tuple[str, ...]:
    """Split a list such as 'a, b' into ('a', 'b')."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


@dataclass(frozen=True)
class ColumnOptions:
    """The columns of a table as given on the command line."""

    given: dict[str, Any]

    def over(self, known: Columns | None = None) -> Columns:
        """Return the columns to read: those given, and the known ones where none is given."""
        from labelspace.data import Columns

        return replace(known or Columns(), **self.given)


# Field of Columns -> its option, help and metavar. Those of several names take them separated by
# commas.
_COLUMN_OPTIONS = {
    "text": ("--text-columns", "Text columns of a table, e.g. title,body.", "NAMES"),
    "labels": ("--label-columns", "Label columns, e.g. labels or brand.", "NAMES"),
    "path": (
        "--path-columns",
        "Columns of a category path, top level first, e.g. L0,L1,L2.",
        "NAMES",
    ),
    "numbers": ("--number-columns", "Numeric columns to use as features.", "NAMES"),
    "id": ("--id-column", "Column with the id of an example.", "NAME"),
    "label_separator": (
        "--label-separator",
        "Separator of labels within a cell, e.g. ';'.",
        "TEXT",
    ),
    "path_separator": (
        "--path-separator",
        "Separator of levels within a path cell, e.g. '>'.",
        "TEXT",
    ),
    "delimiter": ("--delimiter", "Separator of the cells of a CSV row.", "CHARACTER"),
    "encoding": ("--encoding", "Encoding of a text file, e.g. cp1252.", "NAME"),
}
_COLUMNS: dict[str, Any] = {
    field: Annotated[str | None, typer.Option(flag, help=help, metavar=metavar)]
    for field, (flag, help, metavar) in _COLUMN_OPTIONS.items()
}
_SEVERAL = ("text", "labels", "path", "numbers")
# Shorter names of these options, which `--help` does not show.
_SHORT = {
    field: Annotated[str | None, typer.Option(flag, hidden=True)]
    for field, flag in (
        ("text", "--text"),
        ("labels", "--label"),
        ("path", "--path"),
        ("numbers", "--numbers"),
        ("id", "--id"),
    )
}


def with_columns(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options on columns; its parameter `columns` receives a ColumnOptions."""
    signature = inspect.signature(command, eval_str=True)
    before = [each for each in signature.parameters.values() if each.name != "columns"]
    options = [
        inspect.Parameter(f"columns_{field}", KEYWORD, default=None, annotation=kind)
        for field, kind in _COLUMNS.items()
    ] + [
        inspect.Parameter(f"short_{field}", KEYWORD, default=None, annotation=kind)
        for field, kind in _SHORT.items()
    ]

    @functools.wraps(command)
    def wrapped(**values: Any) -> None:
        given = {field: values.pop(f"columns_{field}") for field in _COLUMNS}
        short = {field: values.pop(f"short_{field}") for field in _SHORT}
        given |= {field: text for field, text in short.items() if text is not None}
        command(
            **values,
            columns=ColumnOptions(
                {
                    field: names(text) if field in _SEVERAL else text
                    for field, text in given.items()
                    if text is not None
                }
            ),
        )

    parameters = [each.replace(kind=KEYWORD) for each in before] + options
    wrapped.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {each.name: each.annotation for each in parameters}
    return wrapped


def column_arguments(columns: ColumnOptions) -> list[str]:
    """Return the options on columns as they would be given on the command line."""
    words: list[str] = []
    for field, value in columns.given.items():
        words += [_COLUMN_OPTIONS[field][0], ",".join(value) if field in _SEVERAL else value]
    return words


def settings(pairs: Sequence[str] | None) -> dict[str, str]:
    """Turn pairs such as ['dim=512'] into {'dim': '512'}."""
    found = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ParameterError(f"--set {pair}: expected NAME=VALUE, such as --set neighbours=10")
        found[name.strip()] = value.strip()
    return found


def label_texts(
    labels: str | None, header: str | None, separator: str | None
) -> str | LabelTexts | None:
    """Return the label texts as `train` takes them: a file, "auto", None, or what was read."""
    if header is None and separator is None:
        return {None: "auto", "none": None}.get(labels, labels)
    if labels in (None, "none"):
        raise ParameterError("--labels-header, --labels-separator: name the file with --labels")
    from labelspace.data import read_label_texts

    columns = None if header is None else [name.strip() for name in header.split(",")]
    return read_label_texts(str(labels), header=columns, separator=separator)


def threshold(text: str) -> float | Literal["auto"]:
    """Return a number from 0 to 1, or 'auto'."""
    if text == "auto":
        return "auto"
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise ParameterError(f"--threshold {text}: expected a number from 0 to 1, or auto")
    return value


def propensity_constants(text: str) -> tuple[float, float]:
    """Return the two numbers of a text such as '0.55,1.5'."""
    try:
        a, b = (float(part) for part in text.split(","))
    except ValueError:
        raise ParameterError(
            f"--propensity {text}: expected two numbers such as 0.55,1.5"
        ) from None
    return a, b


def seconds(budget: str, option: str = "--budget") -> float:
    """Return the seconds of a time such as 90s, 10m, 2h, or a plain number."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    text = budget.strip().lower()
    unit = units.get(text[-1:])
    try:
        found = float(text[:-1] if unit else text) * (unit or 1.0)
    except ValueError:
        found = -1.0
    if not 0.0 < found < float("inf"):
        raise ParameterError(f"{option} {budget}: expected a time such as 90s, 10m or 2h")
    return found
