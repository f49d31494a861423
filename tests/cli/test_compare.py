"""`labelspace compare`: what it writes and prints, and what is left of it when it is stopped."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from labelspace.cli.compare import _print_report
from labelspace.comparison.compare import COSTS, data_set_name
from labelspace.methods.registry import method_class
from support.comparisons import report_of

# Takes hours: long enough to be stopped in.
ENDLESS = (
    "--set",
    "glas.epochs=100000000",
    "--set",
    "glas.patience=100000000",
    "--set",
    "glas.dim=2",
)


@pytest.fixture
def compare(shop, command):
    def run(*arguments):
        data = ("--train", shop / "train.jsonl", "--test", shop / "test.jsonl")
        return command("compare", *data, *arguments)

    return run


@pytest.fixture
def report():
    """Return a report with long names and figures, as `compare` makes it."""
    return report_of(("hierarchicalxc", "omikuji", "omikuji-bonsai"), (0.9, 0.8, 0.79))


@pytest.mark.parametrize("repeated", [False, True])
def test_tables_are_whole_on_a_terminal_of_80_columns(report, repeated, monkeypatch, capsys):
    for name, value in (("FORCE_COLOR", "1"), ("COLUMNS", "80"), ("TERM", "dumb")):
        monkeypatch.setenv(name, value)
    accuracy = ("P@1", "P@3", "P@5", "nDCG@3", "nDCG@5", "PSP@1", "PSP@3", "PSP@5", "ECE")
    if repeated:
        report["settings"]["seeds"] = [0, 1, 2]
        for entrant in report["entrants"]:
            entrant["std"] = {key: entrant[key] / 9 for key in (*accuracy, *COSTS)}
    _print_report(report)
    out = capsys.readouterr().out
    tables = [line for line in out.splitlines() if line[0] in "┏┃┡│└"]  # a sentence may be longer
    assert len(tables) > 20
    assert all(len(line) <= 80 for line in tables)
    assert "…" not in out
    for entrant in report["entrants"]:
        rows = " ".join(
            line for line in out.splitlines() if line.startswith(f"│ {entrant['name']} ")
        )
        for key in accuracy:
            deviation = f" ± {entrant['std'][key]:.2f}" if repeated else ""
            assert f" {entrant[key]:.2f}{deviation} " in rows
        deviation = f" ± {entrant['std']['train_s']:,.0f}" if repeated else ""
        assert f" {entrant['train_s']:,.0f}{deviation} " in rows
    assert all(f" {key} " in out for key in accuracy)
    assert "nDCG@1" not in out  # it is P@1
    rows = " ".join(out.split())
    for pair in report["significance"]["pairs"]:
        test = pair["P@1"]
        assert f" {test['difference']:+.2f} [{test['low']:+.2f}, {test['high']:+.2f}] p " in rows
    assert "paired randomisation test over 400 test examples" in rows
    assert ("sample standard deviation (n - 1) over 3 runs" in out) == repeated


def test_json_is_printed_or_written(compare, shop):
    for call in (("--json",), ("--json", "-")):
        code, out, err = compare("--methods", "most-common", *call)
        assert code == 0, err
        assert json.loads(out)["entrants"][0]["name"] == "most-common"
    code, out, err = compare("--methods", "most-common", "--json", "--out", shop / "r.json")
    assert code == 0, err
    assert json.loads(out) == json.loads((shop / "r.json").read_text())


@pytest.mark.parametrize(
    "call",
    [("a.json",), ("--json", "a.json", "b.json"), ("--json", "a.json", "--out", "b.json")],
)
def test_a_file_too_many_is_a_wrong_call(compare, call):
    code, _, err = compare("--methods", "most-common", *call)
    assert code == 2
    assert call[-1] in err


def test_a_report_in_every_form(compare, shop):
    files = [shop / f"r.{suffix}" for suffix in ("json", "html", "csv", "tex")]
    options = zip(("--json", "--html", "--csv", "--latex"), files, strict=True)
    code, out, err = compare(
        "--methods", "most-common,random", *(w for each in options for w in each)
    )
    assert code == 0, err
    found = json.loads((shop / "r.json").read_text())
    entrant, other = found["entrants"]
    with (shop / "r.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["P@1"]) for row in rows] == [entrant["P@1"], other["P@1"]]
    best = max(entrant["P@1"], other["P@1"])
    assert f" & \\textbf{{{best:.2f}}} & " in (shop / "r.tex").read_text()
    (pair,) = found["significance"]["pairs"]
    assert pair["names"] == ["most-common", "random"]
    assert f"{pair['P@1']['difference']:+.2f} [" in out
    assert found["data"]["name"] == shop.name
    assert f"<h1>{shop.name}</h1>" in (shop / "r.html").read_text()
    assert f"{entrant['P@1']:.2f}" in out
    # A line when a run begins, and one when an entrant has ended.
    assert "  most-common, seed 0: started\n  most-common: P@1" in err
    assert {each.name for each in shop.iterdir()} == {
        *("train.jsonl", "test.jsonl"),
        *(file.name for file in files),
    }


def test_one_failure_among_others_is_a_warning(compare, shop):
    # There is no taxonomy.
    failing = ("--methods", "hierarchicalxc,most-common", "--set", "hierarchicalxc.tree=taxonomy")
    code, out, err = compare(*failing, "--json", shop / "r.json", "--html", shop / "r.html")
    assert code == 0, err
    assert "warning: hierarchicalxc failed" in err
    one, other = json.loads((shop / "r.json").read_text())["entrants"]
    assert one["name"] == "hierarchicalxc"
    assert "taxonomy" in one["error"]
    assert one["error"] in " ".join(out.split())
    assert other["P@1"] > 0
    assert f"{other['P@1']:.2f}" in out
    assert "taxonomy" in (shop / "r.html").read_text()
    assert not (shop / "r.json.state").exists()


def test_finished_runs_are_kept_beside_any_file_of_the_report(compare, shop):
    for option in ("--csv", "--latex"):
        (shop / "r.out.state").write_text("")
        code, _, err = compare("--methods", "knn", option, shop / "r.out")
        assert code == 1
        assert "r.out.state holds an unfinished comparison" in err


def test_a_preset_is_compared_under_its_own_name(compare, shop):
    pytest.importorskip("torch", reason="extra 'neural' is not installed")
    chosen = method_class("neuralxc").parameters["preset"].options[0]
    name = f"neuralxc:{chosen}"
    quick = ("--set", f"{name}.epochs=1", "--set", f"{name}.ensemble=1")
    code, out, err = compare("--methods", name, *quick, "--json", shop / "r.json")
    assert code == 0, err
    (entrant,) = json.loads((shop / "r.json").read_text())["entrants"]
    assert (entrant["name"], entrant["method"]) == (name, "neuralxc")
    assert entrant["params"]["preset"] == chosen
    assert entrant["params"]["epochs"] == 1
    assert f" {name} " in out


def test_where_all_fail_the_report_is_written_and_the_code_is_1(compare, shop):
    bad = ("--methods", "most-common", "--features", "sentences:/no/such/model")
    code, _, err = compare(*bad, "--json", shop / "r.json")
    assert code == 1
    assert "every method failed" in err
    (entrant,) = json.loads((shop / "r.json").read_text())["entrants"]
    assert entrant["name"] == "most-common"
    assert "/no/such/model" in entrant["error"]


@pytest.mark.parametrize("option", ["--json", "--html", "--csv", "--latex"])
def test_a_place_that_cannot_be_written_is_found_before_anything_runs(compare, shop, option):
    for place, why in ((shop / "no" / "x", "No such file"), (shop, "directory")):
        code, _, err = compare("--methods", "most-common", option, place)
        assert code == 1
        assert str(place) in err
        assert why in err
        assert "started" not in err


def test_called_wrongly(compare, shop):
    for wrong, why in (
        (("--methods", "knn", "--set", "glas.dim=5"), "not among the methods"),
        (("--methods", "knn:paper"), "knn has no presets"),
        (("--methods", ""), "nothing to compare"),
        (("--methods", "knn", "--resume"), "--state FILE"),
        (("--methods", "knn", "--propensity", "x"), "two numbers"),
    ):
        code, _, err = compare(*wrong)
        assert code == 2, err
        assert why in err
    (shop / "r.json.state").write_text("")
    code, _, err = compare("--methods", "knn", "--json", shop / "r.json")
    assert code == 1
    assert "--resume continues it, --restart deletes it" in err


def test_the_default_method_is_compared_by_default(command):
    assert "[default: fusion,knn]" in " ".join(command("compare", "--help")[1].split())


def test_a_data_set_has_the_name_of_its_folder_or_file(tmp_path, monkeypatch):
    folder = tmp_path / "bibtex"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert data_set_name(folder) == data_set_name(Path()) == "bibtex"
    assert data_set_name(folder / "train.txt.gz") == data_set_name(Path("train.txt")) == "bibtex"
    assert data_set_name(folder / "shop.parquet") == "shop"


def children(pid):
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_until(true):
    deadline = time.monotonic() + 120  # a busy machine is slow to start processes
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are found in /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_comparison_leaves_its_finished_runs_and_nothing_else(
    shop, how, compare, monkeypatch
):
    pytest.importorskip("torch", reason="extra 'neural' is not installed")
    temporary, kept = shop / "tmp", shop / "r.json.state"
    temporary.mkdir()
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "labelspace", "compare", "--train", str(shop / "train.jsonl")),
            *("--test", str(shop / "test.jsonl"), "--json", str(shop / "r.json")),
            *("--methods", "most-common,glas", *ENDLESS),
        ],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
        # A shell's background job is started with Ctrl-C ignored, and so would this be.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        lines = iter(process.stderr.readline, "")
        assert any("glas, seed 0: started" in line for line in lines)
        wait_until(lambda: children(process.pid))
        (child,) = children(process.pid)
        process.send_signal(how)
        error = process.communicate(timeout=60)[1]
    finally:
        process.kill()
        process.communicate()
    wait_until(lambda: not alive(child))
    left = list(temporary.glob("labelspace-compare-*"))
    if how == signal.SIGKILL:
        assert len(left) == 1
    else:
        assert process.returncode == 128 + how
        assert f"kept in {kept}: repeat the command with --resume" in error
        assert "Traceback" not in error
        assert not left
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    code, _, error = compare("--methods", "most-common", "--json", shop / "r.json", "--resume")
    assert code == 0, error
    assert "started" not in error
    assert not list(temporary.glob("labelspace-compare-*"))
    assert not kept.exists()
    (entrant,) = json.loads((shop / "r.json").read_text())["entrants"]
    assert entrant["name"] == "most-common"
