"""Other packages: found or not, measured alike, and what each needs that others do not."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy.sparse import csr_matrix, hstack, identity

from labelspace.comparison import pecos, peers, timing
from labelspace.comparison.compare import compare, entrants
from labelspace.comparison.peers import make_peer, why_missing
from labelspace.comparison.runs import in_own_process
from labelspace.data.dataset import Dataset
from labelspace.errors import LabelspaceError, MemoryBudgetError, MissingExtraError
from support.planted import planted


@pytest.fixture
def no_environment(monkeypatch, tmp_path):
    """Set the environment of labelspace to one in which there is none of PECOS."""
    monkeypatch.delenv(pecos.VARIABLE, raising=False)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    pecos.interpreter.cache_clear()
    yield tmp_path
    pecos.interpreter.cache_clear()


def python_that(ends, path):
    """Write a program in place of a Python that has PECOS (0) or has not (1)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\nexit {ends}\n")
    path.chmod(0o755)
    return path


def test_pecos_is_found_in_the_environment_inside_of_this_one(no_environment):
    inside = python_that(0, no_environment / "pecos" / "bin" / "python")
    assert pecos.interpreter("") == inside
    other = python_that(0, no_environment / "other")
    assert pecos.interpreter(str(other)) == other


def test_pecos_that_is_missing_is_left_out_with_the_reason(no_environment, monkeypatch, caplog):
    python_that(1, no_environment / "pecos" / "bin" / "python")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", str(python_that(1, no_environment / "own")))
        with pytest.raises(MissingExtraError, match=r"numpy below 2.*LABELSPACE_PECOS_PYTHON"):
            pecos.interpreter("")
        assert "make peers" in why_missing("pecos")
    monkeypatch.setenv(pecos.VARIABLE, str(no_environment / "absent"))
    assert why_missing("pecos").startswith(f"LABELSPACE_PECOS_PYTHON={no_environment}")
    assert peers.installed(["pecos", "sklearn-ovr"]) == ["sklearn-ovr"]
    assert "pecos is left out: LABELSPACE_PECOS_PYTHON" in caplog.text
    X, Y = planted(30)
    data = Dataset(labels=Y, features=X)
    (failed,) = compare(data, data, entrants([], ["pecos"], {}))["entrants"]
    assert failed["error"].startswith("LABELSPACE_PECOS_PYTHON=")


def test_pecos_ranks_more_labels_with_the_same_model(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_THREAD_LIMIT", "1")  # its threads spin, beside other tests for long
    if (reason := why_missing("pecos")) is not None:
        pytest.skip(reason)
    X, Y = planted(200)
    peer = make_peer("pecos", tmp_path, seed=2)
    ranking, costs = peer.measure(X[:150], Y[:150], X[150:], 3)
    assert peer.params == {"seed": 2}
    assert costs["versions"]["libpecos"]
    longer = peer.rank(6)
    assert longer.labels.shape == (50, 6)
    np.testing.assert_array_equal(longer.labels[:, :3], ranking.labels)
    np.testing.assert_array_equal(longer.scores[:, :3], ranking.scores)
    assert (np.diff(longer.scores, axis=1) <= 0).all()


def test_sklearn_ranks_labels_with_examples_alone(tmp_path):
    X, Y = planted(120)
    Y = hstack([csr_matrix((120, 2)), Y], format="csr")
    ranking, costs = make_peer("sklearn-ovr", tmp_path, seed=0).measure(X, Y, X, 20)
    n_seen = np.count_nonzero(Y.getnnz(axis=0))
    assert (np.sort(ranking.labels, axis=1)[:, -n_seen:] >= 2).all()
    assert (ranking.labels[:, n_seen:] == -1).all()
    assert np.mean(Y[np.arange(120), ranking.labels[:, 0]]) > 0.9
    assert (np.diff(ranking.scores[:, :n_seen], axis=1) <= 0).all()
    assert costs["model_mb"] > 0


def test_sklearn_distinguishes_many_labels(tmp_path):
    """scikit-learn numbers labels in the type of the label matrix: one byte was too few."""
    one_each = identity(300, dtype=np.float32, format="csr")
    peer = make_peer("sklearn-ovr", tmp_path, seed=0)
    peer.prepare(one_each, one_each)
    peer.fit()
    found = peer.predict(peer.queries(one_each[[5, 261]]), 1)
    assert [row[0][0] for row in found] == [5, 261]


def test_sklearn_refuses_a_single_label(tmp_path):
    X, Y = planted(60)
    with pytest.raises(LabelspaceError, match="at least two labels"):
        make_peer("sklearn-ovr", tmp_path, seed=0).prepare(X, Y[:, :1])


def test_sklearn_refuses_coefficients_that_do_not_fit(tmp_path, monkeypatch):
    monkeypatch.setattr(peers, "available_bytes", lambda: 1000)
    X, Y = planted(50)
    with pytest.raises(MemoryBudgetError, match=r"3\.5 kB for 11 x 40 .* 1\.0 kB are available"):
        make_peer("sklearn-ovr", tmp_path, seed=0).prepare(X, Y)


def test_slow_single_predictions_are_fewer(monkeypatch):
    asked = []
    timing.timed(lambda rows, _: asked.append(len(rows)), list(range(50)), 5)
    assert asked.count(1) == 20 + 50
    asked.clear()
    monkeypatch.setattr(timing, "MOST_SECONDS", 0.0)
    timing.timed(lambda rows, _: asked.append(len(rows)), list(range(50)), 5)
    assert asked.count(1) == 20 + 1


def test_a_process_that_takes_too_long_is_stopped(tmp_path):
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    with pytest.raises(LabelspaceError, match=r"stopped after 0\.1 s"):
        in_own_process(command, tmp_path, limit=0.1)


def test_an_earlier_result_is_not_taken_for_that_of_a_process(tmp_path):
    (tmp_path / "result.json").write_text("{}")
    with pytest.raises(LabelspaceError, match="printed nothing"):
        in_own_process([sys.executable, "-c", ""], tmp_path)


def test_a_process_ends_with_its_input():
    code = f"import runpy, time; runpy.run_path({timing.__file__!r})['end_with_input'](); "
    running = subprocess.Popen(
        [sys.executable, "-c", code + "time.sleep(60)"], stdin=subprocess.PIPE
    )
    running.stdin.close()
    assert running.wait(timeout=30) == 1
