"""`labelspace tune`: its output, and what is left of it when it is stopped."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("optuna")

KNN = ("--method", "knn", "--metric", "P@1", "--cuts", "1")


def numbers_in(table):
    """Return the numbers of the trials in trials.csv."""
    if not table.exists():
        return []
    return [int(line.partition(",")[0]) for line in table.read_text().splitlines()[1:]]


def test_a_model_a_report_and_a_plot(shop, command):
    out = shop / "tuned"
    code, printed, err = command("tune", shop / "train.jsonl", *KNN, "--trials", 3, "--out", out)
    assert code == 0, err
    assert printed == (out / "report.txt").read_text()
    assert "3 complete" in printed
    assert err.count("trial ") >= 3
    assert (
        "<svg" in (out / "trials.html").read_text() or "<img" in (out / "trials.html").read_text()
    )
    code, evaluated, _ = command("evaluate", out / "model", shop / "test.jsonl", "--json")
    assert code == 0
    assert json.loads(evaluated)["P@1"] > 50


def test_the_printed_command_trains_the_same_model(shop, command):
    out = shop / "tuned"
    given = ("--set", "max_document_frequency=0.9", "--text-columns", "text", "--features", "tfidf")
    code, printed, err = command(
        *("tune", shop / "train.jsonl", *KNN, "--trials", 2, "--seed", 5, "--out", out),
        *(*given, "--json"),
    )
    assert code == 0, err
    found = json.loads(printed)
    assert found["settings"].items() >= {"max_document_frequency": "0.9", "seed": "5"}.items()
    words = shlex.split(found["command"])
    assert command(*words[1:-1], shop / "same")[0] == 0
    same = (shop / "same" / "method.safetensors").read_bytes()
    assert same == (out / "model" / "method.safetensors").read_bytes()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_command_continues(shop, command, how):
    out = shop / "tuned"
    arguments = ("tune", shop / "train.jsonl", *KNN, "--out", out)
    run = [sys.executable, "-m", "labelspace", *map(str, arguments), "--trials", "100000"]
    with subprocess.Popen(run, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        while len(numbers_in(out / "trials.csv")) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(how)
        err = process.communicate(timeout=60)[1]
    assert process.returncode == (143 if how == signal.SIGTERM else -signal.SIGKILL), err
    assert "Traceback" not in err
    if how == signal.SIGTERM:
        assert "repeat the command to continue" in err
    kept = numbers_in(out / "trials.csv")
    assert kept == list(range(1, len(kept) + 1))
    assert not (out / "model").exists()
    code, _, err = command(*arguments, "--trials", len(kept) + 2)
    assert code == 0, err
    assert "trial 1:" not in err  # what is done is not repeated
    assert numbers_in(out / "trials.csv") == list(range(1, len(kept) + 3))
    assert (out / "model" / "model.json").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--method", "most-common"), "most-common has no parameters with values to search"),
        (("--method", "knn", "--timeout", "soon"), "--timeout soon: expected a time"),
        (("--method", "knn", "--metric", "F1"), "expected a name such as P@1"),
    ],
)
def test_wrong_calls_name_the_cure(shop, command, arguments, message):
    code, _, err = command("tune", shop / "train.jsonl", "--out", shop / "out", *arguments)
    assert code != 0
    assert message in err


def test_methods_shows_what_is_searched(command):
    code, out, _ = command("methods", "knn", "--search")
    assert code == 0
    assert "3 to 100, logarithmic" in out
    assert "max_postings" not in out
