"""The engine on Ray beside the local one: training, prediction, and recovery after a kill.

    python benchmarks/cluster.py TRAIN TEST

Commands run one after another, each as a process of its own, so that the start of Ray is included;
it is also measured alone. "one worker" gives both engines one core and the defaults of `train`;
"ensemble of 4" compares one core with Ray on all of them, "two workers" one core with two workers
that share the batches of one network. Recovery is how much longer tasks of half
a second take if one of three nodes on this machine is killed during them. Writes
benchmarks/results/cluster.json and cluster.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

# Ray reads it when it is imported: nodes listen on 127.0.0.1 only.
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

from kept import Row, keep
from labelspace.data import iter_batches
from labelspace.engine.ray import RayEngine

ONE_CORE = {"LOKY_MAX_CPU_COUNT": "1", "OMP_NUM_THREADS": "1"}
STORE = 256 << 20  # bytes per node
N_TASKS, TASK_SECONDS = 24, 0.5


def command(*words: object, **environment: str) -> float:
    """Run a labelspace command and return its seconds."""
    start = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "labelspace", *map(str, words)],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **environment},
    )
    return time.monotonic() - start


def pair(what: str, local: float, ray: float, start: float, examples: int | None = None) -> Row:
    """Return a row of the seconds of both engines."""
    row: Row = {
        "what": what,
        "local s": round(local, 1),
        "ray s": round(ray, 1),
        "ray without its start s": round(ray - start, 1),
        "local / ray": round(local / ray, 2),
    }
    if examples is not None:
        row |= {
            "examples/s local": round(examples / local),
            "examples/s ray": round(examples / ray),
        }
    return row


def seconds_to_start() -> float:
    """Return the seconds until a new cluster has run its first task."""
    start = time.monotonic()
    with RayEngine(object_store_bytes=STORE) as engine:
        engine.map(abs, [-1])
        return time.monotonic() - start


def wait(task: int) -> int:
    """Take half a second."""
    time.sleep(TASK_SECONDS)
    return task


def recovery() -> Row:
    """Measure tasks on three nodes with and without the end of one of them."""
    import ray
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": STORE}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    found = []
    try:
        nodes = [cluster.add_node(**node) for _ in range(2)]
        ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")
        engine = RayEngine()
        engine.map(wait, range(6))  # workers are started
        for kills in (False, True):
            killer = threading.Timer(1.2, cluster.remove_node, (nodes[1], False))
            if kills:
                killer.start()
            start = time.monotonic()
            assert engine.map(wait, range(N_TASKS)) == list(range(N_TASKS))
            found.append(time.monotonic() - start)
        killer.join()
    finally:
        ray.shutdown()
        cluster.shutdown()
    whole, killed = found
    return {
        "what": f"{N_TASKS} tasks of {TASK_SECONDS} s on 3 nodes, one of them killed",
        "undisturbed s": round(whole, 1),
        "killed s": round(killed, 1),
        "at least, with two nodes s": round(N_TASKS * TASK_SECONDS / 2, 1),
    }


def overhead(given: argparse.Namespace, model: Path, start: float) -> list[Row]:
    """Measure a training on one core."""
    train = ("train", given.train, "--out", model, "--restart")
    one = [command(*train, "--engine", engine, **ONE_CORE) for engine in ("local", "ray")]
    return [pair(f"train on {name_of(given)}, one worker", *one, start)]


def ensemble(given: argparse.Namespace, model: Path, start: float) -> list[Row]:
    """Measure four copies of all members, one after another and by workers."""
    four = ("train", given.train, "--out", model, "--restart", "--set", "ensemble=4")
    after, ray = command(*four, **ONE_CORE), command(*four, "--engine", "ray")
    return [pair(f"ensemble of 4 on {name_of(given)}", after, ray, start)]


def prediction(given: argparse.Namespace, model: Path, start: float) -> list[Row]:
    """Measure the prediction of all test examples on all cores."""
    if not model.exists():
        command("train", given.train, "--out", model)
    examples = sum(len(batch) for batch in iter_batches(given.test))
    predict = ("predict", model, given.test, "--out", model.with_name("tags"), "--engine")
    both = [command(*predict, engine) for engine in ("local", "ray")]
    return [pair(f"predict {examples:,} of {name_of(given)}", *both, start, examples)]


def workers(given: argparse.Namespace, model: Path, start: float) -> list[Row]:
    """Measure one network on one core, by the threads of one process, and by two workers."""
    glas = ("train", given.train, "--out", model, "--restart", "--method", "glas")
    alone, threads = command(*glas, **ONE_CORE), command(*glas)
    shared = command(*glas, "--engine", "ray", "--workers", 2)
    row = pair(f"glas on {name_of(given)}, two workers", alone, shared, start)
    return [row | {"local, two threads s": round(threads, 1)}]


PARTS = {"overhead": overhead, "ensemble": ensemble, "predict": prediction, "workers": workers}


def name_of(given: argparse.Namespace) -> str:
    return str(given.train.resolve().parent.name)


def main() -> None:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("train", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("--only", choices=[*PARTS, "recovery"], help="Measure this part alone.")
    given = parser.parse_args()
    start = seconds_to_start()
    rows: list[Row] = [{"what": "start of Ray", "ray s": round(start, 1)}]
    with tempfile.TemporaryDirectory() as folder:
        for name, measure in PARTS.items():
            if given.only in (None, name):
                rows += measure(given, Path(folder) / "model", start)
    if given.only in (None, "recovery"):
        rows.append(recovery())
    keep("cluster", rows, ("what",))


if __name__ == "__main__":
    main()
