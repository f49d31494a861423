"""Time and memory of every phase against the number of labels and of examples.

    python benchmarks/scale.py [--methods NAME,...] [--peers NAME,...] [--labels N,...]
        [--points N,...] [--limit SECONDS] [--again NAMES] [--once] [--report]

The data are generated sparse examples with planted structure (`labelspace data synth --kind
sparse`), in files that are kept in --data. Every run has two processes of its own
(`scale_phases.py`): one reads, computes features, trains, saves and predicts in a batch; another
one starts with files that are not in memory (`posix_fadvise`), loads the model and answers single
queries. Then several processes hold the model at once, and the memory that each has of its own and
its share of what they share (PSS) are read from the kernel. Peers are trained and queried as
`labelspace compare` does. A run that compiled loops is repeated (not with --once); one of more
than --limit seconds is stopped.

There is a run for every pair of --labels and --points. Finished runs, also those that failed, are
kept in results/scale-runs.json, and a command that is repeated runs what is missing; --again NAMES
discards those of these methods first. results/scale.json and .md have a row per run and log-log
slopes, results/scale-labels.png and scale-points.png the curves. `--report` writes these alone.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kept import RESULTS, Row, keep, kept, markdown_table, table, write
from labelspace._core.files import private_folder
from labelspace._core.scratch import scratch_folder
from labelspace._core.sparse import as_csr, pack_csr
from labelspace.comparison.compare import DataFiles, Entrant, machine
from labelspace.comparison.peers import PEERS, installed
from labelspace.comparison.runs import in_own_process, run
from labelspace.data import read
from labelspace.datasets.sparse import SparseShape, write_sparse
from labelspace.errors import LabelspaceError
from scale_phases import memory_of

RUNS = "scale-runs"
KEYS = ("method", "labels", "points", "processor")
LABELS, POINTS = (10_000, 100_000, 1_000_000), (100_000,)
FEATURES, TEST = 135_909, 2_000  # features as in Amazon-670K; examples to predict
TAIL = 0.6  # of label frequencies, as in the Amazon sets
HOLDERS = 3  # processes that hold a model at once
COMPILED_AT_MOST = 2  # runs in a row that compile loops, before the last one is taken
SETTINGS = {"features": None, "propensity": [0.6, 2.6], "propensity_from": "train"}
# Fewer dimensions and epochs than by default, so that a million labels fit into 8 GB and 5 minutes.
PARAMETERS: dict[str, dict[str, Any]] = {"glas": {"dim": 128, "epochs": 2}}
SECONDS = {
    "read_s": "read", "features_s": "features", "graph_s": "of fit: graph",
    "index_s": "of fit: index", "fit_s": "fit", "save_s": "save", "load_s": "load",
    "first_s": "load and answer",
}  # fmt: skip
MILLISECONDS = {"batch_ms": "batch", "one_ms_p50": "single p50", "one_ms_p99": "single p99"}
MEGABYTES = {
    "read_mb": "read", "features_mb": "features", "fit_mb": "fit", "save_mb": "save",
    "batch_mb": "predict", "model_mb": "on disk", "rss_mb": "loaded, resident",
    "pss_mb": "loaded, share (PSS)", "anonymous_mb": "loaded, own",
}  # fmt: skip


class Bench:
    """Runs on generated data of one shape."""

    def __init__(
        self, labels: int, points: int, data: Path, limit: float, *, once: bool = False
    ) -> None:
        self.labels, self.points, self.limit, self.once = labels, points, limit, once
        self.shape = SparseShape(points, FEATURES, labels, tail_exponent=TAIL)
        self.train = data / f"{labels}-{points}.txt"
        self.test = data / f"{labels}-{points}-test.txt"
        self.own = {"labels": labels, "points": points, "processor": machine()["processor"]}

    def write(self) -> None:
        """Write the data, unless they are there."""
        test = SparseShape(TEST, FEATURES, self.labels, tail_exponent=TAIL)
        for shape, path, start in ((self.shape, self.train, 0), (test, self.test, self.points)):
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                write_sparse(shape, path, start=start)

    def is_done(self, method: str) -> bool:
        own = {"method": method, **self.own}
        return any(own.items() <= row.items() for row in kept(RUNS))

    def measure(self, method: str) -> None:
        """Run a method or a peer and keep its figures, or its error."""
        self.write()
        found: Row = {"method": method, **self.own}
        with scratch_folder("scale") as folder:
            try:
                figures = (
                    self._peer(method, folder) if method in PEERS else self._warm(method, folder)
                )
                found |= {name: rounded(value) for name, value in figures.items()}
            except LabelspaceError as error:
                found["error"] = str(error)
        keep(RUNS, [found], KEYS)

    def _warm(self, method: str, folder: Path) -> Row:
        """Run a method, and again as long as it compiles loops."""
        for _ in range(COMPILED_AT_MOST):
            before = compiled_loops()
            figures = self._method(method, folder)
            if self.once or compiled_loops() == before:
                break
        return figures

    def _method(self, method: str, folder: Path) -> Row:
        model, queries = folder / "model", folder / "queries.npz"
        parameters = PARAMETERS.get(method, {})
        job = {"method": method, "parameters": parameters, "model": str(model)}
        files = {"train": str(self.train), "test": str(self.test)}
        figures = process("train", {**job, **files}, folder, self.limit)
        X = as_csr(read(self.test).features)
        np.savez(queries, **pack_csr("X", X))
        job |= {"queries": str(queries), "wait": False}
        for verify in (True, False):
            drop_from_memory(model)
            started = process("start", {**job, "verify": verify}, folder, self.limit)
            name = "verified" if verify else ""
            figures |= {f"{name}_{key}".strip("_"): value for key, value in started.items()}
        return {**figures, **shared_memory({**job, "verify": False}, folder)}

    def _peer(self, peer: str, folder: Path) -> Row:
        files = DataFiles(folder, read(self.train), read(self.test))
        found = run(files.job(Entrant(peer, "peer"), 0, SETTINGS), folder, self.limit)
        costs = ("batch_ms", "one_ms_p50", "one_ms_p99", "model_mb", "P@1", "P@5")
        own = {"fit_s": found["train_s"], "fit_mb": found["peak_mb"]}
        return {**own, **{name: found[name] for name in costs}}


def process(kind: str, job: Row, folder: Path, limit: float | None) -> Row:
    """Run `scale_phases.py` in a process of its own and return its figures."""
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
    return in_own_process(command(kind, folder), folder, limit)


def command(kind: str, folder: Path) -> list[str]:
    return [sys.executable, str(Path(__file__).with_name("scale_phases.py")), kind, str(folder)]


def drop_from_memory(folder: Path) -> None:
    """Ask the kernel to drop the files of a model from its cache."""
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def shared_memory(job: Row, folder: Path) -> Row:
    """Return the memory of processes that hold the model at once, in MB: means over them."""
    with contextlib.ExitStack() as stack:
        found = [process_that_waits(job, folder / f"holder-{i}", stack) for i in range(HOLDERS)]
        memory = [memory_of(each.pid) for each in found]
    return {name: float(np.mean([each[name] for each in memory])) for name in memory[0]}


def process_that_waits(
    job: Row, folder: Path, stack: contextlib.ExitStack
) -> subprocess.Popen[bytes]:
    """Start a process that loads and answers, and return it when it has answered."""
    folder.mkdir(exist_ok=True)
    (folder / "job.json").write_text(json.dumps({**job, "wait": True}), encoding="utf-8")
    written = folder / "result.json"
    written.unlink(missing_ok=True)
    started = stack.enter_context(
        subprocess.Popen(command("start", folder), stdin=subprocess.PIPE)
    )  # its input is closed, and it is waited for, when the stack is left
    while not written.exists() or not written.read_bytes().endswith(b"}"):
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = started.wait(0.1)
            raise LabelspaceError(f"a process that loads the model ended with code {code}")
    return started


def compiled_loops() -> dict[str, int]:
    """Return the index files of numba's cache, and when they were written."""
    folder = Path(os.environ["NUMBA_CACHE_DIR"])
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*.nbi")}


