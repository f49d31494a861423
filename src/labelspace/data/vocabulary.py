"""Label names and their ids, and what to say of a name that is not known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from labelspace._core.suggest import nearest
from labelspace.data.cells import shown
from labelspace.errors import DataError

UNKNOWN_LABELS = ("error", "extend", "drop")


class Vocabulary:
    """Label names and their ids: closed or open at the end, as `unknown` says."""

    def __init__(self, names: Sequence[str] | None, unknown: str, source: Path) -> None:
        self._names = tuple(names or ())
        self.index = {name: i for i, name in enumerate(self._names)}
        self.unknown = "extend" if names is None else unknown
        self.source = source
        self.dropped = 0

    def names(self) -> tuple[str, ...]:
        """Return all names in the order of their ids; the same tuple until one is added."""
        if len(self._names) != len(self.index):
            self._names = tuple(self.index)
        return self._names

    def ids(self, names: Iterable[str], line: int | None = None) -> set[int]:
        """Each id once: lists in the wild repeat a label."""
        index = self.index
        found = set()
        for name in names:
            if name in index:
                found.add(index[name])
            elif self.unknown == "extend":
                found.add(index.setdefault(name, len(index)))
            elif self.unknown == "drop":
                self.dropped += 1
            else:
                raise DataError(
                    f"the label {shown(name)} is not among the {len(index)} known ones"
                    f"{hint(name, index)} unknown_labels='extend' adds such labels, 'drop' skips",
                    path=self.source,
                    line=line,
                )
        return found


def hint(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: `; did you mean ...?`, or just a full stop."""
    near = nearest(name, known)
    return f"; did you mean {shown(near[0])}?" if near else "."
