"""Texts that are not held in memory: their file is read again whenever they are iterated."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, overload

import numpy as np

from labelspace.errors import DataError


class StreamedTexts(Sequence[str]):
    """The texts of a file, in order.

    Iterating reads the file; looking up one text reads it up to there. An error is raised where the
    file is not the one any more that was read first.

    Parameters
    ----------
    path : Path
        The file.
    texts : callable
        Returns an iterator over all texts of the file.
    size : int
        Their number.
    """

    def __init__(self, path: Path, texts: Callable[[], Iterator[str]], size: int) -> None:
        self._path, self._texts, self._size = path, texts, size
        self._rows: np.ndarray | None = None  # None: all
        self._stamp = _stamp(path)

    def __len__(self) -> int:
        return self._size if self._rows is None else len(self._rows)

    def __iter__(self) -> Iterator[str]:
        if self._rows is None:
            yield from self._all()
            return
        before = -1
        texts = self._all()
        for row in self._rows.tolist():
            yield next(islice(texts, row - before - 1, None))
            before = row

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: Any) -> Any:
        places = range(len(self))[place]
        if isinstance(places, range):
            return [*self.take(np.array(places, np.int64))]
        return next(islice(self, places, None))

    def take(self, rows: np.ndarray) -> Sequence[str]:
        """Return the texts at these rows, which stay in the file if the rows ascend."""
        if len(rows) and (rows.min() < -len(self) or rows.max() >= len(self)):
            raise IndexError(f"a row that is not one of the {len(self)} texts")
        rows = np.where(rows < 0, rows + len(self), rows)
        if (np.diff(rows) <= 0).any():
            distinct, places = np.unique(rows, return_inverse=True)
            texts = list(self.take(distinct))
            return [texts[place] for place in places.tolist()]
        chosen = StreamedTexts(self._path, self._texts, self._size)
        chosen._rows = rows if self._rows is None else self._rows[rows]
        chosen._stamp = self._stamp
        return chosen

    def _all(self) -> Iterator[str]:
        if _stamp(self._path) != self._stamp:
            raise self._changed()
        found = 0
        for found, text in enumerate(self._texts(), 1):
            if found > self._size:
                break
            yield text
        if found != self._size:
            raise self._changed()

    def _changed(self) -> DataError:
        message = "the file has changed while it was read; start again when it is complete"
        return DataError(message, path=self._path)


def taken(texts: Sequence[str], rows: np.ndarray) -> Sequence[str]:
    """Return the texts at these rows."""
    return texts.take(rows) if isinstance(texts, StreamedTexts) else [texts[i] for i in rows]


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError as error:
        raise DataError(f"cannot be read again: {error.strerror or error}", path=path) from None
    return status.st_size, status.st_mtime_ns
