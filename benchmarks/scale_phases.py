"""One run of `scale.py` in a process of its own: the phases of a training, or a cold start.

    python benchmarks/scale_phases.py train FOLDER
    python benchmarks/scale_phases.py start FOLDER

FOLDER has `job.json`, and the figures are written there as `result.json`: seconds by phase, and the
peak of resident memory in each, in MB. `start` loads a model in a new process and answers; it then
waits for the end of standard input, so that the caller can measure memory that processes share.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from labelspace._core.peak import peak_bytes

ONE_AT_A_TIME = 500  # single examples to predict
K = 5
# What builds an index or a label graph within `fit`: module, then attributes.
BUILDERS = {
    "index": (
        ("labelspace.methods.glas.method", "build_index"),
        ("labelspace.search.neighbours.compressed", "CompressedExamples.build"),
        ("labelspace.search.neighbours.sparse", "SparseNeighbours.of"),
        ("labelspace.search.neighbours.bounded", "BoundedNeighbours.of"),
    ),
    "graph": (("labelspace.labels.cooccurrence", "CooccurrenceTarget.__init__"),),
}


class Phases:
    """Seconds and peak memory of phases."""

    def __init__(self) -> None:
        self.figures: dict[str, float] = {}
        self.reset = Path("/proc/self/clear_refs").exists()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure what is done within."""
        if self.reset:  # the kernel's peak of resident memory begins anew
            Path("/proc/self/clear_refs").write_text("5")
        start = time.perf_counter()
        yield
        self.figures[f"{name}_s"] = time.perf_counter() - start
        self.figures[f"{name}_mb"] = peak_bytes() / 1e6


def add_times_of_builders(figures: dict[str, float]) -> None:
    """Measure also how much of `fit` builds indexes and graphs, where a method builds some."""
    from importlib import import_module

    for phase, places in BUILDERS.items():
        for module, name in places:
            *owners, attribute = name.split(".")
            owner: Any = import_module(module)
            for each in owners:
                owner = getattr(owner, each)
            built = owner.__dict__[attribute]
            method = isinstance(built, classmethod)
            timed = _timed(built.__func__ if method else built, figures, f"{phase}_s")
            setattr(owner, attribute, classmethod(timed) if method else timed)


def _timed(build: Callable[..., Any], figures: dict[str, float], key: str) -> Callable[..., Any]:
    def timed(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return build(*args, **kwargs)
        finally:
            figures[key] = figures.get(key, 0.0) + time.perf_counter() - start

    return timed


def train(job: dict[str, Any]) -> dict[str, Any]:
    """Train, predict and save, phase by phase."""
    import labelspace as ls
    from labelspace.methods.registry import method_class
    from labelspace.metrics.ranking import evaluate
    from labelspace.model import store
    from labelspace.model.tagger import Tagger
    from labelspace.model.training import fit_features

    method = method_class(job["method"]).create(**job["parameters"])
    phases = Phases()
    add_times_of_builders(phases.figures)
    with phases.phase("read"):
        data = ls.read(job["train"])
    with phases.phase("features"):
        pipeline, X, _ = fit_features(data, method, None)
    with phases.phase("fit"):
        method.fit(X, data.labels)
    tagger = Tagger(pipeline, method, data.names())
    with phases.phase("save"):
        tagger.save(job["model"])
    n_labels = data.n_labels
    used = len(np.unique(data.labels.indices))
    train_labels = data.labels
    del data, X
    test = ls.read(job["test"])
    rows = pipeline.transform(test)
    method.predict(rows[:20], K)
    with phases.phase("batch"):
        ranking = method.predict(rows, K)
    found = evaluate(ranking, test.labels[:, :n_labels], train_labels)
    size = store.size_in_bytes(job["model"]) - (Path(job["model"]) / "labels.json").stat().st_size
    return {
        **phases.figures,
        "batch_ms": 1000 * phases.figures.pop("batch_s") / rows.shape[0],
        "labels_with_examples": used,
        "search": method.metadata().get("search", {}).get("kind", ""),
        "model_mb": size / 1e6,
        "P@1": found["P@1"],
        "P@5": found["P@5"],
    }


def start(job: dict[str, Any]) -> dict[str, Any]:
    """Load a model and answer; all imports come before the clock starts."""
    import labelspace as ls
    from labelspace._core.sparse import unpack_csr
    from labelspace.methods.registry import method_class

    method_class(job["method"])
    if job["method"] in ("glas", "fusion"):
        import faiss  # noqa: F401
    with np.load(job["queries"]) as arrays:
        X = unpack_csr("X", dict(arrays))
    queries = [X[row : row + 1] for row in range(min(X.shape[0], ONE_AT_A_TIME))]
    before = time.perf_counter()
    tagger = ls.load(job["model"], verify=job["verify"])
    loaded = time.perf_counter()
    tagger.method.predict(queries[0], K)
    answered = time.perf_counter()
    seconds = []
    for query in queries[1:]:
        began = time.perf_counter()
        tagger.method.predict(query, K)
        seconds.append(time.perf_counter() - began)
    return {
        "load_s": loaded - before,
        "first_s": answered - before,
        "one_ms_p50": 1000 * float(np.percentile(seconds, 50)),
        "one_ms_p99": 1000 * float(np.percentile(seconds, 99)),
        **memory_of("self"),
    }


def memory_of(process: int | str) -> dict[str, float]:
    """Return the memory of a process in MB: resident, its share of it, and what is its own."""
    found: dict[str, float] = {}
    for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]:
        key, value = line.split(":")
        found[key] = int(value.split()[0]) * 1024 / 1e6
    return {
        "rss_mb": found["Rss"],
        "pss_mb": found["Pss"],
        "anonymous_mb": found["Anonymous"],
    }


def main() -> None:
    kind, folder = sys.argv[1], Path(sys.argv[2])
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    result = {"train": train, "start": start}[kind](job)
    (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
    if kind == "start" and job["wait"]:
        sys.stdin.read()


if __name__ == "__main__":
    main()
