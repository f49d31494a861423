"""Sentences for names that do not exist, with the nearest one that does."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def unknown(name: str, what: str, known: Iterable[str]) -> str:
    """Return a sentence for a name that does not exist, with the nearest one that does."""
    names = sorted(known)
    by_lower_case = {each.lower(): each for each in names}
    near = difflib.get_close_matches(name.lower(), by_lower_case, n=1)
    if near:
        return f"no {what} {name!r}; did you mean {by_lower_case[near[0]]!r}?"
    return f"no {what} {name!r}; there are: {', '.join(names)}"
