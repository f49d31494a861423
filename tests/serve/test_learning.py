"""Learning over HTTP: examples are journalled, applied once, and never lost."""

from __future__ import annotations

import random
import shutil
import threading
import time

import pytest

import labelspace as ls
import support.served  # noqa: F401  # skips where the extra is not installed
from labelspace.model import store
from labelspace.serve.journal import Journal
from labelspace.serve.learning import journal_of
from support.served import httpx, in_process, real_server, train_model

KILLS = 3  # `benchmarks/serve.py --kills 100` does it more often


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return train_model(tmp_path_factory.mktemp("models") / "named")


@pytest.fixture
def path(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "named")


def points(path):
    return int(ls.load(path).label_counts.n_points)


def learned(server, count, name="named"):
    """Wait until the model has learned so many examples; return what the server shows of it."""
    for _ in range(600):
        shown = server.get(f"/v1/models/{name}").json()
        done = shown["info"].get("learned", {}).get("sequence", 0)
        if done >= count and not shown["learning"]["pending"]:
            return shown
        time.sleep(0.05)
    raise AssertionError(shown)


def test_examples_change_the_model_that_is_served(path):
    before = points(path)
    with in_process({"named": path}, allow_learn=True) as server:
        version = server.get("/v1/models/named").json()["version"]
        body = {
            "examples": [
                {"text": "shiny blue umbrella", "labels": ["Obst", "7.1"]},
                {"text": "wooden teeth", "labels": ["combs"]},
            ],
            "new_labels": True,
        }
        answer = server.post("/v1/models/named/learn", body)
        assert (answer.status_code, answer.json()) == (202, {"accepted": 2, "sequence": 2})
        shown = learned(server, 2)
        assert shown["version"] != version
        assert shown["labels"] == 5
        assert shown["threshold"] is not None
        found = server.post("/v1/models/named/tag", {"text": "wooden teeth"}).json()["results"][0]
        assert "combs" in [label["name"] for label in found["labels"]]
        figures = server.get("/metrics").text
        assert 'labelspace_learned_total{model="named"} 2.0' in figures
        assert 'labelspace_learn_pending{model="named"} 0.0' in figures
    assert points(path) == before + 2
    assert len(Journal(journal_of(path))) == 0


def test_the_record_of_updates_does_not_grow(path):
    with in_process({"named": path}, allow_learn=True) as server:
        for number in range(1, 4):
            server.post(
                "/v1/models/named/learn", {"examples": [{"text": "umbrella", "labels": ["c1"]}]}
            )
            shown = learned(server, number)
    updates = shown["info"]["updates"]
    assert len(updates) == 1
    assert (updates[0]["points"], updates[0]["served"]) == (3, 3)


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"examples": []}, "examples"),
        ({"examples": [{"text": "a", "labels": []}]}, "labels"),
        ({"examples": [{"text": "", "labels": ["c1"]}]}, "text"),
        ({"examples": [{"text": "a", "labels": ["umbrellas"]}]}, "no label 'umbrellas'"),
        ({"examples": [{"text": "a", "labels": ["c1", ""]}], "new_labels": True}, "labels"),
    ],
)
def test_what_is_refused_is_not_in_the_journal(path, body, detail):
    with in_process({"named": path}, allow_learn=True) as server:
        answer = server.post("/v1/models/named/learn", body)
        assert answer.status_code == 422
        assert detail in answer.json()["detail"]
    assert not journal_of(path).exists()


def test_a_model_that_cannot_learn_says_so(tmp_path):
    ls.train([{"text": "red apple", "labels": ["x"]}] * 8, method="most-common").save(
        tmp_path / "m"
    )
    with in_process({"m": tmp_path / "m"}, allow_learn=True) as server:
        answer = server.post("/v1/models/m/learn", {"examples": [{"text": "a", "labels": ["x"]}]})
        assert answer.status_code == 403
        assert "most-common cannot be updated" in answer.json()["detail"]
        assert server.get("/v1/models/m").json()["learns"] is False


def test_examples_of_a_killed_server_are_applied_once_at_the_next_start(path):
    before = points(path)
    Journal(journal_of(path)).append([("umbrella", ["c1"]), ("parasol", ["c3"])])
    with in_process({"named": path}, allow_learn=True) as server:
        learned(server, 2)
    # As after a kill between the save and the removal from the journal.
    journal = Journal(journal_of(path))
    name = journal.name
    journal_of(path).unlink()
    journal = Journal(journal_of(path))
    journal.name = name
    journal.append([("umbrella", ["c1"]), ("parasol", ["c3"]), ("tent", ["c3"])])
    with in_process({"named": path}, allow_learn=True) as server:
        learned(server, 3)
    assert points(path) == before + 3


def test_another_model_in_the_same_place_gets_the_examples_that_wait(path, trained, tmp_path):
    with in_process({"named": path}, allow_learn=True) as server:
        server.post("/v1/models/named/learn", {"examples": [{"text": "tent", "labels": ["c1"]}]})
        learned(server, 1)
    Journal(journal_of(path)).append([("parasol", ["c3"])])
    ls.load(trained).save(path)  # has learned nothing
    with in_process({"named": path}, allow_learn=True) as server:
        learned(server, 2)
    assert points(path) == points(trained) + 1
    del tmp_path


def test_an_update_that_fails_is_shown_and_tried_again(path, monkeypatch):
    from labelspace.serve import learning

    monkeypatch.setattr(learning, "_AGAIN", 0.05)
    with in_process({"named": path}, allow_learn=True) as server:
        with store.locked(path):  # as by `labelspace update`
            server.post(
                "/v1/models/named/learn", {"examples": [{"text": "tent", "labels": ["c1"]}]}
            )
            for _ in range(200):
                state = server.get("/v1/models/named").json()["learning"]
                if state["error"]:
                    break
                time.sleep(0.02)
            assert "is being changed" in state["error"]
            assert state["pending"] == 1
        assert learned(server, 1)["learning"] == {"pending": 0, "error": None}


def test_no_accepted_example_is_lost_when_the_process_is_killed(path):
    """Kill the server at random moments while examples arrive; count what is left of them."""
    dice, base, accepted = random.Random(1), points(path), 0
    for _ in range(KILLS):
        with real_server(path, "--allow-learn") as (address, process):
            timer = threading.Timer(dice.uniform(0.02, 0.5), process.kill)
            timer.start()
            try:
                with httpx.Client() as client:
                    while True:
                        example = {"text": f"umbrella {accepted}", "labels": ["c1"]}
                        answer = client.post(
                            f"{address}/v1/models/named/learn", json={"examples": [example]}
                        )
                        assert answer.status_code == 202
                        accepted = answer.json()["sequence"]
            except httpx.TransportError:
                process.wait(30)
            finally:
                timer.join()
        tagger, journal = ls.load(path), Journal(journal_of(path))
        contained = tagger.metadata.get("learned", {}).get("sequence", 0)
        left = [entry.sequence for entry in journal.after(contained, 1 << 30)]
        assert left == list(range(contained + 1, contained + 1 + len(left)))
        assert contained + len(left) >= accepted  # none is lost
        assert points(path) == base + contained  # none is applied twice
    assert accepted > 0
