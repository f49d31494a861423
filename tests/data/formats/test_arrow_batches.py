"""Arrow data are read in blocks as they are row by row: same arrays, names, warnings and errors."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labelspace.data import Columns, Dataset, iter_batches, read
from labelspace.data.formats import arrow_batches
from labelspace.errors import DataError

N_ROWS = 40
WORDS = [
    "a",
    "b",
    "c",
    "a b",
    "é",
    "x,y",
    "a|b",
    "a | c|",
    "A > B",
    "A > B > C",
    "['p', 'q']",
    "[1]",
]
NUMBER_TYPES = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64()),
]

Cells = list[Any]
Maker = Callable[[random.Random, int], pa.Array]


def spoilt(cells: Cells, rng: random.Random, *faults: Any) -> Cells:
    """Put one of the faults into one of the cells, with some probability."""
    if rng.random() < 0.1:
        cells[rng.randrange(len(cells))] = rng.choice(faults)
    return cells


def strings(rng: random.Random, n: int, words: Cells | None = None) -> pa.Array:
    cells = [rng.choice([*(words or WORDS), None, ""]) for _ in range(n)]
    kind = rng.choice([pa.string(), pa.large_string(), pa.string_view()])
    array = pa.array(cells, pa.string())
    return array.dictionary_encode() if rng.random() < 0.2 else array.cast(kind)


def numbers(rng: random.Random, n: int) -> pa.Array:
    kind = rng.choice(NUMBER_TYPES)
    if pa.types.is_integer(kind):
        size = 2**63 - 1 if kind.bit_width == 64 else 2 ** (kind.bit_width - 1) - 1
        cells: Cells = [rng.choice([None, 0, 1, 7, rng.randrange(size)]) for _ in range(n)]
        return pa.array(cells, kind)
    cells = [rng.choice([None, 0.0, -1.5, rng.random(), float("nan")]) for _ in range(n)]
    cells = spoilt(cells, rng, float("inf"), -float("inf"))
    if kind == pa.float64():
        cells = spoilt(cells, rng, 1e39, 3.4028235e38, 3.4028236e38)
    return pa.array(cells, kind)


def odd(rng: random.Random, n: int) -> pa.Array:
    """Return a type that is seldom right."""
    makers: list[Callable[[], pa.Array]] = [
        lambda: pa.nulls(n),
        lambda: pa.array([rng.choice([True, False, None]) for _ in range(n)]),
        lambda: pa.array([rng.choice([Decimal("1.50"), Decimal("2.00"), None]) for _ in range(n)]),
        lambda: pa.array([rng.choice([b"x", None]) for _ in range(n)]),
        lambda: pa.array([{"x": 1}] * n),
        lambda: pa.array([[["x"]]] * n),
        lambda: pa.array([{"1": 1.0, "4": 2.0}] * n),
        lambda: pa.array([float("nan")] * n),
        lambda: numbers(rng, n),
    ]
    return rng.choice(makers)()


def name_lists(rng: random.Random, n: int) -> pa.Array:
    cells: Cells = [
        rng.choice([None, [], [rng.choice(WORDS[:6]) for _ in range(rng.randrange(5))]])
        for _ in range(n)
    ]
    cells = spoilt(cells, rng, ["a", None], [""], [None], ["A > B"])
    inner = rng.choice([pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())])
    kind = rng.choice([pa.list_(inner), pa.large_list(inner)])
    if rng.random() < 0.1:
        pairs = [None if rng.random() < 0.2 else [rng.choice(WORDS), "z"] for _ in range(n)]
        return pa.array(pairs, pa.list_(pa.string(), 2))
    if rng.random() < 0.2:
        small = [None if c is None else [len(str(x)) for x in c] for c in cells]
        return pa.array(small, pa.list_(rng.choice([pa.int16(), pa.uint64()])))
    return pa.array(cells, kind)


def cells_of(rng: random.Random, n: int) -> pa.Array:
    return rng.choices([strings, name_lists, numbers, odd], [4, 5, 1, 1])[0](rng, n)


def features(rng: random.Random, n: int) -> dict[str, pa.Array]:
    rows = [sorted(rng.sample(range(30), rng.randrange(6))) for _ in range(n)]
    if rng.random() < 0.3:
        for row in rows:
            rng.shuffle(row)
    values: Cells = [[rng.choice([0.5, 1.0, -2.0, 0.0]) for _ in row] for row in rows]
    indices: Cells = spoilt(list(rows), rng, [1, 1], [-1], [None], [31], None)
    values = spoilt(values, rng, [0.5], [None], [float("nan")], None)
    if rng.random() < 0.1:
        indices, values = [None] * n, [None] * n
    wide = rng.choice([pa.list_, pa.large_list])
    kinds = [pa.int8(), pa.int32(), pa.int64()] + [pa.uint16()] * ([-1] not in indices)
    first = pa.array(indices, wide(rng.choice(kinds)))
    kind = rng.choice([pa.float16(), pa.float32(), pa.float64(), pa.decimal128(5, 2)])
    try:
        second = pa.array(values, wide(kind))
    except pa.ArrowException:
        second = pa.array(values, wide(pa.float64()))
    return {"feature_indices": first, "feature_values": second}


def table_of(rng: random.Random) -> tuple[pa.Table, dict[str, Any]]:
    """Return a random table and the options with which it is read."""
    arrays: dict[str, pa.Array] = {"text": strings(rng, N_ROWS), "labels": cells_of(rng, N_ROWS)}
    options: dict[str, Any] = {}
    if rng.random() < 0.5:
        arrays["id"] = rng.choice([strings, numbers, odd])(rng, N_ROWS)
    if rng.random() < 0.3:
        arrays["more"] = rng.choices([strings, odd], [5, 1])[0](rng, N_ROWS)
        options["text"] = ("text", "more")
    if rng.random() < 0.4:
        arrays["brand"] = cells_of(rng, N_ROWS)
        options["labels"] = ("brand", "labels")
    if rng.random() < 0.4:
        levels = rng.randrange(1, 4)
        for level in range(levels):
            arrays[f"L{level}"] = (
                cells_of(rng, N_ROWS) if levels == 1 else strings(rng, N_ROWS, ["A", "B", "C"])
            )
        options["path"] = tuple(f"L{level}" for level in range(levels))
    if rng.random() < 0.3:
        arrays |= {"n0": numbers(rng, N_ROWS), "n1": rng.choice([numbers, odd])(rng, N_ROWS)}
        options["numbers"] = ("n0", "n1")
    if rng.random() < 0.4:
        arrays |= features(rng, N_ROWS)
    if rng.random() < 0.2:
        arrays["features"] = odd(rng, N_ROWS)
    if rng.random() < 0.2:
        options["label_separator"] = rng.choice([",", ""])
    if rng.random() < 0.2:
        options["path_separator"] = rng.choice([">", "", " "])
    read_options: dict[str, Any] = {"columns": Columns(**options)}
    if rng.random() < 0.3:
        read_options["require_labels"] = False
    if rng.random() < 0.3:
        read_options["label_names"] = ["c", "b", "zzz"]
        read_options["unknown_labels"] = rng.choice(["error", "extend", "drop"])
    if rng.random() < 0.2:
        read_options["n_features"] = rng.choice([10, 30])
    table = pa.table(arrays)
    start = rng.randrange(10)
    return pa.concat_tables([table.slice(start, 7), table.slice(start + 7)]), read_options


def same(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=True)
    if one.shape != other.shape:
        return False
    return all(
        same(getattr(one, part), getattr(other, part)) for part in ("data", "indices", "indptr")
    )


def assert_same(one: Dataset, other: Dataset) -> None:
    assert same(one.labels, other.labels)
    assert type(one.features) is type(other.features)
    assert same(one.features, other.features)
    for part in ("texts", "label_names", "ids", "taxonomy", "number_names"):
        assert getattr(one, part) == getattr(other, part), part


def result(action: Callable[[], Any], caplog: pytest.LogCaptureFixture) -> tuple[Any, list[str]]:
    """Return the result of a call or the error it raises, and what it logs."""
    caplog.clear()
    found: Any
    with caplog.at_level(logging.WARNING):
        try:
            found = action()
        except DataError as error:
            found = str(error)
    return found, [record.getMessage() for record in caplog.records]


@pytest.fixture
def by_rows(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[], Any]], Any]]:
    """Run something with every batch read row by row."""

    def run(action: Callable[[], Any]) -> Any:
        with monkeypatch.context() as patched:
            patched.setattr(arrow_batches, "add_batch", lambda *_: False)
            return action()

    return run


@pytest.mark.parametrize("seed", range(8))
def test_blocks_are_read_as_rows_are(
    tmp_path: Path,
    by_rows: Callable[[Callable[[], Any]], Any],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
) -> None:
    taken = []
    whole = arrow_batches.add_batch
    monkeypatch.setattr(arrow_batches, "LEAST_ROWS", 1)
    monkeypatch.setattr(
        arrow_batches, "add_batch", lambda *parts: taken.append(whole(*parts)) or taken[-1]
    )
    path = tmp_path / "t.parquet"
    rng = random.Random(seed)
    n_tables, failures = 60, 0
    for _ in range(n_tables):
        table, options = table_of(rng)
        source: Any = table
        if rng.random() < 0.7:
            pq.write_table(table, source := path)
        fast, notes = result(lambda s=source, o=options: read(s, **o), caplog)
        slow, slow_notes = by_rows(lambda s=source, o=options: result(lambda: read(s, **o), caplog))
        assert notes == slow_notes
        if isinstance(slow, str):
            failures += 1
            assert fast == slow
            continue
        assert_same(fast, slow)
        options["batch_size"] = rng.choice([1, 3, 16, 100])
        pieces = list(iter_batches(source, **options))
        slow_pieces = by_rows(lambda s=source, o=options: list(iter_batches(s, **o)))
        assert len(pieces) == len(slow_pieces)
        for piece, slow_piece in zip(pieces, slow_pieces, strict=True):
            assert_same(piece, slow_piece)
    assert sum(taken) > 0.5 * len(taken)  # otherwise nothing would have been compared
    assert 0 < failures < n_tables


@pytest.mark.parametrize("column", ["id", "text", "labels"])
def test_strings_that_are_not_utf8_are_refused_with_the_file(tmp_path: Path, column: str) -> None:
    valid = pa.array(["a"] * N_ROWS)
    broken = pa.array([b"a"] * (N_ROWS - 1) + [b"\xff"]).view(pa.string())
    cells = {name: broken if name == column else valid for name in ("id", "text", "labels")}
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(cells), path)
    with pytest.raises(DataError, match=r"t\.parquet: not a readable Parquet file"):
        read(path)
    with pytest.raises(DataError, match="the table: cannot be converted to Arrow"):
        read(pa.table(cells))


@pytest.mark.parametrize("reader", [read, lambda *a, **k: list(iter_batches(*a, **k))])
def test_a_table_without_known_columns(tmp_path: Path, reader: Callable[..., Any]) -> None:
    path = tmp_path / "t.parquet"
    table = pa.table({"other": [1] * N_ROWS})
    pq.write_table(table, path)
    for source in (path, table):
        with pytest.raises(DataError, match="neither a text column"):
            reader(source, require_labels=False)


@pytest.mark.parametrize(
    ("indices", "values", "message"),
    [
        ([1, 1], [0.5, 0.5], "feature 1 occurs twice"),
        ([2, 1, 2], [0.5, 0.5, 1.0], "feature 2 occurs twice"),
        ([-1], [0.5], "feature -1 is not one of 0 to 49"),
        ([50], [0.5], "feature 50 is not one of 0 to 49"),
        ([None], [0.5], "must hold whole numbers"),
        ([1], [None], "feature 1 has no value"),
        ([1], [float("nan")], "feature 1 has no value"),
        ([1], [float("inf")], "must be a finite 32-bit number"),
        ([1], [1e39], "must be a finite 32-bit number"),
        ([1, 2], [0.5], "2 feature indices for 1 values"),
        (None, None, "this row has no features"),
        ([1], None, "must be lists"),
    ],
)
def test_a_broken_row_of_features_is_named(
    tmp_path: Path, indices: Cells | None, values: Cells | None, message: str
) -> None:
    columns = {
        "labels": pa.array([["a"]] * N_ROWS),
        "feature_indices": pa.array([[3, 4]] * (N_ROWS - 1) + [indices], pa.list_(pa.int64())),
        "feature_values": pa.array([[1.0, 2.0]] * (N_ROWS - 1) + [values], pa.list_(pa.float64())),
    }
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(columns), path)
    with pytest.raises(DataError, match=message) as caught:
        read(path, n_features=50)
    assert caught.value.line == N_ROWS
    batches = iter_batches(path, batch_size=N_ROWS // 2, n_features=50)
    assert len(next(batches)) == N_ROWS // 2  # what comes before the row is read
    with pytest.raises(DataError, match=message):
        next(batches)
