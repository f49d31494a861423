"""What a person sees of a long run, with and without a terminal."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import types

import numba

import labelspace as ls
from labelspace._core.work import report_work
from labelspace.runs.progress import (
    COMPILING,
    ProgressLines,
    Stages,
    compilation_notice,
    interactive,
    progress_bar,
)


def test_a_stage_is_printed_when_it_begins_and_when_it_ends():
    said = []
    stages = Stages(print_message=said.append)
    stages("reading")
    assert said == ["reading ..."]
    stages("training")
    assert said[1].startswith("  reading: ")
    assert said[2:] == ["training ..."]
    stages("")
    assert len(said) == 4
    quiet = Stages(quiet=True, print_message=said.append)
    quiet("reading")
    quiet("")
    assert len(said) == 4


def test_lines_come_now_and_then_with_the_latest_state():
    said, enough = [], threading.Event()

    def print_message(line):
        said.append(line)
        enough.set()

    with ProgressLines(seconds=0.001, print_message=print_message) as lines:
        assert enough.wait(60)
        assert "s so far" in said[0]
        task = lines.add_task("training", total=8)
        lines.update(task, completed=2, description="epoch 1/4")
        assert lines.line().endswith("s so far: epoch 1/4, 25 percent")
        unknown = lines.add_task("tagging", total=None)
        assert lines.line().endswith(": tagging")
        lines.update(unknown, advance=3)
    assert not lines._thread.is_alive()


def test_without_a_terminal_progress_is_lines(capsys):
    with progress_bar() as display:
        assert isinstance(display, ProgressLines)
        report_work("encoding texts", 1, 4)
        assert display.line().endswith(": encoding texts, 25 percent")
    report_work("encoding texts", 2, 4)  # nobody listens any more
    assert display.line().endswith("25 percent")
    assert capsys.readouterr().err == ""


def test_compilation_is_said_once_and_only_for_our_loops():
    said = []

    def compiled(module):
        def plus(a, b):
            return a + b

        plus.__module__ = module
        return numba.njit(plus)

    with compilation_notice(said.append):
        compiled("elsewhere")(1, 2)
        assert said == []
        compiled("labelspace.search.neighbours.voting")(1, 2)
        compiled("labelspace.search.neighbours.voting")(1.0, 2.0)
    assert said == [COMPILING]
    compiled("labelspace.search.neighbours.voting")(1, 2)
    assert said == [COMPILING]


def test_what_is_in_the_cache_is_not_said_to_compile(tmp_path):
    script = (
        "from labelspace.runs.progress import compilation_notice\n"
        "import numpy as np\n"
        "from labelspace._core.sparse_loops import scale_rows\n"
        "with compilation_notice(print):\n"
        "    scale_rows(np.array([0, 1]), np.ones(1), np.ones(1))\n"
    )
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    outputs = [
        subprocess.run(
            [sys.executable, "-c", script], env=env, check=True, capture_output=True, text=True
        ).stdout
        for _ in range(2)
    ]
    assert outputs == [f"{COMPILING}\n", ""]


def test_training_from_python_shows_progress_on_request(capsys):
    rows = [{"text": "ripe apple", "labels": ["fruit"]}, {"text": "saw", "labels": ["tool"]}] * 4
    ls.train(rows, method="knn")
    assert capsys.readouterr().err == ""
    ls.train(rows, method="knn", progress=True)
    err = capsys.readouterr().err
    assert "reading ..." in err
    assert "  training knn: " in err


def test_stages_of_training_are_truthful():
    rows = [{"text": "ripe apple", "labels": ["fruit"]}, {"text": "saw", "labels": ["tool"]}] * 4
    stages = []
    ls.train(rows, method="knn", on_stage=stages.append)
    assert stages == [
        "reading",
        "computing features",
        "loading libraries, checking memory",
        "training knn",
    ]


def test_a_notebook_is_interactive(monkeypatch):
    class ZMQInteractiveShell: ...

    assert not interactive()
    module = types.SimpleNamespace(get_ipython=ZMQInteractiveShell)
    monkeypatch.setitem(sys.modules, "IPython", module)
    assert interactive()
