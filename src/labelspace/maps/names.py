"""Placement of label names on a map such that none overlaps another."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_LONGEST = 36
_BELOW = " > "  # between the levels of a path
_APART = 6.0  # pixels between names on one line
_CELL = 64.0  # pixels; a name is compared with those in the cells it touches


class Box(NamedTuple):
    """A rectangle in pixels: left, top, right, bottom."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: Box) -> bool:
        """Return whether the boxes overlap or are too near to each other."""
        return (
            self.left < other.right + _APART
            and other.left < self.right + _APART
            and self.top < other.bottom
            and other.top < self.bottom
        )


class Placed:
    """Boxes that are placed already, indexed by the cells they touch."""

    def __init__(self, page: Box, most: int) -> None:
        self.page, self.left_over = page, most
        self.cells: dict[tuple[int, int], list[Box]] = defaultdict(list)

    def first_free(self, choices: Sequence[Box]) -> Box | None:
        """Return the first of these boxes that is free and mark it as taken; None if none is."""
        return next((box for box in choices if self.left_over and self._take(box)), None)

    def _take(self, box: Box) -> bool:
        page = self.page
        if box.left < page.left or box.right > page.right:
            return False
        if box.top < page.top or box.bottom > page.bottom:
            return False
        touched = list(_cells(box))
        if any(box.overlaps(other) for cell in touched for other in self.cells[cell]):
            return False
        for cell in touched:
            self.cells[cell].append(box)
        self.left_over -= 1
        return True


def _cells(box: Box) -> Iterable[tuple[int, int]]:
    for column in range(int((box.left - _APART) // _CELL), int((box.right + _APART) // _CELL) + 1):
        for row in range(int(box.top // _CELL), int(box.bottom // _CELL) + 1):
            yield column, row


def beside(
    x: float, y: float, width: float, height: float, gap: float, left: bool = False
) -> Sequence[Box]:
    """Return the boxes for a name beside its point, best first: right or left, above, below."""
    half = height / 2
    sides = (
        Box(x + gap, y - half, x + gap + width, y + half),
        Box(x - gap - width, y - half, x - gap, y + half),
    )
    return (
        *(sides[::-1] if left else sides),
        Box(x - width / 2, y - gap - height, x + width / 2, y - gap),
        Box(x - width / 2, y + gap, x + width / 2, y + gap + height),
    )


def on_one_line(name: str) -> str:
    """Return a name without control characters and line breaks, shortened if it is long.

    A path such as "Clothing > Shoes > Sandals" loses its first levels: the last one distinguishes
    labels.
    """
    clean = "".join(" " if unicodedata.category(c).startswith("C") else c for c in name)
    clean = " ".join(clean.split())
    if len(clean) <= _LONGEST:
        return clean
    levels = clean.split(_BELOW)
    for first in range(1, len(levels)):
        short = _BELOW.join(["…", *levels[first:]])
        if len(short) <= _LONGEST:
            return short
    return levels[-1][: _LONGEST - 1].rstrip() + "…"
