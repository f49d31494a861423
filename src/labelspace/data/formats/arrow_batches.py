"""Arrow record batches into a Gatherer, column by column and without an object per number.

A batch in which anything is unusual (a null in a list, an index that occurs twice, an unknown
label, a rare type) is declined as a whole and then read row by row: the rules for rows define what
a cell means, and they alone raise the errors that name file and row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from labelspace.data.columns import FEATURE_INDICES, FEATURE_VALUES, FEATURES
from labelspace.data.gatherer import Block, Gatherer
from labelspace.data.rows import FLOAT32_OVERFLOW, INDEX, LARGEST_INDEX, RowParser
from labelspace.errors import DataError

LEAST_ROWS = 16  # below, reading row by row is as fast
_NO_LINE = 0  # errors found here are discarded, and raised again for the right row


class _DeclinedError(Exception):
    """The batch is to be read row by row."""


class _Tokens(NamedTuple):
    """Labels of all rows: positions in `names`, which are in order of appearance."""

    counts: np.ndarray  # per row
    codes: np.ndarray
    names: list[str]


def add_batch(gatherer: Gatherer, batch: Any) -> bool:
    """Add all rows of a record batch; return False, and add none, if it is to be read by rows."""
    import pyarrow as pa

    names = batch.schema.names
    if batch.num_rows < LEAST_ROWS or len(set(names)) < len(names):
        return False
    parser = gatherer.parser.fork()
    try:
        block = _block(batch, parser)
    except (_DeclinedError, DataError, pa.ArrowException, UnicodeError):
        return False
    if not gatherer.add_block(block):
        return False
    gatherer.parser = parser
    return True


def texts_of(batch: Any, columns: Sequence[str]) -> list[str] | None:
    """Return the text of each row; None if the batch is to be read by rows."""
    import pyarrow as pa

    names = batch.schema.names
    if len(set(names)) < len(names):
        return None
    cells = dict(zip(names, batch.columns, strict=True))
    try:
        return _texts([cells[name] for name in columns if name in cells], batch.num_rows)
    except (_DeclinedError, pa.ArrowException, UnicodeError):
        return None


def _block(batch: Any, parser: RowParser) -> Block:
    columns, n = parser.columns, batch.num_rows
    cells = dict(zip(batch.schema.names, batch.columns, strict=True))
    tokens = [
        _label_tokens(cells[column], column, parser) for column in columns.labels if column in cells
    ]
    edges: list[tuple[str, str]] = []
    if columns.path:
        found, edges = _path_tokens([cells.get(column) for column in columns.path], n, parser)
        tokens.append(found)
    labels = _merged(tokens, n)
    ids = _ids(cells.get(columns.id), n, parser)
    texts = _texts([cells[column] for column in columns.text if column in cells], n)
    if columns.numbers:
        indices, counts = np.empty(0, np.int32), np.zeros(n, np.int64)
        values = _numbers([cells.get(name) for name in columns.numbers], n, parser)
    else:
        indices, values, counts = _features(cells, n, parser)
    return Block(
        ids=ids,
        texts=texts,
        names=labels.names,
        codes=labels.codes,
        counts=labels.counts,
        edges=edges,
        indices=indices,
        values=values,
        feature_counts=counts,
    )


# Labels and category paths ---------------------------------------------------------------------


def _label_tokens(column: Any, name: str, parser: RowParser) -> _Tokens:
    kind = parser.columns.kind(name)
    column = _plain(column)
    if _is_list(column):
        counts, flat = _lists(column)
        codes, values = _encoded(flat)
        if (codes < 0).any():
            raise _DeclinedError
        return _Tokens(counts, codes, [kind + parser.name(v, name, _NO_LINE) for v in values])
    codes, values = _encoded(column)
    found = _parsed(codes, values, lambda value: parser.label_cell(value, name, _NO_LINE), parser)
    return _expanded(codes, [[kind + each for each in names] for names in found])


def _path_tokens(
    columns: Sequence[Any], n: int, parser: RowParser
) -> tuple[_Tokens, list[tuple[str, str]]]:
    """Return the prefixes of the category paths as labels, and their (child, parent) pairs."""
    levels: list[list[Any]]
    paths = [None if column is None else _plain(column) for column in columns]
    if len(paths) == 1 and paths[0] is not None and _is_list(paths[0]):
        codes, cells = _encoded_lists(paths[0])
        levels = [[cell] for cell in cells]
    else:
        by_column = [_encoded(path, n) for path in paths]
        keys = zip(*(codes.tolist() for codes, _ in by_column), strict=True)
        codes, distinct = _numbered(keys, n)
        levels = [
            [
                None if code < 0 else values[code]
                for code, (_, values) in zip(key, by_column, strict=True)
            ]
            for key in distinct
        ]
    found = _parsed(codes, levels, lambda each: parser.path_prefixes(each, _NO_LINE), parser)
    edges = [(child, parent) for path in found for parent, child in pairwise(path)]
    return _expanded(codes, found), edges


def _parsed(
    codes: np.ndarray, values: list[Any], parse: Callable[[Any], list[str]], parser: RowParser
) -> list[list[str]]:
    """Parse each distinct cell once; what the parser counts is counted for every row."""
    found = []
    occurrences = np.bincount(codes[codes >= 0], minlength=len(values)).tolist()
    for value, times in zip(values, occurrences, strict=True):
        gaps, empty = parser.path_gaps, parser.empty_names
        found.append(parse(value))
        parser.path_gaps += (times - 1) * (parser.path_gaps - gaps)
        parser.empty_names += (times - 1) * (parser.empty_names - empty)
    return found


def _expanded(codes: np.ndarray, names: list[list[str]]) -> _Tokens:
    """Return the labels of rows of which each holds the distinct cell of this code; -1 is none."""
    index: dict[str, int] = {}
    flat = [index.setdefault(name, len(index)) for cell in names for name in cell]
    sizes = np.array([*map(len, names), 0], np.int64)  # the last one is that of code -1
    counts = sizes[codes]
    starts = (np.cumsum(sizes) - sizes)[codes]
    shift = np.repeat(starts - (np.cumsum(counts) - counts), counts)
    places = np.arange(len(shift)) + shift
    return _Tokens(counts, np.array(flat, np.int64)[places], list(index))


def _merged(tokens: list[_Tokens], n: int) -> _Tokens:
    """Return the labels of several columns, those of a row one after the other."""
    if not tokens:
        return _Tokens(np.zeros(n, np.int64), np.empty(0, np.int64), [])
    if len(tokens) == 1:
        return tokens[0]
    names = [name for each in tokens for name in each.names]
    starts = accumulate((len(each.names) for each in tokens[:-1]), initial=0)
    codes = np.concatenate([t.codes + start for t, start in zip(tokens, starts, strict=True)])
    rows = np.concatenate([np.repeat(np.arange(n), each.counts) for each in tokens])
    codes = codes[np.argsort(rows, kind="stable")]
    used, first_places, codes = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first_places)  # in order of appearance
    new_code = np.empty(len(order), np.int64)
    new_code[order] = np.arange(len(order))
    counts = np.sum([each.counts for each in tokens], axis=0)
    return _Tokens(counts, new_code[codes], [names[code] for code in used[order]])


# Ids, texts and features -----------------------------------------------------------------------


def _ids(column: Any, n: int, parser: RowParser) -> list[str | None]:
    import pyarrow as pa

    if column is None:
        return [None] * n
    column = _plain(column)
    if pa.types.is_integer(column.type):
        column = column.cast(pa.string())
    if _is_string(column):
        return [each or None for each in _objects(column)]
    return [parser.id_cell(value, _NO_LINE) for value in column.to_pylist()]


def _texts(columns: Sequence[Any], n: int) -> list[str]:
    import pyarrow as pa

    parts = []
    for column in map(_plain, columns):
        if not pa.types.is_null(column.type):
            if not _is_string(column):
                raise _DeclinedError
            parts.append(_objects(column))
    if not parts:
        return [""] * n
    if len(parts) == 1:
        return [text or "" for text in parts[0]]
    return ["\n".join(filter(None, each)) for each in zip(*parts, strict=True)]


def _numbers(columns: Sequence[Any], n: int, parser: RowParser) -> np.ndarray:
    """Return the numeric columns as float32, row by row, NaN for missing values."""
    found = np.full((n, len(columns)), np.nan, np.float32)
    for place, column in enumerate(columns):
        if column is None:
            continue
        column = _plain(column)
        if _is_number(column):
            found[:, place] = _float32(column)
        else:
            name = parser.columns.numbers[place]
            found[:, place] = [parser.number(v, name, _NO_LINE) for v in column.to_pylist()]
    found[np.isnan(found)] = np.nan  # one bit pattern, so that digests of equal data are equal
    return found.ravel()


def _float32(column: Any) -> np.ndarray:
    """Return numbers as float32, NaN for nulls; decline those that are not finite in 32 bits."""
    import pyarrow as pa

    if pa.types.is_integer(column.type) and column.null_count:
        column = column.cast(pa.float64(), safe=False)
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind != "f":
        values = values.astype(np.float64)  # as Python's numbers are rounded: to 64 bits, then 32
    limit = FLOAT32_OVERFLOW if values.dtype == np.float64 else np.inf
    if (np.abs(values) >= limit).any():
        raise _DeclinedError
    return np.asarray(values.astype(np.float32, copy=False))


def _features(
    cells: dict[str, Any], n: int, parser: RowParser
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return indices, values and the number of sparse features per row."""
    _decline_feature_objects(cells.get(FEATURES))
    columns = [cells.get(FEATURE_INDICES), cells.get(FEATURE_VALUES)]
    nulls = [n if column is None else column.null_count for column in columns]
    has_features = nulls == [0, 0]
    if not has_features and nulls != [n, n]:
        raise _DeclinedError
    if parser.has_features not in (None, has_features):
        raise _DeclinedError
    parser.has_features = has_features
    if not has_features:
        return np.empty(0, np.int32), np.empty(0, np.float32), np.zeros(n, np.int64)
    (counts, flat_indices), (value_counts, flat_values) = map(_lists, map(_plain, columns))
    if flat_indices.null_count or flat_values.null_count or (counts != value_counts).any():
        raise _DeclinedError
    if not len(flat_indices):
        return np.empty(0, np.int32), np.empty(0, np.float32), counts
    if not (_is_integer(flat_indices) and _is_number(flat_values)):
        raise _DeclinedError
    indices, values = flat_indices.to_numpy(zero_copy_only=False), _float32(flat_values)
    width = LARGEST_INDEX + 1 if parser.n_features is None else parser.n_features
    if (indices < 0).any() or (indices >= width).any() or np.isnan(values).any():
        raise _DeclinedError
    indices = indices.astype(np.int32, copy=False)
    if _has_duplicates(indices, counts):
        raise _DeclinedError
    return indices, values, counts


