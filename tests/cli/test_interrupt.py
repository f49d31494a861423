"""Ctrl-C, SIGTERM, SIGHUP, kill: a resumable checkpoint, and the same model in the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from labelspace.cli import signals
from labelspace.cli import train as train_command
from labelspace.data.dataset import Dataset
from labelspace.data.formats.xc import write_xc
from labelspace.methods import registry
from support.planted import planted
from support.stopping import stopping_bar
from support.toy import Toy

TOY_CLI = Path(__file__).resolve().parents[1] / "support" / "toy_cli.py"


def learned(directory):
    return (directory / "method.safetensors").read_bytes()


@pytest.fixture
def toy(tmp_path, command, monkeypatch):
    """Train the toy method: toy(name, *arguments), in a process of its own with stop=..."""
    X, Y = planted(300)
    write_xc(Dataset(labels=Y, features=X), tmp_path / "train.txt")
    monkeypatch.setitem(registry._registered, "toy", Toy)

    def run(name, *arguments, stop=None):
        given = [
            *("train", str(tmp_path / "train.txt"), "--method", "toy", "--set", "epochs=3"),
            *("--out", str(tmp_path / name), *arguments),
        ]
        if stop is None:
            code, _, err = command(*given)
            return code, err
        done = subprocess.run(
            [sys.executable, str(TOY_CLI), *given],
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
            env={**os.environ, "STOP_AT": stop},
        )
        return done.returncode, done.stderr

    return run


def test_processes_that_are_killed_or_terminated_resume_to_the_same_model(tmp_path, toy):
    assert toy("alone")[0] == 0
    for how, stop, expected in (
        # Without minutes there is a checkpoint after every batch, which a kill leaves.
        ("killed", f"{signal.SIGKILL:d} batch 15", -signal.SIGKILL),
        ("terminated", f"{signal.SIGTERM:d} batch 15", 143),
    ):
        minutes = ("--checkpoint-minutes", "0") if how == "killed" else ()
        code, err = toy(how, *minutes, stop=stop)
        assert code == expected, err
        assert "Traceback" not in err
        if how == "terminated":
            assert err.count("--resume") == 1
        assert (tmp_path / f"{how}.checkpoint" / "checkpoint.safetensors").exists()
        assert not (tmp_path / how).exists()
        code, err = toy(how, "--resume")
        assert code == 0, err
        assert learned(tmp_path / how) == learned(tmp_path / "alone")
        assert not (tmp_path / f"{how}.checkpoint").exists()


METHODS = {
    "glas": ("dim=8", "epochs=2", "batch_size=32"),
    "hyperbolic": ("dim=4", "epochs=2", "batch_size=32", "ensemble=2"),
    "linear": (),
    "hierarchicalxc": ("fanout=4", "leaf_size=20", "ensemble=1"),
    "fusion": ("members=linear,hierarchicalxc",),
}


@pytest.fixture
def train(tmp_path, command, monkeypatch):
    """Train in this process: train(method, name, *arguments, stop=...) -> (exit code, stderr)."""
    X, Y = planted(300, n_features=120, n_labels=60)
    write_xc(Dataset(labels=Y, features=X), tmp_path / "data.txt")

    def run(method, name, *arguments, stop=None):
        settings = (word for pair in METHODS[method] for word in ("--set", pair))
        given = ("--method", method, *settings, "--out", tmp_path / name, *arguments)
        with monkeypatch.context() as patch:
            patch.setattr(signals, "_terminate", signals._terminate)
            if stop is not None:
                patch.setattr(train_command, "ProgressBar", stopping_bar(*stop))
            code, _, err = command("train", tmp_path / "data.txt", *given)
        return code, err

    return run


@pytest.mark.parametrize(
    ("method", "stop", "code"),
    [
        ("glas", (signal.SIGINT, "batch", 3), 130),
        ("glas", (signal.SIGHUP, "batch", 3), 129),
        # After the last epoch: neighbours are laid out, scores calibrated.
        ("glas", (signal.SIGINT, "end"), 130),
        ("hyperbolic", (signal.SIGTERM, "end"), 143),
        ("linear", (signal.SIGTERM, "work", 3), 143),
        ("hierarchicalxc", (signal.SIGTERM, "work", 3), 143),
        ("fusion", (signal.SIGTERM, "work", 1, "2-hierarchicalxc"), 143),
    ],
)
def test_what_is_done_is_kept_and_not_done_again(tmp_path, train, method, stop, code):
    assert train(method, "alone")[0] == 0
    found, err = train(method, "stopped", stop=stop)
    assert found == code, err
    (last,) = (line for line in err.splitlines() if "--resume" in line)
    assert last.startswith("error: interrupted;" if code == 130 else "error: stopped by SIG")
    folder = tmp_path / "stopped.checkpoint"
    kept = {file.name for file in folder.rglob("*.safetensors")}
    if method == "fusion":
        assert (folder / "1-linear" / "finished.safetensors").exists()
    elif method in ("linear", "hierarchicalxc"):
        assert any(name.startswith("part-") for name in kept)
    else:
        assert kept == {"checkpoint.safetensors"}
    found, err = train(method, "stopped")
    assert found == 1
    assert "unfinished run" in err
    if stop[1] == "end":  # no batch is left to be trained: a signal at one would stop it again
        found, err = train(method, "stopped", "--resume", stop=(signal.SIGTERM, "batch"))
    else:
        found, err = train(method, "stopped", "--resume")
    assert found == 0, err
    assert learned(tmp_path / "stopped") == learned(tmp_path / "alone")
    assert not folder.exists()


def test_a_run_stopped_before_its_first_batch_leaves_nothing(tmp_path, train):
    code, err = train("glas", "m", stop=(signal.SIGTERM, "start"))
    assert code == 143
    assert "before there was anything to save" in err
    assert not list(tmp_path.glob("m*"))


def test_handlers_are_as_before_and_ignored_signals_stay_ignored(train):
    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        code, err = train("glas", "m", stop=(signal.SIGHUP, "batch"))
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    assert code == 0, err
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_second_training_to_the_same_place_is_refused(tmp_path, train, monkeypatch):
    answers = []

    class Second(stopping_bar(signal.SIGTERM, "never")):
        def on_start(self, run):
            super().on_start(run)
            # Another process that wants the same folder while this one trains.
            script = (
                "import sys, pathlib\n"
                "from labelspace.model.unfinished import unfinished_run\n"
                "with unfinished_run(pathlib.Path(sys.argv[1]), 'glas', resume=False,\n"
                "                    restart=True):\n"
                "    pass\n"
            )
            command = [sys.executable, "-c", script, str(tmp_path / "m.checkpoint")]
            answers.append(
                subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
            )

    monkeypatch.setattr(signals, "_terminate", signals._terminate)
    monkeypatch.setattr(train_command, "ProgressBar", Second)
    code, err = train("glas", "m")
    assert code == 0, err
    assert answers[0].returncode == 1
    assert "another training" in answers[0].stderr
    assert "choose another --out" in answers[0].stderr
    assert not (tmp_path / "m.checkpoint").exists()


def test_the_checkpoint_of_another_method_is_named(tmp_path, train):
    assert train("fusion", "m", stop=(signal.SIGTERM, "work", 1, "2-"))[0] == 143
    code, err = train("glas", "m", "--resume")
    assert code == 1
    assert "unfinished run of fusion, not of glas" in err
    assert (tmp_path / "m.checkpoint" / "1-linear").exists()
    assert train("glas", "m", "--restart")[0] == 0


@pytest.mark.parametrize("minutes", ["-1", "nan", "inf"])
def test_minutes_that_cannot_be_are_refused(tmp_path, train, minutes):
    code, err = train("glas", "m", "--checkpoint-minutes", minutes)
    assert code == 2
    assert "checkpoint minutes" in err
    assert not list(tmp_path.glob("m*"))


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path, train):
    (tmp_path / "m.checkpoint").write_text("a file in the way")
    code, err = train("glas", "m")
    assert code == 1
    assert "m.checkpoint cannot be written" in err


def test_a_disk_that_fails_does_not_end_the_training(tmp_path, train, caplog):
    # A folder where the file is to go fails for root too, as a full disk would.
    (tmp_path / "m.checkpoint" / "checkpoint.safetensors" / "x").mkdir(parents=True)
    code, err = train("glas", "m", "--resume", "--checkpoint-minutes", "0")
    assert code == 1
    assert "not a readable checkpoint" in err

    class Blocked(stopping_bar(signal.SIGTERM, "never")):
        def on_start(self, run):
            super().on_start(run)
            (tmp_path / "n.checkpoint" / "checkpoint.safetensors").mkdir()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signals, "_terminate", signals._terminate)
        patch.setattr(train_command, "ProgressBar", Blocked)
        code, err = train("glas", "n", "--checkpoint-minutes", "0")
    assert code == 0, err
    assert "cannot be written" in caplog.text
    assert learned(tmp_path / "n")
