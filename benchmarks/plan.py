"""What `labelspace plan` estimates, and what training then takes.

    python benchmarks/plan.py DATA... [--methods fusion,linear,glas] [--limit SECONDS]

DATA are folders with train and test files, or training files. Each plan and each training has a
process of its own, in which a small model was trained before, so that what is imported and compiled
is not counted, as it is not in an estimate. Bytes are the growth of resident memory from there to
the peak of the whole training, beside the sum of the estimates; seconds are those of the phases
after reading and features, which a plan does itself. Rows are kept in results/plan.json and .md.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from kept import Row, keep
from labelspace._core.peak import peak_bytes
from labelspace._core.scratch import scratch_folder
from labelspace.comparison.runs import in_own_process
from labelspace.data.splits import train_file
from labelspace.errors import LabelspaceError

WARM_UP = 300  # examples of the training before


def warm_up(method: str) -> int:
    """Train a small model; return the resident memory then."""
    from labelspace.methods.registry import method_class

    rng = np.random.default_rng(0)
    X, Y = (
        csr_matrix(
            (np.ones(WARM_UP * many, np.float32), rng.integers(0, width, WARM_UP * many),
             np.arange(WARM_UP + 1) * many),
            shape=(WARM_UP, width),
        )
        for many, width in ((20, 500), (3, 50))
    )  # fmt: skip
    method_class(method)().fit(X, Y)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    return peak_bytes()


def plan(job: dict[str, Any]) -> dict[str, Any]:
    from labelspace.model.plan import plan_training

    warm_up(job["method"])
    start = time.perf_counter()
    found = plan_training(job["data"], method=job["method"], measure=True)
    own = {name: s for name, s in found.seconds.items() if name.startswith("training")}
    return {
        "memory": found.memory,
        "seconds": own,
        "planned_s": sum(own.values()),
        "plan_s": time.perf_counter() - start,
        "planned_mb": sum(found.memory.values()) / 1e6,
    }


def train(job: dict[str, Any]) -> dict[str, Any]:
    import labelspace as ls

    before = warm_up(job["method"])
    stages: dict[str, float] = {}
    last: list[Any] = ["", 0.0]

    def on_stage(name: str) -> None:
        now = time.perf_counter()
        stages[last[0]] = now - last[1]
        last[:] = name, now

    ls.train(job["data"], method=job["method"], on_stage=on_stage)
    on_stage("")
    return {
        "train_s": stages[f"training {job['method']}"],
        "train_mb": (peak_bytes() - before) / 1e6,
    }


def measure(data: Path, method: str, limit: float) -> None:
    file = train_file(data) if data.is_dir() else data
    name = data.name if data.is_dir() else data.stem
    row: Row = {"set": name, "method": method}
    with scratch_folder("plan") as folder:
        for kind in ("plan", "train"):
            job = {"data": str(file), "method": method}
            (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
            command = [sys.executable, __file__, "--run", kind, str(folder)]
            try:
                row |= in_own_process(command, folder, limit)
            except LabelspaceError as error:
                row["error"] = str(error)
                print(name, method, error, flush=True)
                return
    parts = {purpose: round(size / 1e6, 1) for purpose, size in row.pop("memory").items()}
    row["MB by purpose"] = json.dumps(parts)
    row["seconds by phase"] = json.dumps({k: round(v, 1) for k, v in row.pop("seconds").items()})
    row["bytes ratio"] = row["planned_mb"] / row["train_mb"]
    row["seconds ratio"] = row["planned_s"] / row["train_s"]
    keep("plan", [row], ("set", "method"))


def main() -> None:
    if sys.argv[1:2] == ["--run"]:
        kind, folder = sys.argv[2], Path(sys.argv[3])
        job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
        result = {"plan": plan, "train": train}[kind](job)
        (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", nargs="+", type=Path)
    parser.add_argument("--methods", default="fusion,linear,glas")
    parser.add_argument("--limit", type=float, default=300.0, help="most seconds per process")
    options = parser.parse_args()
    for data in options.data:
        for method in options.methods.split(","):
            measure(data, method, options.limit)


if __name__ == "__main__":
    main()
