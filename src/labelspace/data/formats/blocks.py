"""Drives the compiled scanner: a stream in newline-aligned blocks, parsed side by side, to arrays.

Memory stays near the size of the result: text is dropped block by block, and `gather` lets go of
each piece as it copies it into the whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import IO, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core import streams as _files
from labelspace._core.streams import PathLike
from labelspace._core.threads import cores, parallel_map
from labelspace.data.formats.layout import (
    MAX_COLUMNS,
    Flaw,
    Layout,
    bad_feature,
    bad_label,
    bad_value,
    not_positive,
    repeated_feature,
    repeated_label,
)
from labelspace.errors import DataError, MemoryBudgetError, ParameterError

BLOCK_BYTES = 1 << 20
CHECKED_BYTES = 1 << 27  # read between two checks of the available memory
BLOCKS_AHEAD = 4  # blocks parsed while one is yielded; more only take memory
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Rows(NamedTuple):
    """Rows of labels and features; row i ends at ends[i] and begins where row i - 1 ends."""

    label_ends: np.ndarray
    labels: np.ndarray
    feature_ends: np.ndarray
    features: np.ndarray
    values: np.ndarray

    def cut(self, start: int, stop: int) -> Rows:
        """Return the rows from start to stop, as views."""
        label_span = _span(self.label_ends, start, stop)
        feature_span = _span(self.feature_ends, start, stop)
        return Rows(
            self.label_ends[start:stop] - label_span.start,
            self.labels[label_span],
            self.feature_ends[start:stop] - feature_span.start,
            self.features[feature_span],
            self.values[feature_span],
        )

    def label_matrix(self, n_columns: int) -> csr_matrix:
        ones = np.ones(len(self.labels), dtype=np.float32)
        return to_csr(self.label_ends, self.labels, ones, n_columns)

    def feature_matrix(self, n_columns: int) -> csr_matrix:
        return to_csr(self.feature_ends, self.features, self.values, n_columns)


def _span(ends: np.ndarray, start: int, stop: int) -> slice:
    bounds = [int(ends[row - 1]) if row > 0 else 0 for row in (start, stop)]
    return slice(*bounds)


def to_csr(ends: np.ndarray, indices: np.ndarray, values: np.ndarray, n_columns: int) -> csr_matrix:
    """Return a CSR matrix that shares the arrays of sorted rows without duplicates."""
    index_type = np.int32 if len(indices) <= MAX_COLUMNS else np.int64
    indptr = np.zeros(len(ends) + 1, dtype=index_type)
    indptr[1:] = ends
    matrix = csr_matrix((values, indices, indptr), shape=(len(ends), n_columns), copy=False)
    matrix.has_canonical_format = True
    return matrix


def gather(parts: Iterable[Rows], path: PathLike | None = None) -> Rows:
    """Concatenate all parts; raise if a named file does not fit into memory."""
    columns: tuple[list[np.ndarray], ...] = ([], [], [], [], [])
    held = checked = 0
    for part in parts:
        for column, array in zip(columns, part, strict=True):
            column.append(array)
            held += array.nbytes
        if path is not None and held - checked > CHECKED_BYTES:
            checked = held
            _refuse_if_too_large(held, path)
    label_ends, labels, feature_ends, features, values = columns
    n_labels, n_features = list(map(len, labels)), list(map(len, features))
    return Rows(
        _drain(label_ends, np.int64, n_labels),
        _drain(labels, np.int32),
        _drain(feature_ends, np.int64, n_features),
        _drain(features, np.int32),
        _drain(values, np.float32),
    )


def _refuse_if_too_large(held: int, path: PathLike) -> None:
    """Raise a MemoryBudgetError if there is not enough memory to copy what is held into one."""
    from labelspace._core.machine import available_bytes, in_words

    free = available_bytes()
    if free < held / 2:
        raise MemoryBudgetError(
            f"{path}: the first {in_words(held)} of it are read and {in_words(free)} of memory is "
            "available; read a part of it, or in batches"
        )


def _drain(
    parts: list[np.ndarray], dtype: type[np.generic], shifts: Sequence[int] = ()
) -> np.ndarray:
    """Concatenate arrays, each of which is freed as soon as it is copied.

    A part grows by the sum of the shifts of all parts before it.
    """
    if len(parts) == 1:
        return parts.pop()
    at, shift = sum(map(len, parts)), sum(shifts)
    whole = np.empty(at, dtype=dtype)
    while parts:
        part = parts.pop()
        place = whole[at - len(part) : at]
        place[:] = part
        if shifts:
            shift -= shifts[len(parts)]
            place += shift
        at -= len(part)
    return whole


def counted(parts: Iterable[Rows], promised: int, path: PathLike) -> Iterator[Rows]:
    """Yield as many rows as the header gives; only blank lines may follow."""
    seen = 0
    for part in parts:
        found = len(part.label_ends)
        keep = min(found, max(0, promised - seen))
        if keep < found:
            surplus = part.cut(keep, found)
            filled = np.diff(surplus.label_ends + surplus.feature_ends, prepend=0)
            if filled.any():
                line = 2 + seen + keep + int(np.flatnonzero(filled)[0])
                message = f"more rows than the {promised} of the header; correct the header"
                raise DataError(message, path=str(path), line=line, column=1)
        yield part.cut(0, keep)
        seen += found
    if seen < promised:
        message = f"the header gives {promised} rows, the file has {seen}; is its end missing?"
        raise DataError(message, path=str(path), line=1, column=1)


def batches(parts: Iterable[Rows], size: int) -> Iterator[Rows]:
    """Yield the same rows in pieces of one size; the last one may be smaller."""
    if size < 1:
        raise ParameterError(f"batch_size: expected at least 1, found {size}")
    held: list[Rows] = []
    n_held = 0
    for part in parts:
        held.append(part)
        n_held += len(part.label_ends)
        if n_held < size:
            continue
        whole = gather(held)
        left = n_held % size
        for start in range(0, n_held - left, size):
            yield whole.cut(start, start + size)
        held, n_held = [whole.cut(n_held - left, n_held)], left
    if n_held:
        yield gather(held)


def newline_blocks(stream: IO[bytes], path: PathLike) -> Iterator[bytes]:
    """Yield the text in blocks that end with a newline, without a byte order mark."""
    held: list[bytes] = []  # the beginning of a line whose end has not been read yet
    n_held, line = 0, 1
    data = stream.read(BLOCK_BYTES).removeprefix(BYTE_ORDER_MARK)
    while data:
        cut = data.rfind(b"\n") + 1
        if cut:
            block = b"".join((*held, data[:cut]))
            line += block.count(b"\n")
            yield block
            held, n_held = [], 0
        held.append(data[cut:])
        n_held += len(data) - cut
        if n_held > _files.LINE_BYTES:
            raise _files.endless_line(path, line)
        data = stream.read(BLOCK_BYTES)
    if n_held:
        yield b"".join((*held, b"\n"))


def parse_blocks(
    blocks: Iterable[bytes], layout: Layout, path: PathLike, first_line: int = 1
) -> Iterator[Rows]:
    """Yield the rows of each block in order, while other threads parse the next blocks."""
    ahead = min(BLOCKS_AHEAD, cores())
    line = first_line
    for block, parsed in parallel_map(partial(parse_block, layout=layout), blocks, ahead):
        yield _rows_of(parsed, block, path, line)
        line += block.count(b"\n")


def _rows_of(parsed: Callable[[], Rows], block: bytes, path: PathLike, first_line: int) -> Rows:
    try:
        return parsed()
    except Flaw as flaw:
        line = first_line + block.count(b"\n", 0, flaw.offset)
        column = flaw.offset - block.rfind(b"\n", 0, flaw.offset)
        raise DataError(flaw.message, path=str(path), line=line, column=column) from None


def parse_block(block: bytes, layout: Layout) -> Rows:
    """Parse the rows of one block; raise Flaw where it does not follow the layout."""
    from labelspace.data.formats import scan as _scan

    _refuse_other_encodings(block)
    text = np.frombuffer(block, dtype=np.uint8)
    newlines, colons, commas = _scan.count_marks(text)
    bounds = np.empty((3, newlines), dtype=np.int64)
    labels = np.empty(newlines + commas if layout.has_labels else 0, dtype=np.int32)
    features, values = np.empty(colons, dtype=np.int32), np.empty(colons, dtype=np.float32)
    unsure = np.empty((colons, 3), dtype=np.int64)
    code, offset, n_rows, n_unsure, tidy = _scan.scan_rows(
        text,
        layout.has_labels,
        layout.comments,
        layout.first_feature,
        layout.last_feature,
        layout.last_label,
        bounds,
        labels,
        features,
        values,
        unsure,
    )
    if code != _scan.FINE:
        explain = {_scan.BAD_LABEL: bad_label, _scan.BAD_FEATURE: bad_feature}
        raise explain.get(code, bad_value)(block, offset, layout)
    for slot, start, end in unsure[:n_unsure]:
        values[slot] = _slow_float32(block, start, end, layout)
    row_starts, label_ends, feature_ends = bounds
    rows = Rows(label_ends, labels, feature_ends, features, values).cut(0, n_rows)
    if layout.positive_values:
        _refuse_absent_labels(rows, block, row_starts, layout)
    if not tidy:
        _sort_rows(rows, block, row_starts, layout)
    return rows


def _refuse_other_encodings(block: bytes) -> None:
    if block.isascii():
        return
    try:
        block.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Flaw(error.start, "bytes that are not UTF-8; convert the file to UTF-8") from None


def _slow_float32(block: bytes, start: int, end: int, layout: Layout) -> float:
    """Parse the rare numbers that the compiled parser cannot round with certainty."""
    with np.errstate(over="ignore"):
        value = float(np.float32(float(block[start:end])))
    if math.isinf(value):
        raise bad_value(block, start, layout)
    return value


def _refuse_absent_labels(rows: Rows, block: bytes, row_starts: np.ndarray, layout: Layout) -> None:
    absent = np.flatnonzero(rows.values <= 0)
    if not len(absent):
        return
    row = int(np.searchsorted(rows.feature_ends, absent[0], side="right"))
    number = int(absent[0]) - _span(rows.feature_ends, row, row + 1).start
    raise not_positive(block, int(row_starts[row]), number, layout)


def _sort_rows(rows: Rows, block: bytes, row_starts: np.ndarray, layout: Layout) -> None:
    from labelspace.data.formats import scan as _scan

    no_values = np.empty(len(rows.labels), dtype=np.float32)
    row = _scan.sort_rows(rows.label_ends, rows.labels, no_values)
    if row >= 0:
        raise repeated_label(block, int(row_starts[row]), layout)
    row = _scan.sort_rows(rows.feature_ends, rows.features, rows.values)
    if row >= 0:
        raise repeated_feature(block, int(row_starts[row]), layout)
