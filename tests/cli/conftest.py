"""Run commands in this process or as a real one, and a small file to work on."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

WORDS = {
    "fruit": "apple pear plum sweet ripe",
    "tool": "hammer saw steel handle grip",
    "cloth": "cotton shirt sleeve blue soft",
}


def records(n):
    """Return short texts in which each word belongs to one label."""
    kinds = list(WORDS)
    for i in range(n):
        chosen = [kinds[i % 3]] + ([kinds[(i + 1) % 3]] if i % 4 == 0 else [])
        words = [word for kind in chosen for word in WORDS[kind].split()[i % 2 : 3 + i % 3]]
        yield {"id": f"r{i}", "text": " ".join(words), "labels": chosen}


@pytest.fixture
def shop(tmp_path):
    for name, n in (("train", 60), ("test", 12)):
        lines = "".join(json.dumps(record) + "\n" for record in records(n))
        (tmp_path / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    return tmp_path


@pytest.fixture
def labelspace():
    """Run the command in a new process: labelspace(*arguments) -> CompletedProcess."""

    def run(*arguments, **kwargs):
        command = [sys.executable, "-m", "labelspace", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False, **kwargs)

    return run


@pytest.fixture
def command(monkeypatch, capsys):
    """Run it in this process, for speed: command(*arguments) -> (exit code, stdout, stderr)."""
    from labelspace.cli import main

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["labelspace", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
        said = capsys.readouterr()
        return code, said.out, said.err

    return run
