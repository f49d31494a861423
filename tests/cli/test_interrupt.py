"""Ctrl-C and kill: a resumable checkpoint, no traceback, and the same model in the end."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from labelspace.data.dataset import Dataset
from labelspace.data.xc import write_xc
from support.planted import planted

TOY_CLI = Path(__file__).resolve().parents[1] / "support" / "toy_cli.py"


@pytest.fixture
def train(tmp_path):
    X, Y = planted(1500)
    write_xc(Dataset(labels=Y, features=X), tmp_path / "train.txt")

    def start(name, *arguments):
        command = [
            *(sys.executable, str(TOY_CLI), "train", str(tmp_path / "train.txt")),
            *("--method", "toy", "--set", "epochs=15", "--out", str(tmp_path / name)),
            # A checkpoint after every batch, so that a kill always finds one.
            *("--checkpoint-minutes", "0", *arguments),
        ]
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    return start


def stop(process, checkpoint, how):
    """Wait for a checkpoint, let the run go on a little, then send the signal."""
    deadline = time.monotonic() + 60
    while not checkpoint.exists():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(0.2)
    process.send_signal(how)
    return process.communicate(timeout=60)[1]


def finish(process):
    err = process.communicate(timeout=120)[1]
    assert process.returncode == 0, err


def learned(directory):
    return (directory / "method.safetensors").read_bytes()


def test_a_killed_or_interrupted_run_resumes_to_the_same_model(tmp_path, train):
    finish(train("alone"))
    for name, how in (("killed", signal.SIGKILL), ("interrupted", signal.SIGINT)):
        checkpoint = tmp_path / f"{name}.checkpoint" / "checkpoint.safetensors"
        process = train(name)
        err = stop(process, checkpoint, how)
        if how == signal.SIGINT:
            assert process.returncode == 1
            assert "--resume" in err
            assert "Traceback" not in err
        assert checkpoint.exists()
        assert not (tmp_path / name).exists()
        refused = train(name)
        assert "unfinished run" in refused.communicate(timeout=60)[1]
        assert refused.returncode == 1
        finish(train(name, "--resume"))
        assert learned(tmp_path / name) == learned(tmp_path / "alone")
        assert not checkpoint.parent.exists()