def _decline_feature_objects(column: Any) -> None:
    """Decline a column `features` in which rows may hold an object from indices to numbers."""
    import pyarrow as pa

    if column is None or pa.types.is_primitive(column.type) or _is_string(column):
        return
    if pa.types.is_struct(column.type):
        fields = [column.type.field(place).name for place in range(column.type.num_fields)]
        if not all(INDEX.fullmatch(name) for name in fields):
            return  # a field of another meaning
    elif _is_list(column) or pa.types.is_map(column.type) or pa.types.is_null(column.type):
        return
    raise _DeclinedError


def _has_duplicates(indices: np.ndarray, counts: np.ndarray) -> bool:
    """Return whether an index occurs twice in a row."""
    increasing = np.diff(indices) > 0
    ends = np.cumsum(counts)[:-1]
    increasing[ends[(ends > 0) & (ends < len(indices))] - 1] = True  # from one row to the next
    if increasing.all():
        return False
    rows = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((indices, rows))
    indices, rows = indices[order], rows[order]
    return bool(((indices[1:] == indices[:-1]) & (rows[1:] == rows[:-1])).any())


# Arrow arrays ----------------------------------------------------------------------------------


def _plain(column: Any) -> Any:
    """Return the array without dictionary encoding, and strings in a layout that NumPy takes."""
    import pyarrow as pa

    if isinstance(column, pa.ExtensionArray) or pa.types.is_run_end_encoded(column.type):
        raise _DeclinedError
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column.cast(pa.large_string()) if pa.types.is_string_view(column.type) else column


