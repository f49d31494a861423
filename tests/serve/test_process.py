"""Real servers: signals, new versions, several processes, and what is refused at the start."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import threading
import time

import psutil
import pytest

import labelspace as ls
import support.served  # noqa: F401  # skips where the extra is not installed
from labelspace.errors import LabelspaceError, ParameterError
from labelspace.serve.run import bound, check_exposure, run_server
from labelspace.serve.settings import Settings, answered_hosts, named_models
from support.served import ROWS, httpx, in_process, real_server, train_model


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return train_model(tmp_path_factory.mktemp("models") / "named")


@pytest.fixture
def path(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "named")


def until(check, seconds=60.0):
    end = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


def test_no_accepted_request_is_lost_on_sigterm(path):
    """Requests that the server has begun to read are answered, and it ends with code 0."""
    body = json.dumps({"texts": ["ripe red apple"] * 50}).encode()
    head = (
        b"POST /v1/models/named/tag HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
    )
    head += b"\r\nContent-Length: %d\r\n\r\n" % len(body)
    log = []
    with real_server(path, log=log) as (address, process):
        port = int(address.rpartition(":")[2])
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
        for client in clients:
            client.sendall(head + body[:100])
        # When this is answered, the other connections have been accepted and read.
        assert httpx.get(f"{address}/health/ready").status_code == 200
        process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        for client in clients:
            client.sendall(body[100:])
        answers = []
        for client in clients:
            client.settimeout(30)
            parts = []
            while part := client.recv(1 << 16):
                parts.append(part)
            client.close()
            answers.append(b"".join(parts))
        assert process.wait(30) == 0
    assert all(answer.startswith(b"HTTP/1.1 200") for answer in answers)
    assert all(answer.count(b'"labels"') == 50 for answer in answers)
    assert sum("POST /v1/models/named/tag 200" in line for line in log) == 20


def test_a_new_version_is_picked_up_and_a_broken_one_refused_without_a_failed_request(path):
    rows = [{"text": row["text"], "labels": ["new"]} for row in ROWS]
    statuses, stop = [], threading.Event()

    def keep_asking(address):
        with httpx.Client() as client:
            while not stop.is_set():
                answer = client.post(f"{address}/v1/models/named/tag", json={"text": "red apple"})
                statuses.append(answer.status_code)

    with real_server(path, "--watch") as (address, _):
        asking = threading.Thread(target=keep_asking, args=(address,))
        asking.start()
        try:
            first = httpx.get(f"{address}/v1/models/named").json()["version"]
            ls.train(rows, method="knn").save(path)

            def shown():
                return httpx.get(f"{address}/v1/models/named").json()

            second = until(lambda: shown()["version"] != first and shown())
            assert second["labels"] == 1
            # A broken one: an array was cut off.
            file = path / "method.safetensors"
            broken = path.with_name("broken")
            shutil.copytree(path, broken)
            (broken / file.name).write_bytes(file.read_bytes()[:-8])
            path.rename(path.with_name("old"))
            broken.rename(path)
            refused = until(lambda: shown()["error"] and shown())
            assert "wrong checksum" in refused["error"]
            assert refused["version"] == second["version"]
            answer = httpx.post(f"{address}/v1/models/named/tag", json={"text": "red apple"})
            assert answer.json()["results"][0]["labels"][0]["name"] == "new"
            # Repaired.
            train_model(path.with_name("whole"))
            path.rename(path.with_name("older"))
            path.with_name("whole").rename(path)
            repaired = until(lambda: shown()["version"] != second["version"] and shown())
            assert (repaired["error"], repaired["labels"]) == (None, 4)
            figures = httpx.get(f"{address}/metrics").text
            assert 'labelspace_model_reloads_total{model="named",result="refused"} 1.0' in figures
            assert 'labelspace_model_reloads_total{model="named",result="loaded"} 2.0' in figures
        finally:
            stop.set()
            asking.join()
    assert set(statuses) == {200}


def test_several_processes_share_the_model_and_their_figures(path):
    with real_server(path, "--workers", "2") as (address, process):
        children = [
            child
            for child in psutil.Process(process.pid).children(recursive=True)
            if any("labelspace" in each or "spawn" in each for each in child.cmdline())
        ]
        assert len(children) >= 2
        served = {
            mapped.path
            for child in children
            for mapped in child.memory_maps()
            if mapped.path.startswith(str(path))
        }
        assert str(path / "method.safetensors") in served  # mapped, not copied
        expected = ls.load(path).tag("ripe red apple", k=1)[0].name
        for _ in range(20):
            answer = httpx.post(f"{address}/v1/models/named/tag", json={"text": "red apple"})
            assert answer.json()["results"][0]["labels"][0]["name"] == expected
        figures = httpx.get(f"{address}/metrics").text
        line = 'labelspace_requests_total{method="POST",route="/v1/models/{name}/tag",status="200"}'
        assert f"{line} 20.0" in figures
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_hang_up_reads_the_tokens_again_and_does_not_end_the_server(path, tmp_path):
    first, second = "first-0123456789abcdef", "second-0123456789abcdef"
    file = tmp_path / "tokens.txt"
    file.write_text(first)
    with real_server(path, "--token-file", file) as (address, process):

        def status(token):
            headers = {"Authorization": f"Bearer {token}"}
            return httpx.get(f"{address}/v1/models", headers=headers).status_code

        assert (status(first), status(second)) == (200, 401)
        file.write_text(second)
        process.send_signal(signal.SIGHUP)
        until(lambda: status(second) == 200)
        assert status(first) == 401


def test_log_lines_of_a_server(path):
    log = []
    with real_server(path, log=log) as (address, _):
        httpx.post(f"{address}/v1/models/named/tag", json={"text": "a private text"})
        httpx.get(f"{address}/v1/models/x%1b%5b31m?text=private")
    text = "".join(log)
    assert "POST /v1/models/named/tag 200" in text
    assert r"GET /v1/models/x\x1b[31m 404" in text
    assert "private" not in text
    assert "Traceback" not in text


def test_the_port_that_is_taken_is_named():
    taken = bound("127.0.0.1", 0)
    port = taken.getsockname()[1]
    with taken, pytest.raises(LabelspaceError, match=f"127.0.0.1:{port}: Address already in use"):
        bound("127.0.0.1", port)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
def test_other_machines_need_a_token(host):
    with pytest.raises(ParameterError, match="--token-file"):
        check_exposure(host, has_tokens=False, no_auth=False)
    check_exposure(host, has_tokens=True, no_auth=False)
    check_exposure(host, has_tokens=False, no_auth=True)
    assert answered_hosts(host, None, ()) is None


def test_this_machine_needs_no_token():
    for host in ("127.0.0.1", "localhost", "::1"):
        check_exposure(host, has_tokens=False, no_auth=False)
    assert "127.0.0.1" in answered_hosts("127.0.0.1", None, ())
    assert "tags.example" in answered_hosts("127.0.0.1", None, ["tags.example"])


def test_one_process_learns(path):
    settings = Settings({"named": str(path)}, allow_learn=True)
    with pytest.raises(ParameterError, match="--allow-learn with --workers"):
        run_server(settings, port=0, workers=2)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_broken_model_is_an_error_at_the_start(path, workers):
    (path / "method.safetensors").write_bytes(b"")
    with pytest.raises(LabelspaceError, match="wrong checksum"):
        run_server(Settings({"named": str(path)}), port=0, workers=workers)


def test_names_of_models(tmp_path):
    assert named_models(["a/b", "c=d/e"]) == {"b": "a/b", "c": "d/e"}
    (tmp_path / "x=y").mkdir()
    with pytest.raises(ParameterError, match="the name 'x=y' cannot be part of an address"):
        named_models([str(tmp_path / "x=y")])
    with pytest.raises(ParameterError, match="there are two models 'b'"):
        named_models(["a/b", "c/b"])
    with pytest.raises(ParameterError, match="cannot be part"):
        named_models(["/"])


def test_settings_reach_other_processes(monkeypatch):
    monkeypatch.setenv("LABELSPACE_SERVE", "")
    settings = Settings({"a": "b"}, origins=("*",), hosts=("localhost",), watch=True)
    settings.to_environment()
    assert Settings.from_environment() == settings


def test_readiness_ends_with_the_stop(path):
    with in_process({"named": path}) as server:
        server.app.context.stopping = True
        answer = server.get("/health/ready")
        assert (answer.status_code, answer.json()["status"]) == (503, "stopping")
        assert server.get("/health/live").status_code == 200


def test_workers_end_with_a_server_that_is_killed_and_the_next_removes_its_folder(
    path, tmp_path, monkeypatch
):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    with real_server(path, "--workers", "2") as (_, process):
        started = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait(30)
        _, alive = psutil.wait_procs(started, timeout=30)
    assert alive == []
    (left,) = temporary.glob("labelspace-metrics-*")
    with real_server(path, "--workers", "2"):
        assert not left.exists()
    assert list(temporary.glob("labelspace-*")) == []
