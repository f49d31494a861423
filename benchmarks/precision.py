"""Label vectors of `glas` in 32, 16 and 8 bits: precision, size, search.

    python benchmarks/precision.py FOLDER... [--seed 0]

The same training with each `precision`: the vectors are encoded once it is over, before the index
is built and the scores are calibrated. Figures are those of the test file. Rows are kept in
results/precision.json and .md.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import labelspace as ls
from kept import Row, keep
from labelspace.comparison.timing import timed
from labelspace.data import read_split
from labelspace.search.stored_vectors import PRECISIONS

METRICS = ("P@1", "P@3", "P@5", "PSP@5")


def measure(folder: Path, precision: str, seed: int) -> Row:
    train, test = read_split(folder)
    start = time.perf_counter()
    tagger = ls.train(train, method="glas", precision=precision, seed=seed, progress=False)
    seconds = time.perf_counter() - start
    found = tagger.evaluate(test)
    method, X = tagger.method, tagger.pipeline.transform(test)
    with tempfile.TemporaryDirectory() as place:
        tagger.save(Path(place) / "model")
        size = (Path(place) / "model" / "method.safetensors").stat().st_size
    vectors = sum(a.nbytes for name, a in method.state().items() if name.startswith("vectors."))
    times = timed(method.predict, X, 5)[1]
    return {
        "set": folder.name,
        "precision": precision,
        "seed": seed,
        **{name: found[name] for name in METRICS},
        "ECE": found["calibration"]["ECE"],
        "one_ms_p50": times["one_ms_p50"],
        "batch_ms": times["batch_ms"],
        "vectors_mb": vectors / 1e6,
        "method_mb": size / 1e6,
        "train_s": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for folder in given.folders:
        for precision in PRECISIONS:
            row = measure(folder, precision, given.seed)
            keep("precision", [row], ("set", "precision", "seed"))


if __name__ == "__main__":
    main()
