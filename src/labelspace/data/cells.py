"""Parses text cells: a list written as text, or names with separators between them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_ITEM = re.compile(rf"\s*({_QUOTED}|-?[0-9]{{1,100}})(?=[\s,\]])\s*,?", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|([\\'\"nrt]))")
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}
_MOST_CELLS = 10_000
_LEAST_CELLS, _LEAST_SHARE = 3, 0.1

SHOWN_LETTERS, SHOWN_NAMES = 60, 20


def listed(text: str) -> list[str] | None:
    """Read a cell that holds a list of names, as JSON, Python or NumPy writes it; None if not.

    `["a", "b"]`, `['a', 'b']` and `['a' 'b']` give the same; names may be whole numbers.
    """
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return None
    try:
        items = json.loads(text)
        names = [str(item) for item in items if isinstance(item, str) or type(item) is int]
        if len(names) != len(items):
            return None
    except (ValueError, RecursionError):
        names = _python_list(text)
    try:
        "".join(names).encode("utf-8")
    except UnicodeEncodeError:  # half of a surrogate pair, written as \\ud800
        return None
    return names or (None if text[1:-1].strip() else [])


def _python_list(text: str) -> list[str]:
    """Read quoted names in brackets, without evaluating anything; [] if there is more in it."""
    names: list[str] = []
    position = 1
    while found := _ITEM.match(text, position):
        item = found[1]
        names.append(_ESCAPE.sub(_unescaped, item[1:-1]) if item[0] in "'\"" else item)
        position = found.end()
    return names if text[position:] == "]" else []


def _unescaped(found: re.Match[str]) -> str:
    digits = found[1] or found[2] or found[3]
    if not digits:
        return _ESCAPED.get(found[4], found[4])
    return chr(int(digits, 16)) if int(digits, 16) < 0x110000 else found[0]


def parts(text: str, separator: str) -> tuple[list[str], int]:
    """Split at the separator; return the names and how many empty ones were left out."""
    pieces = text.split(separator)
    names = [name for piece in pieces if (name := piece.strip())]
    return names, len(pieces) - len(names)


def shown(name: str) -> str:
    """Return a name as errors show it: quoted, and not longer than a line."""
    return repr(name if len(name) <= SHOWN_LETTERS else name[: SHOWN_LETTERS - 1] + "…")


def enumerated(names: Sequence[str]) -> str:
    """Return names as errors list them: each no longer than a line, and not too many."""
    short = [n if len(n) <= SHOWN_LETTERS else n[: SHOWN_LETTERS - 1] + "…" for n in names]
    more = len(short) - SHOWN_NAMES
    return ", ".join(short[:SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")


@dataclass
class LoneNames:
    """The cells of a column that were read as one name each but may hold several."""

    candidates: tuple[str, ...]
    cells: set[str] | None = field(default_factory=set)

    def see(self, cell: str, n_names: int) -> None:
        """Note a text cell and how many names it was read as."""
        if self.cells is None:
            return
        if n_names > 1:
            self.cells = None
        elif n_names == 1 and len(self.cells) < _MOST_CELLS:
            self.cells.add(cell)

    def separator(self) -> tuple[str, float] | None:
        """Return what may separate names and the share of cells that hold it, if it is likely."""
        cells = self.cells or ()
        holding = {mark: sum(mark in cell for cell in cells) for mark in self.candidates}
        mark = max(holding, key=holding.__getitem__)
        if holding[mark] < _LEAST_CELLS or holding[mark] <= _LEAST_SHARE * len(cells):
            return None
        return mark, holding[mark] / len(cells)
