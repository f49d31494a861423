"""The engine on Ray does what the local one does, also when workers and nodes are killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import random

from labelspace.engine import LocalEngine, current, engine_of, use
from labelspace.errors import LabelspaceError, ParameterError
from support import engine_tasks as tasks
from support.ray_cluster import add_node, kill_when_used, worker_environment

pytest.importorskip("ray", reason="ray is not installed")
pytestmark = pytest.mark.xdist_group("ray")

from labelspace.engine.ray import RayEngine  # noqa: E402


@pytest.fixture
def engine(ray_cluster):  # noqa: ARG001
    return RayEngine()


def test_results_come_in_the_order_of_the_items(engine):
    reported = []
    found = engine.map(tasks.double, range(20), progress=lambda *state: reported.append(state))
    assert found == [2 * item for item in range(20)]
    assert reported == [(done + 1, 20) for done in range(20)]
    assert engine.map(tasks.double, []) == []


def test_tasks_run_on_all_nodes(engine):
    pids = engine.map(tasks.process, range(8))
    assert len(set(pids)) >= 2
    assert os.getpid() not in pids
    assert engine.shards == 8


def test_arrays_are_shared_read_only_and_without_copies(engine):
    table = np.random.default_rng(0).random((400, 500))
    X = random(40, 60, 0.5, format="csr", random_state=0, dtype=np.float32)
    names = [f"name {row}" for row in range(40)]
    found = engine.map(tasks.sums, range(4), shared={"table": table, "X": X, "names": names})
    for row, one in enumerate(found):
        assert one["table"] == table[row].sum()
        assert one["X"] == X[row].sum()
        assert one["name"] == names[row]
        assert one["locked"]
    assert table.flags.writeable
    ends = engine.map(tasks.in_shared_memory, range(2), shared={"table": table})
    assert ends == [True, True]


def test_results_outlive_the_object_store_and_can_be_changed(engine):
    [found] = engine.map(tasks.ones, [1_000_000])
    found += 1.0
    assert found.sum() == 2_000_000


def test_an_error_keeps_its_kind_and_names_the_item(engine):
    kept = {}
    with pytest.raises(ValueError, match="three is not wanted") as caught:
        engine.map(tasks.fail_at_three, range(6), on_result=kept.__setitem__)
    notes = "\n".join(caught.value.__notes__)
    assert "task 4 of 6: 3" in notes
    assert "in fail_at_three" in notes
    assert 3 not in kept


def test_an_error_that_cannot_travel_comes_as_text(engine):
    with pytest.raises(LabelspaceError, match="OddError: odd 5"):
        engine.map(tasks.fail_oddly, [5, 5])


def test_what_cannot_be_pickled_is_refused(engine):
    with pytest.raises(ParameterError, match="plain values"):
        engine.map(print, [threading.Lock()])
    with pytest.raises(ParameterError, match="plain values"):
        engine.map(tasks.double, [1], shared={"lock": threading.Lock()})
    with pytest.raises(ParameterError, match="pickle"):
        engine.map(lambda _: threading.Lock(), [1])


def test_a_task_has_as_many_threads_as_cores(engine):
    assert (
        engine.map(tasks.threads, range(3)) == [(1, int(os.environ.get("OMP_NUM_THREADS", 1)))] * 3
    )
    assert engine.map(tasks.n_cores, [0], alone=True) == [1]


def test_tasks_within_tasks_stay_in_their_worker(engine):
    assert all(one == two for one, two in engine.map(tasks.nested, range(2)))


def test_a_worker_that_is_killed_is_replaced(engine, tmp_path):
    kept = []
    found = engine.map(
        tasks.killed_at_first,
        range(4),
        shared={"folder": tmp_path},
        on_result=lambda number, result: kept.append((number, result)),
    )
    assert found == [0, 2, 4, 6]
    assert sorted(kept) == [(number, 2 * number) for number in range(4)]  # none is lost or twice


def test_a_worker_that_is_always_killed_ends_the_map(ray_cluster):  # noqa: ARG001
    with pytest.raises(LabelspaceError, match="worker ended 2 times"):
        RayEngine(max_retries=1).map(tasks.die, [7])


def test_a_node_that_is_killed_is_replaced(engine, ray_cluster, tmp_path):
    node = add_node(ray_cluster)
    killer = threading.Thread(target=kill_when_used, args=(ray_cluster, node, tmp_path))
    killer.start()
    table = np.arange(100_000.0)
    try:
        found = engine.map(tasks.slow_sum, range(9), shared={"folder": tmp_path, "table": table})
    finally:
        killer.join()
    assert found == [table.sum() + item for item in range(9)]
    nodes = {path.name.partition(" ")[0] for path in tmp_path.iterdir()}
    assert node.node_id in nodes  # it was at work


def test_progress_that_raises_ends_the_tasks(engine, tmp_path):
    def stop(done, total):  # noqa: ARG001
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        engine.map(tasks.touch_slowly, range(50), shared={"folder": tmp_path}, progress=stop)
    engine.map(tasks.double, range(4))  # there are workers again
    assert len(list(tmp_path.iterdir())) < 10


def test_the_engine_is_chosen_by_a_context():
    assert isinstance(current(), LocalEngine)
    with engine_of("local") as engine:
        assert current() is engine
    chosen = RayEngine()
    with use(chosen):
        assert current() is chosen
    assert isinstance(current(), LocalEngine)


@pytest.mark.parametrize(
    ("name", "address", "cause"),
    [("spark", None, "expected one of local, ray"), ("local", "auto", "only the engine ray")],
)
def test_an_engine_that_is_not_there_is_refused(name, address, cause):
    with pytest.raises(ParameterError, match=cause), engine_of(name, address):
        pass


def test_a_cluster_that_is_not_there_is_named(monkeypatch):
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setenv("RAY_gcs_server_request_timeout_seconds", "1")
    monkeypatch.setenv("RAY_TMPDIR", "/nowhere")
    with pytest.raises(ParameterError, match=r"address='auto'.*ray start --head"):
        RayEngine("auto").map(tasks.double, [1])


SCRIPT = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from pathlib import Path
from labelspace.engine.ray import RayEngine
from support.engine_tasks import sleep
with RayEngine(object_store_bytes=128 << 20) as engine:
    engine.map(sleep, [1, 2, 3], shared={{"folder": Path({folder!r}), "table": None}})
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_neither_interrupt_nor_kill_leaves_a_process(tmp_path, how):
    folder = tmp_path / "tasks"
    folder.mkdir()
    script = SCRIPT.format(folder=str(folder))
    temporary = Path("/tmp") / f"ls{os.getpid()}{int(how)}"  # Ray's sockets need a short path
    temporary.mkdir()
    caller = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **worker_environment(), "TMPDIR": str(temporary)},
    )
    try:
        wait_until(lambda: list(folder.iterdir()))
        pids = [int(path.name) for path in folder.iterdir()]
        caller.send_signal(how)
        out, error = caller.communicate(timeout=60)
    finally:
        caller.kill()
        caller.communicate()
    assert caller.returncode != 0
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
    if how == signal.SIGINT:
        assert error.decode().rstrip().endswith("KeyboardInterrupt")
        assert out == b""
        assert list(temporary.iterdir()) == []
    shutil.rmtree(temporary)


def wait_until(true):
    deadline = time.monotonic() + 120  # a busy machine is slow to start processes
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)
