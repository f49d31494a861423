"""Several threads and processes at once: defined results, as those of one at a time."""

from __future__ import annotations

import os
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import labelspace as ls
from labelspace.errors import StoreError
from labelspace.features.pipeline import FeaturePipeline
from labelspace.methods.registry import method_class, method_names
from labelspace.model.tagger import Tagger
from support.attacks import listing
from support.operations import model_digest
from support.planted import planted
from support.small import SMALL

THREADS = 8


@pytest.fixture(params=method_names())
def fitted(request):
    name = request.param
    declared = method_class(name).parameters
    quickly = {key: 1 for key in ("epochs", "ensemble") if key in declared}
    X, Y = planted()
    return method_class(name)(**{**SMALL.get(name, {}), **quickly}).fit(X, Y), X


def test_threads_that_share_a_model_rank_as_one_does(fitted, tmp_path):
    method, X = fitted
    Tagger(FeaturePipeline(None, n_numeric=X.shape[1]), method, list("abcdefghijkl")).save(
        tmp_path / "m"
    )
    loaded = ls.load(tmp_path / "m").method  # nothing of it has been computed yet
    rows = [X[row : row + 3] for row in range(0, 60, 3)]
    expected = [method.predict(each, 4) for each in rows]
    gate = threading.Barrier(THREADS)

    def work(number):
        gate.wait(30)
        order = np.random.default_rng(number).permutation(len(rows))
        return {row: loaded.predict(rows[row], 4) for row in order.tolist()}

    with ThreadPoolExecutor(THREADS) as pool:
        answers = list(pool.map(work, range(THREADS)))
    for answer in answers:
        for row, ranking in answer.items():
            assert np.array_equal(ranking.labels, expected[row].labels)
            assert np.array_equal(ranking.scores, expected[row].scores)


def test_forked_processes_rank_as_their_parent(fitted, request):
    """Fork while another thread predicts: nothing that it holds may be waited for."""
    torch = pytest.importorskip("torch")
    method, X = fitted
    before = torch.get_num_threads()
    torch.set_num_threads(2)  # OpenMP's threads do not exist in a forked process
    request.addfinalizer(lambda: torch.set_num_threads(before))
    expected = method.predict(X[:8], 4)
    stop = threading.Event()

    def keep_predicting():
        while not stop.is_set():
            method.predict(X[:8], 4)

    busy = threading.Thread(target=keep_predicting)
    busy.start()
    try:
        children = [_forked(method, X[:8], expected) for _ in range(2)]
    finally:
        stop.set()
        busy.join()
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]


def _forked(method, X, expected):
    """Predict in a forked process, which ends with 0 if the ranking is the expected one."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks in processes with threads
        child = os.fork()
    if child:
        return child
    code = 1
    try:
        import signal

        signal.alarm(60)  # a process that waits for ever is killed
        found = method.predict(X, 4)
        same = np.array_equal(found.labels, expected.labels)
        code = 0 if same and np.array_equal(found.scores, expected.scores) else 3
    finally:
        os._exit(code)


@pytest.mark.xdist_group("failures")
def test_of_two_trainings_to_one_output_one_is_refused_or_both_follow(attacks, nursery):
    attack = attacks.of("train glas")
    folder = attack._fresh()
    one, two = (nursery.start(attack.operation.arguments, folder) for _ in range(2))
    ended = [one.wait(), two.wait()]
    refused = [done for done in ended if done.code != 0]
    assert len(refused) <= 1
    for done in refused:
        assert done.code == 1
        assert "in progress" in done.err or "holds an unfinished run" in done.err
        assert "Traceback" not in done.err
    assert attack.operation.outcome(folder) == attack.reference.new
    assert listing(folder) == attack.reference.after


@pytest.mark.xdist_group("failures")
@pytest.mark.parametrize("name", ["predict jsonl", "convert out.parquet", "save", "synth"])
def test_the_last_of_two_that_write_to_one_place_stays(name, attacks, nursery):
    attack = attacks.of(name)
    folder = attack._fresh()
    children = [nursery.start(attack.operation.arguments, folder) for _ in range(3)]
    assert [
        (done.code, done.err[-500:]) for done in (c.wait() for c in children) if done.code
    ] == []
    assert attack.operation.outcome(folder) == attack.reference.new
    assert listing(folder) == attack.reference.after


@pytest.mark.xdist_group("failures")
def test_of_two_updates_at_once_one_is_refused_or_both_count(template, nursery, tmp_path):
    folder = tmp_path / "work"
    shutil.copytree(template, folder)
    children = [nursery.start(["update", "model", "more.jsonl"], folder) for _ in range(2)]
    ended = [child.wait() for child in children]
    done = sum(each.code == 0 for each in ended)
    assert done >= 1
    for each in ended:
        assert each.code == 0 or "is being changed by" in each.err
    before = ls.load(template / "model").label_counts.n_points
    assert ls.load(folder / "model").label_counts.n_points == before + 20 * done


@pytest.mark.xdist_group("failures")
def test_a_reader_during_saves_has_one_model_or_the_other(template, nursery, tmp_path):
    folder = tmp_path / "work"
    shutil.copytree(template, folder)
    shutil.copytree(folder / "model", folder / "first")
    known = {model_digest(folder / name) for name in ("first", "other")}
    saver = nursery.start([":save_in_turn", "first", "other", "model", "40"], folder)
    found = set()
    for _ in range(60):
        found.add(model_digest(folder / "model"))
    assert saver.wait().code == 0
    assert found <= known
    assert len(known) == 2


def test_a_second_server_cannot_learn_the_same_model(tmp_path):
    served = pytest.importorskip("support.served")
    model = served.train_model(tmp_path / "named")
    with served.in_process({"named": model}, allow_learn=True) as first:
        with pytest.raises(StoreError, match=f"process {os.getpid()} learns this model"):
            served.in_process({"named": model}, allow_learn=True)
        with served.in_process({"named": model}) as reader:  # serving alone is for any number
            assert reader.get("/v1/models/named").status_code == 200
        body = {"examples": [{"text": "green umbrella", "labels": ["c1"]}]}
        assert first.post("/v1/models/named/learn", body).status_code == 202
    with served.in_process({"named": model}, allow_learn=True) as second:
        assert second.get("/v1/models/named").json()["learns"] is True


def test_requests_are_answered_while_the_model_is_updated(tmp_path):
    served = pytest.importorskip("support.served")
    model = served.train_model(tmp_path / "named")
    points = ls.load(model).label_counts.n_points
    with served.in_process({"named": model}, allow_learn=True) as server:
        stop, statuses = threading.Event(), []

        def keep_asking():
            while not stop.is_set():
                answer = server.post("/v1/models/named/tag", {"text": "ripe red apple"})
                statuses.append((answer.status_code, len(answer.json()["results"])))

        asking = threading.Thread(target=keep_asking)
        asking.start()
        try:
            for number in range(1, 9):
                body = {"examples": [{"text": f"umbrella {number}", "labels": ["c1"]}]}
                assert server.post("/v1/models/named/learn", body).status_code == 202
            learner = server.app.context.learners["named"]
            end = time.monotonic() + 60
            while len(learner.journal) and time.monotonic() < end:
                time.sleep(0.02)
        finally:
            stop.set()
            asking.join()
    assert set(statuses) == {(200, 1)}
    assert ls.load(model).label_counts.n_points == points + 8
