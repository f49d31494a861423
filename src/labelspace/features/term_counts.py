"""Counts of terms in texts, which grow text by text and are renumbered where they are.

A count and its column take 8 bytes. Nothing here copies all of them: with the texts left in their
file, they are most of what training on a large file needs.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.sparse import counts_of

_COLUMN_BITS = 32  # a key is a row above this many bits of column
_COLUMN_MASK = (1 << _COLUMN_BITS) - 1
_SLICE = 1 << 22  # counts worked on at a time


class TermCounts:
    """How often each column's term occurs in each text.

    Examples
    --------
    >>> counts = TermCounts()
    >>> counts.add(["a b a"], lambda text: map("ba".index, text.split()))
    >>> counts.matrix(2).toarray()
    array([[1., 2.]], dtype=float32)
    """

    def __init__(self) -> None:
        self._counts, self._columns, self._lengths = array("f"), array("i"), array("i")
        self._blocks: list[tuple[int, int]] = []  # rows and counts of each

    def __len__(self) -> int:
        return len(self._lengths)

    def add(self, texts: Sequence[str], columns_of: Callable[[str], Iterable[int]]) -> None:
        """Count the columns of further texts; column -1 is dropped."""
        cells = array("q")
        lengths = []
        for text in texts:
            before = len(cells)
            cells.extend(columns_of(text))
            lengths.append(len(cells) - before)
        columns = np.asarray(cells)
        rows = np.repeat(np.arange(len(texts)), lengths)
        keys = ((rows << _COLUMN_BITS) | columns)[columns >= 0]
        keys, counts = np.unique(keys, return_counts=True)
        _append(self._counts, counts)
        _append(self._columns, keys & _COLUMN_MASK)
        _append(self._lengths, np.bincount(keys >> _COLUMN_BITS, minlength=len(texts)))
        self._blocks.append((len(texts), len(keys)))

    def texts_with(self, n_columns: int) -> np.ndarray:
        """Return the number of texts in which each column occurs."""
        return counts_of(np.asarray(self._columns), n_columns)

    def totals(self, n_columns: int) -> np.ndarray:
        """Return the sum of each column's counts."""
        columns, counts = np.asarray(self._columns), np.asarray(self._counts)
        found = np.zeros(n_columns)
        for part in slices(len(columns), n_columns):
            found += np.bincount(columns[part], weights=counts[part], minlength=n_columns)
        return found

    def renumber(self, new: np.ndarray) -> None:
        """Give each column its new number, and drop those of which it is -1."""
        counts, columns, lengths = map(np.asarray, (self._counts, self._columns, self._lengths))
        read = written = first = 0
        blocks = []
        for n_rows, size in self._blocks:
            own = lengths[first : first + n_rows]
            rows = np.repeat(np.arange(n_rows), own)
            found = new[columns[read : read + size]]
            kept = np.flatnonzero(found >= 0)
            keys = (rows[kept] << _COLUMN_BITS) | found[kept]
            order = np.argsort(keys)
            end = written + len(kept)  # never beyond what has been read
            counts[written:end] = counts[read + kept[order]]
            columns[written:end] = keys[order] & _COLUMN_MASK
            own[:] = np.bincount(rows[kept], minlength=n_rows)
            blocks.append((n_rows, len(kept)))
            read, written, first = read + size, end, first + n_rows
        del counts, columns, lengths, own  # an array that is looked at cannot be shortened
        del self._counts[written:], self._columns[written:]
        self._blocks = blocks

    def matrix(self, n_columns: int) -> csr_matrix:
        """Return the counts as float32 CSR, which shares its memory with this object."""
        size = len(self._counts)
        kind = np.int32 if size <= np.iinfo(np.int32).max else np.int64
        indptr: np.ndarray = np.zeros(len(self) + 1, kind)
        np.cumsum(np.asarray(self._lengths), out=indptr[1:])
        parts = np.asarray(self._counts), np.asarray(self._columns), indptr
        return csr_matrix(parts, shape=(len(self), n_columns), copy=False)


def slices(size: int, least: int = 1) -> Iterator[slice]:
    """Yield slices of at least `least` that cover `size` numbers: what is made of each is small."""
    step = max(_SLICE, least)
    for start in range(0, size, step):
        yield slice(start, start + step)


def _append(buffer: array[float] | array[int], values: np.ndarray) -> None:
    buffer.frombytes(np.ascontiguousarray(values, buffer.typecode).view(np.uint8).data)
