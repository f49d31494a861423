"""Workers of a cluster train what one process trains, also when one of them is killed."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from labelspace.engine import use
from labelspace.runs.callbacks import Callback, Checkpoint
from support.planted import planted
from support.ray_cluster import kill_one

pytest.importorskip("ray", reason="ray is not installed")
pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.xdist_group("ray")

from labelspace.engine.ray import RayEngine  # noqa: E402
from labelspace.methods.registry import method_class  # noqa: E402

DEADLINE = 120.0


class Work(Callback):
    """Keeps what is reported of the work."""

    def __init__(self):
        self.reports = []

    def on_work(self, what, done, total):
        self.reports.append((what, done, total))


def kill_a_worker(folder, killed):
    """Kill one of the workers as soon as there is a checkpoint."""
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline and not killed:
        if any(folder.glob("*/checkpoint_*")):
            killed.append(kill_one("RayTrainWorker"))
        time.sleep(0.02)


@pytest.mark.usefixtures("ray_cluster")
def test_workers_one_of_which_is_killed_train_what_one_process_trains(tmp_path):
    X, Y = planted(150, 60, 25)
    glas = method_class("glas")
    params = {"dim": 8, "epochs": 2, "batch_size": 24, "n_negatives": 5}
    alone = glas(**params).fit(X, Y)
    work, killed = Work(), []
    killer = threading.Thread(target=kill_a_worker, args=(tmp_path / "workers", killed))
    killer.start()
    with use(RayEngine(workers=2)):
        together = glas(**params).fit(X, Y, callbacks=[work, Checkpoint(tmp_path, minutes=0)])
    killer.join()
    assert killed != [None]
    assert len(alone.history_) == len(together.history_) == 2
    for one, two in zip(alone.history_, together.history_, strict=True):
        assert two == pytest.approx(one, rel=1e-4)
    np.testing.assert_allclose(together.label_vectors_, alone.label_vectors_, atol=1e-4)
    np.testing.assert_allclose(together.embed(X), alone.embed(X), atol=1e-4)
    np.testing.assert_allclose(together.predict(X, 3).scores, alone.predict(X, 3).scores, atol=1e-3)
    assert together.held_out_ is not None
    steps = {total for _, _, total in work.reports}
    assert {what for what, _, _ in work.reports} == {"training"}
    assert len(steps) == 1
