"""Sparse text files: XC text, its split files, the newer matrix pairs, and svmlight.

    XC text    header `points features labels`, rows `l1,l2 f:v f:v`, counted from 0
    matrix     header `rows columns`, rows `i:v i:v`, counted from 0; a pair of them is a data set
    svmlight   no header, rows `l1,l2 f:v f:v  # comment`, features counted from 0 or 1

A row without labels begins with a blank. All files may be gzipped. Where there is a header, it
gives the number of rows, empty ones included; blank lines after them are ignored.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain, islice, pairwise
from typing import IO, Literal

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.streams import GZIP_MAGIC, PathLike, at_rest, opened, replacing
from labelspace.data.dataset import Dataset, IntArray
from labelspace.data.formats.blocks import (
    BYTE_ORDER_MARK,
    Rows,
    batches,
    counted,
    gather,
    newline_blocks,
    parse_blocks,
)
from labelspace.data.formats.layout import MAX_COLUMNS, TOKEN, Layout, quoted
from labelspace.errors import DataError, ParameterError

Format = Literal["xc", "matrix", "svmlight"]
ZeroBased = bool | Literal["auto"]

XC_HEADER = ("points", "features", "labels")
MATRIX_HEADER = ("rows", "columns")
HEADER_DIGITS = 18
SNIFFED_BYTES = 1 << 16
PRINTED_ITEMS = 1 << 18  # rows, labels and features that are printed at a time

_FEATURE = re.compile(rb"([0-9]+|qid):.*")
_LABELS = re.compile(rb"-?[0-9]+(,-?[0-9]+)*")


def read_xc(
    path: PathLike,
    *,
    n_features: int | None = None,
    n_labels: int | None = None,
    any_labels: bool = False,
) -> Dataset:
    """Read a whole XC text file; `n_features` and `n_labels`, if given, must be the header's.

    any_labels  leave out labels beyond the header's number instead of refusing them
    """
    with opened(path) as stream:
        expected = (None, n_features, n_labels)
        (n_rows, width, height), blocks = _header(stream, path, XC_HEADER, expected)
        bound = MAX_COLUMNS if any_labels else height
        rows = gather(_xc_rows(blocks, path, n_rows, width, bound), path)
        return _dataset(rows, width, height, path)


def iter_xc(path: PathLike, batch_size: int, *, any_labels: bool = False) -> Iterator[Dataset]:
    """Read XC text in batches, in memory that does not grow with the file.

    A fault in the file is raised when its place is reached: the batches before it are out by then.
    """
    with opened(path) as stream:
        (n_rows, width, height), blocks = _header(stream, path, XC_HEADER)
        bound = MAX_COLUMNS if any_labels else height
        for rows in batches(_xc_rows(blocks, path, n_rows, width, bound), batch_size):
            yield _dataset(rows, width, height, path)


def no_labels(n_rows: int, n_labels: int) -> csr_matrix:
    """Return the label matrix of examples without labels."""
    return csr_matrix((n_rows, n_labels), dtype=np.float32)


def read_matrix(path: PathLike) -> csr_matrix:
    """Read one matrix file."""
    return _read_matrix(path, positive_values=False)


def read_pair(features_path: PathLike | None, labels_path: PathLike | None) -> Dataset:
    """Read a data set from its two matrix files, of which one may be absent."""
    if labels_path is None:
        if features_path is None:
            raise ParameterError("a matrix pair needs the features or the labels")
        alone = read_matrix(features_path)
        return Dataset(no_labels(alone.shape[0], 0), alone, source=str(features_path))
    labels = _read_matrix(labels_path, positive_values=True)
    labels.data[:] = 1
    features = None if features_path is None else read_matrix(features_path)
    return Dataset(labels, features, source=str(labels_path))


def iter_pair(
    features_path: PathLike | None, labels_path: PathLike | None, batch_size: int
) -> Iterator[Dataset]:
    """Read a matrix pair in batches; one of the two files may be absent."""
    present = [path for path in (features_path, labels_path) if path is not None]
    with ExitStack() as files:
        matrices = []
        for path in present:
            stream = files.enter_context(opened(path))
            (n_rows, width), blocks = _header(stream, path, MATRIX_HEADER)
            rows = _matrix_rows(blocks, path, n_rows, width, positive_values=path is labels_path)
            matrices.append((n_rows, width, batches(rows, batch_size)))
        if len({n_rows for n_rows, _, _ in matrices}) > 1:
            message = f"{matrices[0][0]} rows, but {matrices[1][0]} in {labels_path}"
            raise DataError(message, path=str(features_path))
        for parts in zip(*(rows for _, _, rows in matrices), strict=True):
            widths = (width for _, width, _ in matrices)
            found = [part.feature_matrix(width) for part, width in zip(parts, widths, strict=True)]
            if labels_path is None:
                labels = no_labels(found[0].shape[0], 0)
            else:
                labels = found.pop()
                labels.data[:] = 1
            yield Dataset(labels, found[0] if found else None, source=str(present[-1]))


def read_svmlight(
    path: PathLike,
    *,
    n_features: int | None = None,
    n_labels: int | None = None,
    zero_based: ZeroBased = "auto",
    any_labels: bool = False,
) -> Dataset:
    """Read a whole svmlight file; sizes that are not given come from its largest numbers.

    zero_based  "auto" takes features to be counted from 1 unless one of them has the number 0
    any_labels  leave out labels of n_labels and above instead of refusing them
    """
    layout = _svmlight_layout(n_features, None if any_labels else n_labels, zero_based)
    with opened(path) as stream:
        rows = gather(_svmlight_rows(stream, path, layout), path)
    highest = int(rows.features.max(initial=-1))
    if zero_based == "auto":
        zero_based = bool(rows.features.min(initial=1) == 0)
        if (
            zero_based and highest == n_features
        ):  # too high: the scanner raises the error with its place
            return read_svmlight(path, n_features=n_features, zero_based=True)
    if not zero_based:
        rows.features[:] -= 1
        highest -= 1
    width = max(0, highest + 1) if n_features is None else n_features
    height = int(rows.labels.max(initial=-1)) + 1 if n_labels is None else n_labels
    return replace(_dataset(rows, width, height, path), index_base=0 if zero_based else 1)


def iter_svmlight(
    path: PathLike,
    batch_size: int,
    n_features: int,
    n_labels: int,
    *,
    zero_based: ZeroBased = "auto",
    any_labels: bool = False,
) -> Iterator[Dataset]:
    """Read svmlight in batches, in memory that does not grow; "auto" reads the file twice."""
    path = at_rest(path)
    bound = None if any_labels else n_labels
    if zero_based == "auto":
        zero_based = _counts_from_zero(path, _svmlight_layout(n_features, bound, "auto"))
    layout = _svmlight_layout(n_features, bound, zero_based)
    with opened(path) as stream:
        for rows in batches(_svmlight_rows(stream, path, layout), batch_size):
            rows.features[:] -= layout.first_feature
            yield _dataset(rows, n_features, n_labels, path)


def write_xc(dataset: Dataset, path: PathLike, before: Callable[[], object] | None = None) -> None:
    """Write XC text, gzipped if the name ends with .gz, without label names and ids.

    `before` is called when the file is complete and about to take its name.
    """
    from labelspace.data.formats.number_text import text_of

    if dataset.features is None and dataset.texts is not None:
        raise DataError("XC text holds features, not texts; make features of the texts first")
    n = len(dataset)
    features = csr_matrix((n, 0), dtype=np.float32)
    if dataset.features is not None:
        features = dataset.features
    sparse = isinstance(features, csr_matrix)
    items = features.indptr if sparse else np.arange(n + 1) * features.shape[1]
    cost = np.arange(n + 1) + dataset.labels.indptr + items
    cuts = np.searchsorted(cost, np.arange(0, cost[-1], PRINTED_ITEMS))
    with replacing(path, before) as out:
        out.write(f"{n} {features.shape[1]} {dataset.n_labels}\n".encode())
        for start, stop in pairwise([*np.unique(cuts).tolist(), n]):
            out.write(text_of(dataset.labels[start:stop], features[start:stop]))


def sniff(path_or_first_bytes: PathLike | bytes) -> Format | None:
    """Return the format of a file by its first two lines, None if it is none of these."""
    if isinstance(path_or_first_bytes, bytes):
        head = _unpacked_start(path_or_first_bytes)
    else:
        with opened(path_or_first_bytes) as stream:
            head = stream.read(SNIFFED_BYTES)
    head = head.removeprefix(BYTE_ORDER_MARK)
    first, second = [line.split() for line in (head + b"\n\n").split(b"\n")[:2]]
    if len(first) > 1 and all(word.isdigit() for word in first):
        # Plain numbers below plain numbers are a table, such as a split file.
        table = len(second) > 1 and all(word.isdigit() for word in second)
        formats: dict[int, Format] = {2: "matrix", 3: "xc"}
        return None if table else formats.get(len(first))
    return "svmlight" if _looks_like_svmlight(head) else None


def read_splits(path: PathLike) -> IntArray:
    """Read a split file (row numbers from 1, one column per split) as row numbers from 0."""
    table: list[list[int]] = []
    with opened(path) as stream:
        lines = chain.from_iterable(block.splitlines() for block in newline_blocks(stream, path))
        for line, text in enumerate(lines, start=1):
            numbers = _whole_numbers(text, 1, "expected row numbers from 1 on", path, line)
            if numbers and table and len(numbers) != len(table[0]):
                message = f"{len(numbers)} numbers, expected {len(table[0])} as in the lines above"
                raise DataError(message, path=str(path), line=line, column=1)
            if numbers:
                table.append(numbers)
    if not table:
        raise DataError("the file is empty; expected columns of row numbers", path=str(path))
    return np.array(table, dtype=np.int64) - 1


def take_split(dataset: Dataset, splits: IntArray, column: int = 0) -> Dataset:
    """Return the examples that one column of a split file names."""
    if not 0 <= column < splits.shape[1]:
        raise ParameterError(f"column: expected 0 to {splits.shape[1] - 1}, found {column}")
    rows = splits[:, column]
    wrong = np.flatnonzero((rows < 0) | (rows >= len(dataset)))
    if len(wrong):
        raise DataError(
            f"split {column} names row {rows[wrong[0]] + 1} at its place {wrong[0] + 1}, but there "
            f"are {len(dataset)} rows; does it belong to another data file?"
        )
    return dataset.take(rows)


def _header(
    stream: IO[bytes],
    path: PathLike,
    names: Sequence[str],
    expected: Sequence[int | None] = (),
) -> tuple[list[int], Iterator[bytes]]:
    """Return the numbers of the first line, and the blocks after it."""
    layout = f"expected a header `{' '.join(names)}`"
    blocks = newline_blocks(stream, path)
    first = next(blocks, b"")
    if not first:
        raise DataError(f"the file is empty; {layout}", path=str(path))
    line, _, rest = first.partition(b"\n")
    numbers = _whole_numbers(line, 0, layout, path, line=1)
    if len(numbers) != len(names):
        message = f"{layout} of {len(names)} numbers, found {len(numbers)}"
        raise DataError(message, path=str(path), line=1, column=1)
    columns = [word.start() + 1 for word in TOKEN.finditer(line)]
    for name, number, column in list(zip(names, numbers, columns, strict=True))[1:]:
        if number > MAX_COLUMNS:
            message = f"{number} {name} are too many: expected at most {MAX_COLUMNS}"
            raise DataError(message, path=str(path), line=1, column=column)
    for name, number, column, wanted in zip(names, numbers, columns, expected, strict=False):
        if wanted is not None and number != wanted:
            message = f"the header gives {number} {name}, expected {wanted}"
            raise DataError(message, path=str(path), line=1, column=column)
    return numbers, chain([rest] if rest else [], blocks)


def _whole_numbers(text: bytes, lowest: int, expected: str, path: PathLike, line: int) -> list[int]:
    numbers = []
    for word in TOKEN.finditer(text):
        digits = word.group()
        if not digits.isdigit() or len(digits) > HEADER_DIGITS or int(digits) < lowest:
            message = f"{expected}, found {quoted(digits)}"
            raise DataError(message, path=str(path), line=line, column=word.start() + 1)
        numbers.append(int(digits))
    return numbers


def _xc_rows(
    blocks: Iterable[bytes], path: PathLike, n_rows: int, n_features: int, n_labels: int
) -> Iterator[Rows]:
    layout = Layout(has_labels=True, last_feature=n_features - 1, last_label=n_labels - 1)
    return counted(parse_blocks(blocks, layout, path, first_line=2), n_rows, path)


def _read_matrix(path: PathLike, *, positive_values: bool) -> csr_matrix:
    with opened(path) as stream:
        (n_rows, width), blocks = _header(stream, path, MATRIX_HEADER)
        rows = _matrix_rows(blocks, path, n_rows, width, positive_values=positive_values)
        return gather(rows, path).feature_matrix(width)


def _matrix_rows(
    blocks: Iterable[bytes], path: PathLike, n_rows: int, width: int, *, positive_values: bool
) -> Iterator[Rows]:
    layout = Layout(has_labels=False, last_feature=width - 1, positive_values=positive_values)
    return counted(parse_blocks(blocks, layout, path, first_line=2), n_rows, path)


def _svmlight_layout(n_features: int | None, n_labels: int | None, zero_based: ZeroBased) -> Layout:
    if zero_based not in (True, False, "auto"):
        raise ParameterError(f'zero_based: expected True, False or "auto", found {zero_based!r}')
    for name, size in (("n_features", n_features), ("n_labels", n_labels)):
        if size is not None and not 0 <= size <= MAX_COLUMNS:
            raise ParameterError(f"{name}: expected 0 to {MAX_COLUMNS}, found {size}")
    width = MAX_COLUMNS if n_features is None else n_features
    lowest = int(not zero_based)  # "auto" allows the numbers of both ways to count
    highest = width - 1 if zero_based and zero_based != "auto" else width
    return Layout(
        has_labels=True,
        comments=True,
        first_feature=lowest,
        last_feature=min(highest, MAX_COLUMNS - 1),
        last_label=(MAX_COLUMNS if n_labels is None else n_labels) - 1,
    )


def _svmlight_rows(stream: IO[bytes], path: PathLike, layout: Layout) -> Iterator[Rows]:
    n_rows = 0
    for part in parse_blocks(newline_blocks(stream, path), layout, path):
        n_rows += len(part.label_ends)
        yield part
    if n_rows == 0:
        raise DataError("the file is empty; expected rows `l1,l2 f:v f:v`", path=str(path))


def _counts_from_zero(path: PathLike, layout: Layout) -> bool:
    with opened(path) as stream:
        parts = _svmlight_rows(stream, path, layout)
        return any(part.features.min(initial=1) == 0 for part in parts)


def _dataset(rows: Rows, n_features: int, n_labels: int, path: PathLike) -> Dataset:
    if rows.labels.max(initial=-1) < n_labels:
        labels = rows.label_matrix(n_labels)
    else:
        labels = rows.label_matrix(MAX_COLUMNS)[:, :n_labels]
    return Dataset(labels, rows.feature_matrix(n_features), source=str(path))


def _unpacked_start(data: bytes) -> bytes:
    """Return the first bytes of a file, decompressed as far as possible if it is gzip."""
    if not data.startswith(GZIP_MAGIC):
        return data[:SNIFFED_BYTES]
    try:
        return zlib.decompressobj(wbits=31).decompress(data, SNIFFED_BYTES)
    except zlib.error:
        return b""


def _looks_like_svmlight(head: bytes) -> bool:
    """Return whether the first two rows are labels and features, with a feature in one of them."""
    lines = (line.split(b"#")[0].split() for line in head.split(b"\n"))
    n_features = 0
    for words in islice(filter(None, lines), 2):
        features = words[1:] if _LABELS.fullmatch(words[0]) else words
        if not all(_FEATURE.fullmatch(word) for word in features[:2]):
            return False
        n_features += len(features)
    return n_features > 0
