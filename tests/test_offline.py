"""Training, prediction and the start of a server open no connection, and work without a network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

# Runs commands in one process of a network namespace that has nothing but a loopback device. An
# audit hook sees each attempt to resolve a name or to send to an address, also those that fail.
PROGRAM = """
import fcntl, json, os, socket, struct, sys, threading, time, urllib.request

with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:  # ip link set lo up
    get, put, up = 0x8913, 0x8914, 1
    asked = struct.pack("16sh", b"lo", 0)
    flags = struct.unpack("16sh", fcntl.ioctl(device, get, asked))[1]
    fcntl.ioctl(device, put, struct.pack("16sh", b"lo", flags | up))

attempts = []

def seen(event, arguments):
    if event in ("socket.getaddrinfo", "socket.gethostbyname"):
        place = arguments[0]
    elif event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        place = arguments[1]
    else:
        return
    place = place[0] if isinstance(place, tuple) else place
    if place not in (None, "127.0.0.1", "localhost", b"localhost"):
        attempts.append(f"{event} {place}")

sys.addaudithook(seen)
from labelspace.cli import main

def run(*words):
    sys.argv = ["labelspace", *words]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise

run("train", "rows.jsonl", "--out", "model", *sys.argv[1:])
run("predict", "model", "rows.jsonl", "--out", "tags.jsonl")
served = []

def request_and_stop():
    for _ in range(600):
        try:
            with urllib.request.urlopen("http://127.0.0.1:8765/v1/models", timeout=5) as answer:
                served.append(json.load(answer)["models"][0]["name"])
                break
        except OSError:
            time.sleep(0.1)
    os.kill(os.getpid(), 15)

if "SERVE" in os.environ:
    threading.Thread(target=request_and_stop).start()
    run("serve", "model", "--port", "8765")
print(json.dumps({"attempts": attempts, "served": served}))
"""


def in_namespace(folder, *arguments, **environment):
    command = ["unshare", "--map-root-user", "--net", sys.executable, "-c", PROGRAM, *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, **environment},
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare: network namespaces need Linux and util-linux")
    tried = ["unshare", "--map-root-user", "--net", "true"]
    if subprocess.run(tried, capture_output=True, check=False).returncode:
        pytest.skip("network namespaces are not permitted here")
    rows = [
        {"text": f"{kind} {kind}s number{i % 7}", "labels": [kind]}
        for i in range(40)
        for kind in ("fruit", "tool")
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_nothing_connects(folder):
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    done = in_namespace(folder, "--method", "fusion", "--set", "members=knn,linear", SERVE="1")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == {"attempts": [], "served": ["model"]}


def test_an_attempt_would_be_seen(folder):
    """The hook and the namespace work: a download is seen, and fails."""
    code = PROGRAM.replace(
        'run("train"', 'run("data", "get", "eurlex-4k", "--out", "d")\nrun("train"'
    )
    done = subprocess.run(
        ["unshare", "--map-root-user", "--net", sys.executable, "-c",
         "import atexit; atexit.register(lambda: print(attempts))\n" + code],
        cwd=folder, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode != 0
    assert "socket.getaddrinfo" in done.stdout
