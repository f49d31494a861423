"""A comparison that was stopped goes on with what is missing, on the same data alone."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace.comparison.compare import compare, entrants
from labelspace.comparison.finished_runs import FinishedRuns, data_digest, finished_runs
from labelspace.data.dataset import Dataset
from labelspace.errors import CheckpointError
from support.planted import planted

COMPARED = {"data": "abc", "features": None}
RUN = {"name": "knn", "kind": "method", "params": {"k": (1, 2)}, "seed": 0}


@pytest.fixture(scope="module")
def data():
    X, Y = planted(120, seed=5)
    return Dataset(labels=Y[:90], features=X[:90]), Dataset(labels=Y[90:], features=X[90:])


@pytest.fixture
def state(tmp_path):
    """Return the file of a comparison of which one run is finished."""
    path = tmp_path / "r.state"
    with finished_runs(path, COMPARED, ["P@1"], resume=False) as runs:
        runs.add(RUN, {"P@1": 12.5})
    return path


def opened(path, compared=COMPARED, resume=True):
    with finished_runs(path, compared, ["P@1"], resume=resume) as runs:
        return runs


def test_a_stopped_comparison_runs_what_is_missing(data, tmp_path):
    field, state, started = entrants(["most-common", "random"], [], {}), tmp_path / "s", []

    def stop_after_the_first(result):
        if result["name"] == "most-common":
            raise KeyboardInterrupt

    def start(name, seed):
        started.append((name, seed))

    with pytest.raises(KeyboardInterrupt):
        compare(*data, field, state=state, on_result=stop_after_the_first)
    report = compare(*data, field, state=state, resume=True, on_start=start)
    assert started == [("random", 0)]
    # Once more, with nothing missing: the same figures, and nothing runs.
    again = compare(*data, field, state=state, resume=True, on_start=start)
    assert again["entrants"] == report["entrants"]
    # Other seeds may be added.
    more = entrants(["most-common"], [], {})
    compare(*data, more, repeat=2, state=state, resume=True, on_start=start)
    assert started[1:] == [("most-common", 1)]


def test_figures_that_are_kept_come_back(state):
    assert opened(state).find({**RUN, "params": {"k": [1, 2]}}) == {"P@1": 12.5}
    assert opened(state).find({**RUN, "seed": 1}) is None


def test_an_unfinished_comparison_is_not_overlooked(state):
    with pytest.raises(CheckpointError, match="--resume continues it, --restart deletes it"):
        opened(state, resume=False)


def test_other_data_or_settings_are_refused(state):
    before = state.read_bytes()
    with pytest.raises(CheckpointError, match="with other data and features:"):
        opened(state, {"data": "abd", "features": "tfidf"})
    assert state.read_bytes() == before


def test_half_a_line_of_a_killed_write_is_dropped(state):
    whole = state.read_bytes()
    state.write_bytes(whole + whole[: len(whole) // 2].replace(b"\n", b""))
    with finished_runs(state, COMPARED, ["P@1"], resume=True) as runs:
        assert len(runs) == 1
        runs.add({**RUN, "seed": 1}, {"P@1": 7.0})
    assert len(opened(state)) == 2


@pytest.mark.parametrize(
    "line",
    ["{", "[]", "3", '{"run": {}}', '{"run": {}, "figures": {"P@1": "x"}}', "[" * 100_000,
     '{"run": {}, "figures": {"P@1": NaN}}', '{"run": {}, "figures": [1]}'],
)  # fmt: skip
@pytest.mark.parametrize("first", [True, False])
def test_a_damaged_file_is_refused_with_its_line(state, line, first):
    lines = state.read_text().splitlines()
    lines = [line, *lines[1:]] if first else [*lines, line]
    state.write_text("\n".join(lines) + "\n")
    with pytest.raises(CheckpointError, match=rf"{state}:{1 if first else 3}: .*--restart"):
        opened(state)


def test_nothing_is_left_where_no_run_was_finished(tmp_path):
    opened(tmp_path / "s", resume=False)
    assert not list(tmp_path.iterdir())


def test_two_at_once_are_refused(state):
    pytest.importorskip("fcntl", reason="no file locks here")
    with (
        finished_runs(state, COMPARED, ["P@1"], resume=True),
        pytest.raises(CheckpointError, match="another comparison is in progress"),
    ):
        opened(state)
    assert len(opened(state)) == 1


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(CheckpointError, match="no/s cannot be written: No such file"):
        opened(tmp_path / "no" / "s", resume=False)


def test_without_a_file_runs_are_known_while_it_lasts():
    with finished_runs(None, COMPARED, [], resume=False) as runs:
        assert isinstance(runs, FinishedRuns)
        runs.add(RUN, {"P@1": 1.0})
        assert runs.find(RUN) == {"P@1": 1.0}


def test_the_digest_sees_every_part_of_the_data():
    Y = csr_matrix(np.eye(2, dtype=np.float32))
    base = Dataset(labels=Y, texts=["ab", "c"], label_names=["x", "y"])
    others = [
        replace(base, texts=["a", "bc"]),
        replace(base, label_names=["x", "z"]),
        replace(base, label_names=None),
        replace(base, labels=csr_matrix(np.ones((2, 2), np.float32))),
        Dataset(labels=Y, features=Y, label_names=["x", "y"]),
    ]
    digests = [data_digest(base, base), *(data_digest(base, each) for each in others)]
    assert len(set(digests)) == len(digests)
    assert data_digest(base) == data_digest(replace(base))
    json.dumps(digests)
