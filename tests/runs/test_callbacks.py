"""What listens to parts of a run: work without epochs, and members that are finished."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone

from labelspace.data.taxonomy import Taxonomy
from labelspace.errors import CheckpointError, ParameterError
from labelspace.methods.glas.method import GLaS
from labelspace.methods.hierarchicalxc.method import HierarchicalXC
from labelspace.methods.linear import Linear
from labelspace.methods.treespace.method import TreeSpace
from labelspace.runs.callbacks import Callback, Checkpoint, listeners, progress_reporter
from support.planted import planted


class Heard(Callback):
    def __init__(self):
        self.works = []

    def on_work(self, what, done, total):
        self.works.append((what, done, total))


def test_a_progress_reporter_adds_up_from_all_threads():
    heard = Heard()
    report = progress_reporter([heard], "work", 1000)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(report, [1] * 1000))
    assert [done for _, done, _ in heard.works] == list(range(1, 1001))


@pytest.mark.parametrize("method", [Linear(validation=0.0), HierarchicalXC(validation=0.0)])
def test_methods_without_epochs_report_progress(method):
    heard = Heard()
    method.fit(*planted(200), callbacks=[heard])
    ends = {what: (done, total) for what, done, total in heard.works}
    assert all(done == total for done, total in ends.values())
    assert len(ends) == (3 if isinstance(method, HierarchicalXC) else 1)


def test_a_finished_part_is_kept_apart_and_known_by_its_run(tmp_path):
    first = Checkpoint(tmp_path).within("1-knn")
    first.finish("this run", {"a": np.arange(3)})
    assert first.finished("this run") is None  # a new run does not read old ones
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


class StopAtOnce(Callback):
    def on_batch(self, run):  # noqa: ARG002
        raise KeyboardInterrupt


def test_a_checkpoint_is_bound_to_validation_data_and_taxonomy(tmp_path):
    (X, Y), valid, other = planted(100), planted(20, seed=1), planted(20, seed=2)
    names = [str(label) for label in range(Y.shape[1])]
    taxonomy, wider = (
        Taxonomy.from_names(pairs, names) for pairs in ([("0", "a")], [("0", "a"), ("1", "a")])
    )
    model = GLaS(dim=4, epochs=2, batch_size=32)

    def fit(*callbacks, **given):
        given = {"valid": valid, "taxonomy": taxonomy} | given
        model.fit(X, Y, callbacks=callbacks, **given)

    with pytest.raises(KeyboardInterrupt):
        fit(Checkpoint(tmp_path, minutes=0), StopAtOnce())
    for given in (
        {"valid": other},
        {"valid": (valid[0], other[1])},
        {"valid": None},
        {"taxonomy": wider},
        {"taxonomy": None},
    ):
        with pytest.raises(CheckpointError, match="other data or parameters"):
            fit(Checkpoint(tmp_path, resume=True), **given)
    fit(Checkpoint(tmp_path, resume=True))


@pytest.mark.parametrize("minutes", [-1, float("nan"), float("inf")])
def test_minutes_are_checked(tmp_path, minutes):
    with pytest.raises(ParameterError, match="minutes"):
        Checkpoint(tmp_path, minutes=minutes)


def test_what_is_finished_is_not_kept_twice(tmp_path):
    whole = Checkpoint(tmp_path)
    part = whole.within("1-linear")
    part.blocks("b", "run").put(0, (np.arange(3),))
    part.finish("run", {"a": np.arange(3)})
    whole.keep()
    assert [path.name for path in (tmp_path / "1-linear").iterdir()] == ["finished.safetensors"]


def test_a_finished_part_that_cannot_be_written_does_not_end_the_run(tmp_path, caplog):
    (tmp_path / "finished.safetensors" / "x").mkdir(parents=True)
    Checkpoint(tmp_path).finish("run", {"a": np.arange(3)})
    assert "cannot be written" in caplog.text


class StopAtWork(Callback):
    """Stops the run when a part of this name has done some work."""

    def __init__(self, wanted, name=""):
        self.wanted, self.name = wanted, name

    def within(self, part):
        return StopAtWork(self.wanted, f"{self.name}/{part}")

    def on_work(self, what, done, total):  # noqa: ARG002
        if self.name == self.wanted:
            raise KeyboardInterrupt


@pytest.mark.parametrize("part", ["/linear_tree", "/linear_tree/all"])
def test_linear_classifiers_beside_a_network_are_kept_too(tmp_path, part):
    X, Y = planted(150, n_labels=40)
    model = TreeSpace(dim=4, top_dim=4, width=4, epochs=1)
    alone = clone(model).fit(X, Y).state()
    checkpoint = Checkpoint(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        clone(model).fit(X, Y, callbacks=[checkpoint, StopAtWork(part)])
    checkpoint.keep()
    assert list((tmp_path / part[1:]).glob("part-tree-1-1-*.safetensors"))
    resumed = clone(model).fit(X, Y, callbacks=[Checkpoint(tmp_path, resume=True)]).state()
    assert all(np.array_equal(alone[name], resumed[name]) for name in alone)
