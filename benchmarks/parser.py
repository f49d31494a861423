"""Speed and memory of the text parsers, compared with scikit-learn's on the same file.

    python benchmarks/parser.py [--rows N]

Throughputs are taken one after the other in one run, best of three; memory is the growth of a
fresh process's peak over what it holds after imports and a first small file. Writes
benchmarks/results/parser.json and parser.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from kept import best_seconds, markdown_table, provenance, write
from labelspace.data.dataset import Dataset
from labelspace.data.formats.xc import read_svmlight, read_xc, write_xc

N_FEATURES, N_LABELS = 135_909, 13_330
FEATURES_PER_ROW, LABELS_PER_ROW = 76, 5
ROWS_AT_A_TIME = 20_000
READERS: dict[str, Callable[[Path], Dataset]] = {"svmlight": read_svmlight, "xc": read_xc}


def random_rows(n_rows: int, n_columns: int, per_row: int, rng: np.random.Generator) -> csr_matrix:
    """Return rows of about `per_row` sorted distinct columns, small numbers more often."""
    draws = (n_columns * rng.random((n_rows, per_row)) ** 2).astype(np.int32)
    draws.sort(axis=1)
    fresh = np.ones(draws.shape, dtype=bool)
    fresh[:, 1:] = draws[:, 1:] != draws[:, :-1]
    indptr = np.concatenate([[0], np.cumsum(fresh.sum(axis=1))])
    values = rng.random(int(indptr[-1]), dtype=np.float32).round(6)
    return csr_matrix((values, draws[fresh], indptr), shape=(n_rows, n_columns))


def write_files(folder: Path, n_rows: int, seed: int = 0) -> dict[str, Path]:
    """Write the same random data as XC text and as svmlight."""
    rng = np.random.default_rng(seed)
    files = {"xc": folder / "data.txt", "svmlight": folder / "data.svm"}
    piece_file = folder / "piece.txt"
    with open(files["xc"], "wb") as xc, open(files["svmlight"], "wb") as svmlight:
        xc.write(f"{n_rows} {N_FEATURES} {N_LABELS}\n".encode())
        for start in range(0, n_rows, ROWS_AT_A_TIME):
            size = min(ROWS_AT_A_TIME, n_rows - start)
            labels = random_rows(size, N_LABELS, LABELS_PER_ROW, rng)
            features = random_rows(size, N_FEATURES, FEATURES_PER_ROW, rng)
            write_xc(Dataset(labels, features), piece_file)
            rows = piece_file.read_bytes().split(b"\n", 1)[1]
            xc.write(rows)
            svmlight.write(rows)
    piece_file.unlink()
    return files


def array_bytes(dataset: Dataset) -> int:
    """Return the size of the arrays of a data set."""
    matrices = [dataset.labels, dataset.features]
    return sum(m.data.nbytes + m.indices.nbytes + m.indptr.nbytes for m in matrices)


def kilobytes(field: str) -> int:
    """Read a field of /proc/self/status (Linux); a child process inherits ru_maxrss."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{field}:")[1].split()[0])


def measure_memory(kind: str, small: Path, path: Path) -> None:
    """Print the growth of the peak and the bytes of the result; to be run in a new process."""
    READERS[kind](small)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts from what is held now
    before = kilobytes("VmRSS")
    dataset = READERS[kind](path)
    growth = kilobytes("VmHWM") - before
    print(json.dumps({"peak_bytes": growth * 1024, "array_bytes": array_bytes(dataset)}))


def memory_of(kind: str, small: Path, path: Path) -> dict[str, float]:
    """Return what `measure_memory` prints in a new process, and the ratio."""
    command = [sys.executable, __file__, "--memory", kind, str(small), str(path)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    sizes: dict[str, float] = json.loads(printed)
    return {**sizes, "peak_over_arrays": round(sizes["peak_bytes"] / sizes["array_bytes"], 2)}


def measure(n_rows: int) -> dict[str, Any]:
    """Measure speed and memory of the readers on the same random data."""
    from sklearn.datasets import load_svmlight_file

    with tempfile.TemporaryDirectory() as folder:
        small_folder = Path(folder) / "small"
        small_folder.mkdir()
        files, small = write_files(Path(folder), n_rows), write_files(small_folder, 100)
        for kind, read in READERS.items():
            read(small[kind])  # compile before measuring
        megabytes = files["svmlight"].stat().st_size / 1e6
        seconds = {kind: best_seconds(lambda k=kind: READERS[k](files[k])) for kind in READERS}
        peer = best_seconds(lambda: load_svmlight_file(str(files["svmlight"]), multilabel=True), 1)
        return {
            **provenance(),
            "rows": n_rows,
            "megabytes": round(megabytes, 1),
            "cores": os.cpu_count(),
            "megabytes_per_second": {
                **{f"read_{kind}": round(megabytes / s, 1) for kind, s in seconds.items()},
                "sklearn_load_svmlight_file": round(megabytes / peer, 1),
            },
            "times_sklearn": {f"read_{k}": round(peer / s, 2) for k, s in seconds.items()},
            "memory": {f"read_{k}": memory_of(k, small[k], files[k]) for k in READERS},
        }


def as_markdown(result: dict[str, Any]) -> str:
    """Return the figures as Markdown."""
    rows = []
    for name, speed in result["megabytes_per_second"].items():
        ratio = result["times_sklearn"].get(name, 1)
        memory = result["memory"].get(name, {}).get("peak_over_arrays", "")
        rows.append([name, str(speed), str(ratio), str(memory)])
    head = ["reader", "MB/s", "times scikit-learn", "peak memory / arrays"]
    return (
        "# Parsing sparse text\n\n"
        f"{result['rows']} rows, {result['megabytes']} MB of text, {result['cores']} cores; "
        f"`python benchmarks/parser.py`.\n\n{markdown_table(head, rows)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--memory", nargs=3, metavar=("KIND", "SMALL", "FILE"))
    arguments = parser.parse_args()
    if arguments.memory:
        kind, small, path = arguments.memory
        return measure_memory(kind, Path(small), Path(path))
    result = measure(arguments.rows)
    write("parser", result, as_markdown(result))
    print(as_markdown(result))
    return None


if __name__ == "__main__":
    main()
