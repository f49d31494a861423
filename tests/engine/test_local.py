"""The local engine: order, shared arrays, errors that name their item, no process left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import random

from labelspace._core.threads import cores
from labelspace.engine import LocalEngine, local
from labelspace.errors import LabelspaceError, ParameterError
from support import engine_tasks as tasks


@pytest.fixture(params=[1, 2])
def engine(request):
    return LocalEngine(request.param)


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_until(true):
    deadline = time.monotonic() + 120  # a busy machine is slow to start processes
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_results_come_in_the_order_of_the_items(engine):
    reported = []
    found = engine.map(tasks.double, range(20), progress=lambda *state: reported.append(state))
    assert found == [2 * item for item in range(20)]
    assert reported == [(done + 1, 20) for done in range(20)]
    assert engine.map(tasks.double, []) == []


def test_results_are_kept_as_they_come_also_if_a_later_task_fails(engine):
    kept = {}
    with pytest.raises(ValueError, match="three"):
        engine.map(tasks.fail_at_three, range(6), on_result=kept.__setitem__)
    assert kept[0] == 0
    assert 3 not in kept


def test_tasks_run_in_other_processes():
    pids = LocalEngine(2).map(tasks.process, range(8))
    assert len(set(pids)) == 2
    assert os.getpid() not in pids
    assert not any(alive(pid) for pid in pids)
    assert set(LocalEngine(1).map(tasks.process, range(3))) == {os.getpid()}


def test_arrays_are_shared_read_only(engine, monkeypatch):
    monkeypatch.setattr(local, "_MAX_NBYTES", 1000)
    table = np.random.default_rng(0).random((40, 50))
    X = random(40, 60, 0.5, format="csr", random_state=0, dtype=np.float32)
    names = [f"name {row}" for row in range(40)]
    found = engine.map(tasks.sums, range(4), shared={"table": table, "X": X, "names": names})
    for row, one in enumerate(found):
        assert one["table"] == table[row].sum()
        assert one["X"] == X[row].sum()
        assert one["name"] == names[row]
        assert one["locked"]
        assert one["mapped"] == (engine.workers == 2)
    assert table.flags.writeable
    assert X.data.flags.writeable


def test_an_error_keeps_its_kind_and_names_the_item(engine):
    with pytest.raises(ValueError, match="three is not wanted") as caught:
        engine.map(tasks.fail_at_three, range(6))
    notes = "\n".join(caught.value.__notes__)
    assert "task 4 of 6: 3" in notes
    assert ("in fail_at_three" in notes) == (engine.workers == 2)


def test_an_error_that_cannot_travel_comes_as_text():
    with pytest.raises(LabelspaceError, match="OddError: odd 5"):
        LocalEngine(2).map(tasks.fail_oddly, [5, 5])


def test_a_worker_that_dies_is_noticed():
    with pytest.raises(LabelspaceError, match=r"worker process ended.*EXIT\(7\)"):
        LocalEngine(2).map(tasks.die, [7, 7])
    assert LocalEngine(2).map(tasks.double, [1, 2]) == [2, 4]


def test_what_cannot_be_pickled_is_refused():
    with pytest.raises(ParameterError, match="plain values"):
        LocalEngine(2).map(print, [threading.Lock(), threading.Lock()])


def test_a_function_of_a_script_needs_no_module():
    assert LocalEngine(2).map(lambda task: task + 1, [1, 2, 3]) == [2, 3, 4]


def test_threads_use_the_engine_at_the_same_time():
    with ThreadPoolExecutor(2) as threads:
        runs = [threads.submit(LocalEngine(2).map, tasks.double, range(4)) for _ in range(2)]
        assert [run.result() for run in runs] == [[0, 2, 4, 6]] * 2


def test_an_answer_that_cannot_be_pickled_is_an_error():
    with pytest.raises(Exception, match="pickle"):
        LocalEngine(2).map(lambda _: threading.Lock(), [1, 2])


def test_what_a_task_prints_does_not_get_between_answers():
    assert LocalEngine(2).map(tasks.print_and_return, range(4)) == [0, 1, 2, 3]


def test_tasks_within_tasks_stay_in_their_worker():
    found = LocalEngine(2).map(tasks.nested, range(2))
    assert all(one == two for one, two in found)


def test_workers_share_the_cores():
    assert LocalEngine(cores()).map(tasks.n_cores, range(max(2, cores()))) == [1] * max(2, cores())


def test_progress_that_raises_ends_all():
    def stop(done, total):  # noqa: ARG001
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        LocalEngine(2).map(tasks.process, range(50), progress=stop)


ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="Linux ends processes for us")


@pytest.mark.parametrize("task", ["sleep", pytest.param("sleep_with_the_lock", marks=ON_LINUX)])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_neither_interrupt_nor_kill_leaves_a_process(tmp_path, how, task):
    # A script without a main guard, as users write them.
    script = (
        f"import signal, sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
        # A shell's background job is started with Ctrl-C ignored, and so would this be.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from pathlib import Path\n"
        "from labelspace.engine import LocalEngine\n"
        f"from support.engine_tasks import {task}\n"
        "import numpy as np\n"
        f"shared = {{'folder': Path({str(tmp_path)!r}), 'table': np.ones(1_000_000)}}\n"
        f"LocalEngine(2).map({task}, [1, 2, 3], shared=shared)\n"
    )
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    caller = subprocess.Popen(
        [sys.executable, "-c", script],
        stderr=subprocess.PIPE,
        env={**os.environ, "JOBLIB_TEMP_FOLDER": str(temporary)},
    )
    try:
        wait_until(lambda: len(list(tmp_path.iterdir())) == 3)
        pids = [int(path.name) for path in tmp_path.iterdir() if path != temporary]
        assert all(alive(pid) for pid in pids)
        assert list(temporary.iterdir())
        caller.send_signal(how)
        error = caller.communicate(timeout=60)[1].decode()
    finally:
        caller.kill()
        caller.communicate()
    assert caller.returncode != 0
    assert how != signal.SIGINT or "KeyboardInterrupt" in error
    wait_until(lambda: not any(alive(pid) for pid in pids))
    # joblib's files, which another process of its own removes after a kill
    wait_until(lambda: not list(temporary.iterdir()))


def test_a_count_out_of_range_is_refused():
    with pytest.raises(ParameterError, match="workers=0"):
        LocalEngine(0)
