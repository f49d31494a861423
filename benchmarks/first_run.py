"""How long the first commands after an installation take, beside the same commands again.

    python benchmarks/first_run.py [TRAIN TEST] [--repeat 3]

Compiled loops are cached by numba. `train` and then `predict` run with an empty cache, and again
with the cache that they left; each is a whole command, with imports. Without files, the generated
shop of `make demo` is used. Figures are medians; `cpu` is processor time of all threads. Writes
benchmarks/results/first-run.json and .md.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from kept import keep
from labelspace.datasets.products import write_catalogue

COMMANDS = ("train", "predict")


def timed(arguments: list[str], cache: Path) -> np.ndarray:
    """Run a command with a cache of compiled loops; return its wall and processor seconds."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-m", "labelspace", *arguments]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, env=environment, capture_output=True)
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return np.array([seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime])


def measure(train: Path, test: Path, repeat: int, scratch: Path) -> None:
    """Run both commands with an empty and with a filled cache; keep the medians."""
    spent: dict[tuple[str, str], list[np.ndarray]] = {}
    for turn in range(repeat):
        cache, model = scratch / f"cache-{turn}", scratch / f"model-{turn}"
        given = {
            "train": [str(train), "--out", str(model)],
            "predict": [str(model), str(test), "--out", str(scratch / f"{turn}.jsonl")],
        }
        for run in ("first", "second"):
            for name in COMMANDS:
                spent.setdefault((name, run), []).append(timed([name, *given[name]], cache))
    rows = []
    for name in COMMANDS:
        first, second = (np.median(spent[name, run], axis=0) for run in ("first", "second"))
        figures = {
            "first s": first[0], "second s": second[0], "slower by s": first[0] - second[0],
            "first cpu s": first[1], "second cpu s": second[1],
        }  # fmt: skip
        own = {key: round(float(value), 2) for key, value in figures.items()}
        rows.append({"data": train.parent.name, "command": name, "runs": repeat, **own})
    keep("first-run", rows, ("data", "command"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE")
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    if len(given.files) not in (0, 2):
        parser.error("give two files, TRAIN and TEST, or none")
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        files = given.files
        if not files:
            files = list(write_catalogue(scratch / "shop")[:2])
        measure(*files, given.repeat, scratch)


if __name__ == "__main__":
    main()
