"""Label names and their ids, and errors for names that are not known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from labelspace._core.suggest import nearest
from labelspace.data.cells import shown
from labelspace.errors import DataError

UNKNOWN_LABELS = ("error", "extend", "drop")


class Vocabulary:
    """Label names and their ids.

    Parameters
    ----------
    names : sequence of str or None
        The known names, in the order of their ids. None: all names are added as they appear.
    unknown : {"error", "extend", "drop"}
        What happens to a name that is not known.
    source : Path
        The file that errors name.
    """

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
        """Return the ids of the labels of one example, each once, as lists may repeat a name."""
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

    def ids_of_block(self, names: Sequence[str], counts: np.ndarray) -> np.ndarray | None:
        """Return the ids of names in order of appearance, -1 for those that are dropped.

        `counts` is how often each name occurs. Return None, and change nothing, where a name is
        an error.
        """
        index = self.index
        if self.unknown == "extend":
            return np.array([index.setdefault(name, len(index)) for name in names], np.int32)
        found = np.array([index.get(name, -1) for name in names], np.int32)
        unknown = found < 0
        if self.unknown == "error" and unknown.any():
            return None
        self.dropped += int(counts[unknown].sum())
        return found


def hint(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: `; did you mean ...?` or a full stop."""
    near = nearest(name, known)
    return f"; did you mean {shown(near[0])}?" if near else "."