def _encoded(column: Any, n: int = 0) -> tuple[np.ndarray, list[Any]]:
    """Return a code per cell, -1 for null, and the distinct values in order of appearance.

    None means a column of `n` nulls.
    """
    import pyarrow as pa

    if column is None or pa.types.is_null(column.type):
        return np.full(n if column is None else len(column), -1), []
    encoded = _plain(column).dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return codes.astype(np.int64), _objects(encoded.dictionary)


def _encoded_lists(column: Any) -> tuple[np.ndarray, list[list[Any]]]:
    """Return a code per list, -1 for null, and the distinct lists in order of appearance."""
    counts, flat = _lists(column)
    codes, values = _encoded(flat)
    elements = codes.tolist()
    ends = np.concatenate([[0], np.cumsum(counts)]).tolist()
    keys = (tuple(elements[start:end]) for start, end in pairwise(ends))
    lists, distinct = _numbered(keys, len(column))
    lists[column.is_null().to_numpy(zero_copy_only=False)] = -1
    return lists, [[None if code < 0 else values[code] for code in key] for key in distinct]


def _numbered(keys: Iterable[tuple[int, ...]], n: int) -> tuple[np.ndarray, list[tuple[int, ...]]]:
    """Return a number per key, and the distinct keys in order of appearance."""
    index: dict[tuple[int, ...], int] = {}
    numbers = np.fromiter((index.setdefault(key, len(index)) for key in keys), np.int64, n)
    return numbers, list(index)


def _lists(column: Any) -> tuple[np.ndarray, Any]:
    """Return the lengths of lists, 0 for null, and their elements one after the other."""
    import pyarrow.compute as pc

    if not _is_list(column):
        raise _DeclinedError
    counts = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    return counts.astype(np.int64), _plain(column.flatten())


def _objects(column: Any) -> list[Any]:
    """Return the values as Python objects; strings fast."""
    if not _is_string(column):
        return list(column.to_pylist())
    return list(column.to_numpy(zero_copy_only=False).tolist())


def _is_string(column: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))


def _is_list(column: Any) -> bool:
    import pyarrow as pa

    kind = column.type
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _is_integer(column: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(column.type))


def _is_number(column: Any) -> bool:
    import pyarrow as pa

    return _is_integer(column) or bool(pa.types.is_floating(column.type))
