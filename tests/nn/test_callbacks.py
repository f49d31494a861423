"""What listens to parts of a run: work without epochs, and members that are finished."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from labelspace.errors import CheckpointError
from labelspace.methods.hierarchicalxc import HierarchicalXC
from labelspace.methods.linear import Linear
from labelspace.nn.callbacks import Callback, Checkpoint, listeners, teller
from support.planted import planted


class Heard(Callback):
    def __init__(self):
        self.works = []

    def on_work(self, what, done, total):
        self.works.append((what, done, total))


def test_a_teller_adds_up_from_all_threads():
    heard = Heard()
    tell = teller([heard], "work", 1000)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(tell, [1] * 1000))
    assert [done for _, done, _ in heard.works] == list(range(1, 1001))


@pytest.mark.parametrize("method", [Linear(validation=0.0), HierarchicalXC(validation=0.0)])
def test_methods_without_epochs_tell_how_far_they_are(method):
    heard = Heard()
    method.fit(*planted(200), callbacks=[heard])
    ends = {what: (done, total) for what, done, total in heard.works}
    assert all(done == total for done, total in ends.values())
    assert len(ends) == (3 if isinstance(method, HierarchicalXC) else 1)


def test_a_finished_part_is_kept_apart_and_known_by_its_run(tmp_path):
    first = Checkpoint(tmp_path).within("1-knn")
    first.finish("this run", {"a": np.arange(3)})
    assert first.finished("this run") is None  # a new run does not look at old ones
    again = Checkpoint(tmp_path, resume=True)
    assert again.finished("this run") is None
    assert again.within("1-knn").finished("this run")["a"].tolist() == [0, 1, 2]
    with pytest.raises(CheckpointError, match="other data or parameters"):
        again.within("1-knn").finished("another")
    (tmp_path / "1-knn" / "finished.safetensors").write_bytes(b"no")
    with pytest.raises(CheckpointError, match="not a readable checkpoint"):
        again.within("1-knn").finished("this run")


def test_only_those_listen_to_a_part_who_can(tmp_path):
    assert [type(at) for at in listeners([Heard(), Checkpoint(tmp_path)], "x")] == [Checkpoint]