def rounded(value: Any) -> Any:
    """Return a number with four significant digits."""
    return float(f"{value:.4g}") if isinstance(value, float) else value


def slope(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Return the slope of the line through log sizes and log costs, by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def series(rows: Sequence[Row], by: str) -> dict[tuple[str, int, str], list[Row]]:
    """Return the runs that differ in `by` alone, by method, the other size, and processor."""
    other = "points" if by == "labels" else "labels"
    found: dict[tuple[str, int, str], list[Row]] = {}
    for row in sorted(rows, key=lambda row: row[by]):
        if "error" not in row:
            found.setdefault((row["method"], row[other], row["processor"]), []).append(row)
    return {key: group for key, group in found.items() if len(group) > 1}


def slopes(rows: Sequence[Row]) -> list[Row]:
    """Return log-log slopes of all costs, a row per series."""
    found = []
    for by in ("labels", "points"):
        for (method, size, processor), group in series(rows, by).items():
            sizes = [row[by] for row in group]
            other = "points" if by == "labels" else "labels"
            own: Row = {"method": method, "against": by, other: size, "sizes": sizes}
            for cost in (*SECONDS, *MILLISECONDS, *MEGABYTES):
                costs = [row.get(cost) or 0.0 for row in group]
                if min(costs) > 0:
                    own[cost] = round(slope(sizes, costs), 2)
            found.append({**own, "processor": processor})
    return found


def report(rows: Sequence[Row]) -> None:
    """Write all runs and slopes as JSON and Markdown, and the curves."""
    rows = sorted(rows, key=lambda row: (row["method"], row["points"], row["labels"]))
    good, steep = [row for row in rows if "error" not in row], slopes(rows)
    parts = []
    for title, names in (
        ("Seconds", SECONDS),
        ("Milliseconds per answer", MILLISECONDS),
        ("Memory in MB: peaks of phases, and the model", MEGABYTES),
    ):
        head = ["method", "labels", "examples", *names.values()]
        cells = [
            [row["method"], f"{row['labels']:,}", f"{row['points']:,}", *_cells(row, names)]
            for row in good
        ]
        parts.append(f"# {title}\n\n{markdown_table(head, cells)}")
        head = ["method", "against", *names.values()]
        cells = [[row["method"], row["against"], *_cells(row, names)] for row in steep]
        parts.append(f"Log-log slopes:\n\n{markdown_table(head, cells)}")
    failed = [row for row in rows if "error" in row]
    if failed:
        parts.append(f"# Runs that failed\n\n{table(failed)}")
    write("scale", {"runs": rows, "slopes": steep}, "\n".join(parts))
    for by in ("labels", "points"):
        if groups := series(rows, by):
            (RESULTS / f"scale-{by}.png").write_bytes(draw(groups, by))


def _cells(row: Row, names: Any) -> Iterator[str]:
    for name in names:
        value = row.get(name)
        yield "" if value is None else f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def draw(groups: dict[tuple[str, int, str], list[Row]], by: str) -> bytes:
    """Return a PNG of training time, memory, latency and first answer against a size."""
    from matplotlib.figure import Figure

    from labelspace.plots.pictures import picture_file

    shown = {
        "fit_s": "fit, seconds",
        "fit_mb": "fit, peak in MB",
        "one_ms_p50": "single answer, milliseconds",
        "first_s": "load and first answer after a cold start, seconds",
    }
    figure = Figure(figsize=(9.6, 7.2), layout="constrained")
    for axes, (cost, title) in zip(figure.subplots(2, 2).flat, shown.items(), strict=True):
        for (method, _, _), rows in groups.items():
            points = [(row[by], row[cost]) for row in rows if row.get(cost)]
            if points:
                axes.plot(*zip(*points, strict=True), marker="o", label=method)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("labels" if by == "labels" else "training examples")
        axes.set_title(title, fontsize=10)
        axes.grid(alpha=0.3, which="both")
    figure.axes[0].legend(fontsize=8)
    return picture_file(figure, "png")


def discard(methods: Sequence[str], shapes: Sequence[tuple[int, int]]) -> None:
    """Remove the runs of these methods on data of these shapes."""
    rows = [
        row
        for row in kept(RUNS)
        if row["method"] not in methods or (row["labels"], row["points"]) not in shapes
    ]
    write(RUNS, rows, table(rows))


def numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",") if each]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--methods", default="knn,hierarchicalxc,linear,glas,fusion")
    parser.add_argument("--peers", default="omikuji,pecos")
    parser.add_argument("--labels", type=numbers, default=LABELS, help="10000,100000,1000000")
    parser.add_argument("--points", type=numbers, default=POINTS, help="training examples")
    parser.add_argument("--limit", type=float, default=300.0, help="most seconds per process")
    parser.add_argument("--data", type=Path, default=Path("data/scale"), help="folder for files")
    parser.add_argument("--again", default="", metavar="NAMES", help="methods to measure anew")
    parser.add_argument("--once", action="store_true", help="keep runs that compiled loops")
    parser.add_argument("--report", action="store_true", help="only write tables and plots")
    options = parser.parse_args()
    os.environ.setdefault("NUMBA_CACHE_DIR", str(private_folder("labelspace-scale-compiled")))
    methods = [name for name in options.methods.split(",") if name]
    if not options.report:
        systems = [*methods, *installed([name for name in options.peers.split(",") if name])]
        shapes = [(labels, points) for points in options.points for labels in options.labels]
        discard([name for name in options.again.split(",") if name], shapes)
        for labels, points in shapes:
            bench = Bench(labels, points, options.data, options.limit, once=options.once)
            for system in systems:
                if not bench.is_done(system):
                    bench.measure(system)
    report(kept(RUNS))


if __name__ == "__main__":
    main()
