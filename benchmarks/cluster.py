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


def main() -> None:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("train", type=Path)
    parser.add_argument("test", type=Path)
    given = parser.parse_args()
    name = given.train.resolve().parent.name
    start = seconds_to_start()
    rows: list[Row] = [{"what": "start of Ray", "ray s": round(start, 1)}]
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        train = ("train", given.train, "--out", model, "--restart")
        one = [command(*train, "--engine", engine, **ONE_CORE) for engine in ("local", "ray")]
        rows.append(pair(f"train on {name}, one worker", *one, start))
        four = (*train, "--set", "ensemble=4")
        after = command(*four, **ONE_CORE)
        rows.append(
            pair(f"ensemble of 4 on {name}", after, command(*four, "--engine", "ray"), start)
        )
        examples = sum(len(batch) for batch in iter_batches(given.test))
        both = [
            command("predict", model, given.test, "--out", Path(folder) / "t", "--engine", engine)
            for engine in ("local", "ray")
        ]
        rows.append(pair(f"predict {examples:,} of {name}", *both, start, examples))
        glas = (*train, "--method", "glas")
        alone = command(*glas, **ONE_CORE)
        shared = command(*glas, "--engine", "ray", "--workers", 2, OMP_NUM_THREADS="1")
        row = pair(f"glas on {name}, two workers", alone, shared, start)
        rows.append(row | {"local, two threads s": round(command(*glas), 1)})
    rows.append(recovery())
    keep("cluster", rows, ("what",))


if __name__ == "__main__":
    main()
