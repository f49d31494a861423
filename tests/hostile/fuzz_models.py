"""`python -m hostile.fuzz_models`: many mutations of every saved model, resumable, with a table."""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hostile.models import RECIPES, train
from hostile.pool import Attempts

_AT_A_TIME = 40  # mutations of a model before the next one has its turn


def fuzz(names: list[str], mutations: int, workers: int, seconds: float, out: Path) -> None:
    """Try mutations 0 to `mutations` - 1 of each model, from where an earlier run stopped."""
    for name in names:
        if not (out / "models" / name / "model.json").exists():
            print(f"training {name}", flush=True)
            train(name, out / "models" / name)

    started, waiting = time.monotonic(), threading.local()
    processes: list[Attempts] = []

    def one(name: str) -> None:
        log = out / f"{name}.jsonl"
        done = sum(1 for _ in log.open()) if log.exists() else 0
        if not hasattr(waiting, "process"):
            scratch = out / f"scratch-{threading.get_ident()}"
            waiting.process = Attempts(out / "models", scratch)
            processes.append(waiting.process)
        with log.open("a") as file:
            for number in range(done, min(mutations, done + _AT_A_TIME)):
                if seconds and time.monotonic() - started > seconds:
                    return
                found = waiting.process.run(name, number)
                file.write(json.dumps(found) + "\n")
                file.flush()
                if found["result"] == "broken":
                    print(json.dumps(found), flush=True)

    try:
        with ThreadPoolExecutor(workers) as pool:
            for _ in range(-(-mutations // _AT_A_TIME)):
                list(pool.map(one, names))
    finally:
        for process in processes:
            process.close()
    print(table(names, out))


def table(names: list[str], out: Path) -> str:
    """Return what came of all mutations so far, as a table of Markdown."""
    lines = ["| model | tried | refused | valid | broken |", "|---|---:|---:|---:|---:|"]
    for name in names:
        log = out / f"{name}.jsonl"
        results = [json.loads(line)["result"] for line in log.open()] if log.exists() else []
        found = Counter(results)
        cells = [len(results), found["refused"], found["valid"], found["broken"]]
        lines.append(f"| {name} | " + " | ".join(f"{cell:,}" for cell in cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutations", type=int, default=10_000, help="per model")
    parser.add_argument("--models", default=",".join(RECIPES), help="their names, by commas")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.0, help="at most; 0: no limit")
    parser.add_argument("--out", type=Path, default=Path("fuzz"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    names = options.models.split(",")
    fuzz(names, options.mutations, options.workers, options.seconds, options.out)


if __name__ == "__main__":
    main()
