"""Speed of reading Parquet, compared with the same reader row by row.

    python benchmarks/parquet.py [--rows N]

The row-by-row twin turns every cell into a Python object and checks one row at a time, as JSON
lines are read. The two run alternately in one process; the figures are processor seconds, the best
of each, and their ratio. Writes benchmarks/results/parquet.json and parquet.md.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.sparse import csr_matrix

from kept import Row, keep
from labelspace.data import Columns, Dataset, read
from labelspace.data.formats import arrow_batches
from labelspace.datasets.products import product_records

N_FEATURES, N_LABELS = 135_909, 13_330
FEATURES_PER_ROW, LABELS_PER_ROW = 76, 5
REPEATS = 5


def random_lists(
    n_rows: int, n_columns: int, per_row: int, rng: np.random.Generator
) -> pa.ListArray:
    """Draw lists of sorted distinct numbers below `n_columns`, small ones more often."""
    draws = (n_columns * rng.random((n_rows, per_row)) ** 2).astype(np.int32)
    draws.sort(axis=1)
    fresh = np.ones(draws.shape, dtype=bool)
    fresh[:, 1:] = draws[:, 1:] != draws[:, :-1]
    offsets = np.concatenate([[0], np.cumsum(fresh.sum(axis=1))]).astype(np.int32)
    return pa.ListArray.from_arrays(offsets, draws[fresh])


def number_table(n_rows: int) -> pa.Table:
    """Return a table of sparse features and label numbers, all as lists."""
    rng = np.random.default_rng(0)
    indices = random_lists(n_rows, N_FEATURES, FEATURES_PER_ROW, rng)
    values = rng.random(len(indices.values), dtype=np.float32)
    columns = {
        "labels": random_lists(n_rows, N_LABELS, LABELS_PER_ROW, rng),
        "feature_indices": indices,
        "feature_values": pa.ListArray.from_arrays(indices.offsets, values),
    }
    return pa.table(columns)


def name_table(n_rows: int) -> pa.Table:
    """Return a table of products: id, title, label names, category path and brand."""
    return pa.Table.from_pylist(list(islice(product_records(n_rows), n_rows)))


def dense_table(n_rows: int) -> pa.Table:
    """Return a table of twenty numeric columns with missing values, and one label column."""
    rng = np.random.default_rng(0)
    columns = {
        f"x{i}": pa.array(rng.standard_normal(n_rows), mask=rng.random(n_rows) < 0.05)
        for i in range(20)
    }
    return pa.table({**columns, "labels": pa.array(rng.integers(0, 50, n_rows))})


CASES: dict[str, tuple[Callable[[int], pa.Table], Columns]] = {
    "sparse features and label numbers": (number_table, Columns()),
    "texts, ids and label names": (name_table, Columns()),
    "texts, category paths and brands": (name_table, Columns(path=("path",), labels=("brand",))),
    "numeric columns": (
        dense_table,
        Columns(numbers=tuple(f"x{i}" for i in range(20))),
    ),
}


@contextmanager
def row_by_row() -> Iterator[None]:
    """Decline every batch, so that its rows are read one by one."""
    original = arrow_batches.add_batch
    arrow_batches.add_batch = lambda *_: False
    try:
        yield
    finally:
        arrow_batches.add_batch = original


def seconds(action: Callable[[], Dataset]) -> tuple[float, Dataset]:
    """Return the processor time of a call, which other processes disturb least, and its result."""
    start = time.process_time()
    dataset = action()
    return time.process_time() - start, dataset


def require_equal(one: Dataset, other: Dataset) -> None:
    """Raise unless both data sets have the same arrays, texts and names."""
    pairs = [(one.labels, other.labels)]
    if isinstance(one.features, csr_matrix):
        pairs.append((one.features, other.features))
    for left, right in pairs:
        for part in ("data", "indices", "indptr"):
            assert np.array_equal(getattr(left, part), getattr(right, part))
    if isinstance(one.features, np.ndarray):
        assert np.array_equal(one.features, other.features, equal_nan=True)
    assert one.texts == other.texts
    assert one.label_names == other.label_names
    assert one.ids == other.ids


def measure(name: str, n_rows: int, folder: Path) -> Row:
    """Measure one kind of table."""
    make, columns = CASES[name]
    path = folder / "table.parquet"
    pq.write_table(make(n_rows), path)
    fast_times, slow_times = [], []
    for _ in range(REPEATS):
        duration, fast = seconds(lambda: read(path, columns=columns))
        fast_times.append(duration)
        with row_by_row():
            duration, slow = seconds(lambda: read(path, columns=columns))
        slow_times.append(duration)
        require_equal(fast, slow)
    best, best_slow = min(fast_times), min(slow_times)
    return {
        "table": name,
        "rows": n_rows,
        "seconds": round(best, 3),
        "seconds row by row": round(best_slow, 3),
        "times faster": round(best_slow / best, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(name, arguments.rows, Path(folder)) for name in CASES]
    keep("parquet", rows, keys=("table", "rows"))


if __name__ == "__main__":
    main()
