"""A Ray cluster of several nodes on this machine, for tests."""

from __future__ import annotations

import os
import signal
import time
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest import mock

import psutil

TESTS = str(Path(__file__).parents[1])  # workers import tasks from there
OBJECT_STORE = 128 << 20  # bytes per node


def worker_environment():
    """Return what the environment of a cluster has beside this process's."""
    path = os.pathsep.join(part for part in (TESTS, os.environ.get("PYTHONPATH")) if part)
    return {"PYTHONPATH": path, "RAY_USAGE_STATS_ENABLED": "0"}


def add_node(cluster):
    """Start another node with one core."""
    with mock.patch.dict(os.environ, worker_environment()):
        return cluster.add_node(num_cpus=1, object_store_memory=OBJECT_STORE)


def kill_when_used(cluster, node, folder):
    """Kill a node as soon as a task on it has left a file named after it in the folder."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not list(folder.glob(f"{node.node_id} *")):
        time.sleep(0.02)
    cluster.remove_node(node, allow_graceful=False)  # SIGKILL


def kill_one(title):
    """Kill one of the cluster's processes of this title; return its id, or None without one."""
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has just ended
            if title in " ".join(process.cmdline()):
                os.kill(process.pid, signal.SIGKILL)
                return process.pid
    return None


@contextmanager
def cluster_of(n_nodes):
    """Start a cluster of nodes with one core each, connect to it, and end both."""
    import ray
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": OBJECT_STORE, "include_dashboard": False}
    sooner = {"health_check_period_ms": 1000}  # that a node has ended is noticed
    with mock.patch.dict(os.environ, worker_environment()):
        cluster = Cluster(initialize_head=True, head_node_args={**node, "_system_config": sooner})
    try:
        for _ in range(n_nodes - 1):
            add_node(cluster)
        ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")
        yield cluster
    finally:
        with warnings.catch_warnings():  # of subprocesses that are still running when collected
            warnings.simplefilter("ignore", ResourceWarning)
            ray.shutdown()
            cluster.shutdown()
