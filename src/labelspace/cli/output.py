"""The output of commands: tables or JSON on standard output, progress on standard error."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import typer

from labelspace._core.plain import plain, plain_json
from labelspace.runs.progress import ProgressBar, Stages, progress_bar

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "Figure",
    "ProgressBar",
    "Stages",
    "print_json",
    "print_mapping",
    "print_message",
    "print_table",
    "print_threshold",
    "progress_bar",
]


def print_message(message: str) -> None:
    """Print a line on standard error, apart from the results."""
    typer.echo(plain(message), err=True)


def print_threshold(chosen: Mapping[str, Any]) -> None:
    """Print a threshold with precision, recall and F1 of the label sets it gives."""
    figures = ", ".join(
        f"{name} {chosen[key]:.2f}"
        for name, key in (
            ("precision", "precision"),
            ("recall", "recall"),
            ("micro-F1", "micro_f1"),
            ("macro-F1", "macro_f1"),
        )
    )
    print_message(f"threshold {chosen['value']:.4f} for {chosen['goal']}: {figures} percent "
        f"on {chosen['examples']:,} held-out examples")  # fmt: skip


def print_json(value: Any) -> None:
    """Print a value as indented JSON."""
    typer.echo(plain_json(json.dumps(value, indent=2, ensure_ascii=False)))


class Figure(str):
    """A formatted number: aligned to the right, not broken over lines."""


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "") -> None:
    """Print a table, text aligned to the left and numbers to the right, without cutting cells.

    In a narrow terminal, text wraps; if that does not suffice, the columns are divided into several
    tables, each with the first column. In a file or pipe, lines do not wrap.
    """
    cells = [[plain(_cell(value)) for value in row] for row in rows]
    parts = [
        _Column(plain(name), [row[place] for row in cells], _numeric([row[place] for row in rows]))
        for place, name in enumerate(columns)
    ]
    console = _console()
    _print_title(console, title)
    for group in _fitting(parts, console.width):
        _print_columns(console, group)


def print_mapping(metadata: Mapping[str, Any], title: str = "") -> None:
    """Print a name and a value per line; nested values are written out."""
    console = _console()
    _print_title(console, title)
    names = [plain(name) for name in metadata]
    values = ["\n".join(map(plain, _lines(value))) for value in metadata.values()]
    columns = [_Column("", names, False), _Column("", values, False)]
    _print_columns(console, columns, header=False)


def _console() -> Console:
    """Return a console as wide as the terminal, or of unlimited width without a terminal."""
    from rich.console import Console

    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=1_000_000)


def _print_title(console: Console, title: str) -> None:
    from rich.text import Text

    if title:
        console.print(Text(plain(title), style="italic"), soft_wrap=True)


class _Column:
    """The cells of a column.

    widest  characters of its longest line
    least   characters below which a number or a word of ordinary length would be broken
    """

    def __init__(self, name: str, cells: Sequence[str], numeric: bool) -> None:
        from rich.cells import cell_len

        self.name, self.cells, self.numeric = name, cells, numeric
        lines = [line for cell in cells for line in cell.splitlines()]
        words = max((cell_len(word) for line in lines for word in line.split()), default=0)
        whole = max(map(cell_len, lines), default=0)
        self.widest = max(whole, cell_len(name))
        self.least = max(whole if numeric else min(words, _LONGEST_WORD),
                         *map(cell_len, name.split() or [""]))  # fmt: skip


_LONGEST_WORD = 24  # longer ones may be broken over lines
_AROUND, _FRAME = 3, 1  # characters beside each column, and at the end of a row


def _widths(columns: Sequence[_Column], width: int) -> list[int]:
    """Return the width of each column; the widest are narrowed until the table fits."""
    found = [min(column.widest, max(column.least, width)) for column in columns]
    while _total(found) > width:
        places = [i for i, column in enumerate(columns) if found[i] > column.least]
        if not places:
            break
        found[max(places, key=found.__getitem__)] -= 1
    return found


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _AROUND * len(widths) + _FRAME


def _fitting(columns: Sequence[_Column], width: int) -> Iterator[list[_Column]]:
    """Yield the columns in groups that fit side by side, each beginning with the first column."""
    group: list[_Column] = []
    for column in columns:
        if len(group) > 1 and _total(_widths([*group, column], width)) > width:
            yield group
            group = [columns[0]]
        group = [*group, column]
    yield group


def _print_columns(console: Console, columns: Sequence[_Column], header: bool = True) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=header)
    widths = _widths(columns, console.width)
    for column, width in zip(columns, widths, strict=True):
        justify: Literal["left", "right"] = "right" if column.numeric else "left"
        table.add_column(Text(column.name), justify=justify, width=width, overflow="fold")
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*map(Text, row))
    console.print(table, soft_wrap=True, width=max(console.width, _total(widths)))


def _numeric(values: Sequence[Any]) -> bool:
    return any(isinstance(value, int | float | Figure) for value in values)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if 0 < abs(value) < 0.01 else f"{value:,.2f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else str(value)


def _lines(value: Any) -> list[str]:
    """Return a value as lines of text: one line per key of a mapping or item of a list of them."""
    if isinstance(value, Mapping):
        return [f"{name}: {_inline(part)}" for name, part in value.items()] or ["none"]
    if isinstance(value, list | tuple) and any(isinstance(part, Mapping) for part in value):
        return [_inline(part) for part in value]
    return [_inline(value)]


def _inline(value: Any) -> str:
    """Return a value on one line, without brackets and quotes."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_inline(part)}" for name, part in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(_inline, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else _cell(value)
