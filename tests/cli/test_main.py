"""What goes wrong is one sentence on standard error and an exit code, never a traceback."""

from __future__ import annotations

import errno
import os

import pytest
import typer

from labelspace.errors import DataError, ParameterError
from labelspace.model.store import locked


class Stopped(KeyboardInterrupt):
    exit_code = 143


class Kept(DataError):
    exit_code = 130


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (DataError("not this", path="a.csv", line=3), 1, "error: a.csv:3: not this\n"),
        (ParameterError("k=0: expected 1"), 2, "error: k=0: expected 1\n"),
        (Kept("kept in x"), 130, "error: kept in x\n"),
        (OSError(errno.ENOSPC, "No space left on device"), 1, "error: No space left on device\n"),
        (OSError(errno.EROFS, "Read-only", "ro/m"), 1, "error: ro/m: Read-only\n"),
        (PermissionError(13, "Permission denied", "a", None, "b"), 1,
         "error: a: b: Permission denied\n"),
        (OSError("quota"), 1, "error: quota\n"),
        (MemoryError("3 TiB"), 1, "error: out of memory: 3 TiB\n"),
        (KeyboardInterrupt(), 130, ""),
        (Stopped(), 143, ""),
    ],
)  # fmt: skip
def test_errors_become_sentences_and_exit_codes(command, monkeypatch, error, code, words):
    app = typer.Typer()

    @app.command()
    def fail() -> None:
        raise error

    monkeypatch.setattr("labelspace.cli.app.app", app)
    assert command() == (code, "", words)


def test_an_exit_code_of_a_command_stays(command, monkeypatch):
    app = typer.Typer()

    @app.command()
    def leave() -> None:
        raise typer.Exit(7)

    monkeypatch.setattr("labelspace.cli.app.app", app)
    assert command() == (7, "", "")


@pytest.mark.parametrize("place", ["train.jsonl", "train.jsonl/m", "x" * 300, "full", "/proc/m"])
def test_places_where_no_model_can_go(shop, command, place):
    (shop / "full").mkdir()
    (shop / "full" / "precious").write_text("keep")
    code, _, err = command("train", shop / "train.jsonl", "--out", shop / place, "--method", "knn")
    assert code == 1
    assert err.splitlines()[-1].startswith("error: ")
    assert "Traceback" not in err
    assert (shop / "full" / "precious").read_text() == "keep"


def test_of_two_updates_at_once_the_second_is_refused(shop, command):
    train = ("train", shop / "train.jsonl", "--out", shop / "m", "--method", "dxml")
    assert command(*train, "--set", "epochs=1")[0] == 0
    update = ("update", shop / "m", shop / "test.jsonl")
    with locked(shop / "m"):
        before = (shop / "m" / "model.json").read_bytes()
        code, _, err = command(*update)
        assert code == 1
        assert f"being changed by process {os.getpid()}" in err
        assert (shop / "m" / "model.json").read_bytes() == before
        assert command(*update, "--out", shop / "other")[0] == 0
    code, _, err = command(*update)
    assert code == 0, err
    assert not [path.name for path in shop.iterdir() if path.name.startswith(".")]
