"""Names near to one that does not exist, for error messages."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

# Comparing two names takes microseconds; a model may have millions of them.
_COMPARED = 20_000  # names at most
_FEW = 1_000  # names up to which all lengths are compared
_LENGTH_GAP = 3  # characters, among more names than that
_LONGEST = 1_000  # characters of a name; comparing takes time with their square


def nearest(name: str, known: Iterable[str], n: int = 1, cutoff: float = 0.65) -> list[str]:
    """Return up to `n` known names that are like this one, the most similar first.

    Upper and lower case are the same. `cutoff` is the least similarity, from 0 to 1. The time is
    bounded: of many names only those of about the same length that begin or end alike are
    compared, and not all of them.
    """
    if len(name) > _LONGEST:
        return []
    names = list(known)
    if len(names) > _FEW:
        # A misspelt name mostly begins or ends as the right one does.
        first, last = name[:1].casefold(), name[-2:].casefold()
        names = [
            each
            for each in names
            if abs(len(each) - len(name)) <= _LENGTH_GAP
            and (each[:1].casefold() == first or each[-2:].casefold() == last)
        ][:_COMPARED]
    by_folded = {each.casefold(): each for each in names}
    return [by_folded[key] for key in get_close_matches(name.casefold(), by_folded, n, cutoff)]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` as the end of a sentence, or nothing if no name is near."""
    near = nearest(name, known)
    return f"; did you mean {near[0]!r}?" if near else ""


def unknown(name: str, what: str, known: Iterable[str]) -> str:
    """Return a sentence for a name that does not exist, with the nearest one that does."""
    names = sorted(known)
    end = did_you_mean(name, names) or f"; there are: {', '.join(names)}"
    return f"no {what} {name!r}{end}"
