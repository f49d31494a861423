"""Annif uses a labelspace server as its `http` backend, and as a member of an ensemble.

Annif cannot be installed beside labelspace, as it needs other versions of numpy. The variable
LABELSPACE_ANNIF_PYTHON names the Python of an environment that has it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.served import TEXTS, real_server, train_model

VARIABLE = "LABELSPACE_ANNIF_PYTHON"
PROJECTS = """
[labelspace-en]
name=labelspace
language=en
backend=http
vocab=named
endpoint={address}/v1/projects/named/suggest
limit=3

[ensemble-en]
name=ensemble
language=en
backend=ensemble
vocab=named
sources=labelspace-en:1,labelspace-en:2
"""


@pytest.fixture(scope="module")
def annif():
    """Return the command of Annif; skip where there is none."""
    python = os.environ.get(VARIABLE) or Path(sys.prefix) / "annif" / "bin" / "python"
    command = Path(python).with_name("annif")
    if not command.exists():
        pytest.skip(f"no Annif at {command}; {VARIABLE} names a Python that has it")
    return command


def test_annif_gets_its_suggestions_from_labelspace(annif, tmp_path):
    path = train_model(tmp_path / "named")
    lines = [f"<{uri}>\t{name}\n" for uri, name in zip(TEXTS.uris, TEXTS.names("en"), strict=True)]
    (tmp_path / "named.tsv").write_text("".join(lines), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*arguments, text=""):
        ended = subprocess.run(
            [annif, *arguments], cwd=tmp_path, input=text, env=environment,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr[-2000:]
        return ended.stdout

    with real_server(path) as (address, _):
        (tmp_path / "projects.cfg").write_text(PROJECTS.format(address=address))
        run("load-vocab", "--language", "en", "named", "named.tsv")
        for project in ("labelspace-en", "ensemble-en"):
            found = run("suggest", project, text="ripe red apple")
            uris = re.findall(r"<(\S+)>", found)
            assert sorted(uris[:2]) == ["http://x.org/c1", "http://x.org/c2"]
        assert re.search(r"Trained:\s+True", run("show-project", "labelspace-en"))
