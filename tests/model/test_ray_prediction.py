"""Prediction on a Ray cluster writes the same bytes, also when it is killed and repeated."""

from __future__ import annotations

import json
import threading

import pyarrow.parquet as pq
import pytest

import labelspace as ls
from labelspace.engine import use
from labelspace.errors import DataError, LabelspaceError
from support.prediction_workers import failing_worker, slow_worker
from support.ray_cluster import add_node, kill_when_used

pytest.importorskip("ray", reason="ray is not installed")
pytestmark = pytest.mark.xdist_group("ray")

from labelspace.engine.ray import RayEngine  # noqa: E402
from labelspace.model import ray_prediction  # noqa: E402

WORDS = ("apple", "saw", "rose", "hammer", "pear", "tulip")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    rows = [
        {"text": f"{word} {n}", "labels": [word, f"n{n % 7}"]} for n in range(20) for word in WORDS
    ]
    path = tmp_path_factory.mktemp("ray") / "model"
    ls.train(rows, method="knn").save(path)
    return path


@pytest.fixture
def new(tmp_path):
    path = tmp_path / "new.jsonl"
    lines = [json.dumps({"text": f"{WORDS[n % 6]} {n % 23}"}) for n in range(103)]
    path.write_text("\n".join(lines))
    return path


@pytest.mark.usefixtures("ray_cluster")
def test_a_run_that_is_repeated_predicts_what_is_missing(model, new, tmp_path, monkeypatch):
    parts = tmp_path / ".tags.jsonl.parts" / "parts"
    monkeypatch.setattr(ray_prediction, "Worker", failing_worker(tmp_path, parts))
    (tmp_path / "fail").touch()
    tagger, out = ls.load(model), tmp_path / "tags.jsonl"
    with use(RayEngine()):
        with pytest.raises(LabelspaceError, match="batch 4 is not wanted"):
            tagger.predict_file(new, out, batch_size=20)
        assert not out.exists()
        kept = {
            number
            for path in parts.glob("*.parquet")
            for number in pq.read_table(path)["number"].to_pylist()
        }
        assert kept
        for path in tmp_path.glob("predicted-*"):
            path.unlink()
        (tmp_path / "fail").unlink()
        (tmp_path / "bad.jsonl").write_text('{"text": "a"}\n{"text": 1')
        with pytest.raises(DataError, match=r"bad\.jsonl:2.* on one line$"):
            tagger.predict_file(tmp_path / "bad.jsonl", tmp_path / "bad.csv")
        assert not (tmp_path / "bad.csv").exists()
        assert tagger.predict_file(new, out, batch_size=20) == 103
    again = {int(path.name[10:]): path.read_text() for path in tmp_path.glob("predicted-*")}
    assert again == dict.fromkeys(set(range(6)) - kept, ".")
    tagger.predict_file(new, tmp_path / "local.jsonl", batch_size=20)
    assert out.read_bytes() == (tmp_path / "local.jsonl").read_bytes()
    assert not (tmp_path / ".tags.jsonl.parts").exists()


def test_a_node_that_is_killed_costs_nothing(model, new, tmp_path, ray_cluster, monkeypatch):
    monkeypatch.setattr(ray_prediction, "Worker", slow_worker(tmp_path))
    node = add_node(ray_cluster)
    killer = threading.Thread(target=kill_when_used, args=(ray_cluster, node, tmp_path))
    killer.start()
    exclude = tmp_path / "exclude.txt"
    exclude.write_text("n3\npear\n")
    wanted = {"k": 3, "exclude": exclude, "batch_size": 5}
    tagger, out, counts = ls.load(model), tmp_path / "tags.parquet", []
    try:
        with use(RayEngine()):
            done = tagger.predict_file(new, out, **wanted, on_batch=counts.append)
    finally:
        killer.join()
    assert done == counts[-1] == 103
    tagger.predict_file(new, tmp_path / "local.parquet", **wanted)
    assert out.read_bytes() == (tmp_path / "local.parquet").read_bytes()
    assert list(tmp_path.glob(f"{node.node_id} *"))  # it was at work
