"""The server on Ray Serve answers as the one in a process does, also when a replica is killed."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

import support.served  # noqa: F401  # skips where the extra is not installed
from labelspace.errors import ParameterError, StoreError
from labelspace.serve.app import Application
from labelspace.serve.run import bound
from labelspace.serve.settings import Settings
from support.ray_cluster import kill_one
from support.served import InProcess, httpx, train_model

ray = pytest.importorskip("ray", reason="ray is not installed")
pytestmark = [
    pytest.mark.xdist_group("ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of Ray Serve itself
]

from labelspace.engine.ray import RayEngine  # noqa: E402
from labelspace.serve.ray_app import application, deployed, run_on_ray  # noqa: E402

QUERY = {"texts": ["ripe red apple", "steel hammer"], "k": 2}


def free_port():
    with bound("127.0.0.1", 0) as listening:
        return listening.getsockname()[1]


@pytest.mark.usefixtures("ray_cluster")
def test_replicas_answer_as_one_process_does(tmp_path):
    settings = Settings({"named": str(train_model(tmp_path / "named"))})
    ready, stop, failures = threading.Event(), threading.Event(), []
    port = free_port()

    def serve():
        try:
            run_on_ray(
                *(RayEngine(), settings, "127.0.0.1", port),
                replicas=2,
                on_ready=lambda _: ready.set(),
                stop=stop,
            )
        except Exception as error:
            failures.append(error)
            ready.set()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        assert ready.wait(120)
        assert not failures, failures
        address = f"http://127.0.0.1:{port}/v1/models/named/tag"
        answers = [httpx.post(address, json=QUERY, timeout=60) for _ in range(4)]
        with InProcess(Application(settings)) as local:
            expected = local.post("/v1/models/named/tag", json=QUERY).json()
        assert all(answer.json() == expected for answer in answers)
        names = replicas()
        assert len(names) == 2
        assert kill_one("ServeReplica")  # by SIGKILL
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            answer = httpx.post(address, json=QUERY, timeout=60)
            assert answer.json() == expected
            if len(replicas()) == 2 and set(replicas()) != set(names):
                break
        assert len(set(names) & set(replicas())) == 1  # another one is there
    finally:
        stop.set()
        thread.join()


def replicas():
    actors = ray.util.list_named_actors(all_namespaces=True)
    return [actor["name"] for actor in actors if actor["name"].startswith("SERVE_REPLICA::")]


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({"models": "m"}, "must be a list"),
        ({}, "must be a list"),
        ({"models": ["m"], "replica": 2}, "'replica' is not one of models, replicas"),
    ],
)
def test_options_of_a_configuration_are_checked(options, cause):
    with pytest.raises(ParameterError, match=cause):
        application(options)


def test_what_replicas_cannot_do_is_refused(tmp_path):
    settings = Settings({"named": str(tmp_path)})
    for port, kind, cause in (
        (0, ParameterError, "give a port"),
        (8123, StoreError, "holds no model"),
    ):
        with pytest.raises(kind, match=cause):
            run_on_ray(RayEngine(), settings, "127.0.0.1", port, replicas=1, on_ready=print)
    with pytest.raises(ParameterError, match="one process learns"):
        deployed(replace(settings, allow_learn=True), 1, 1)
