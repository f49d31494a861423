"""The documentation: its Python runs, its commands exist, its tables and links are up to date."""

import contextlib
import importlib.util
import io
import re
import shlex
from pathlib import Path

import pytest
import typer

from labelspace.cli.app import app

ROOT = Path(__file__).resolve().parents[1]
ABOUT = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
TEXTS = [*ABOUT, *sorted((ROOT / "docs").rglob("*.md"))]
PYTHON = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^(?:    |\$ |)(?:.*\| )?(labelspace [a-z].*)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def blocks_of_code(text):
    """Return what is indented or fenced, where commands are."""
    fenced = re.findall(r"^```(?:console|sh)?\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    indented = re.findall(r"^    .*$", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M), re.M)
    return "\n".join([*fenced, *indented]).replace("\\\n", " ")


def test_the_python_of_the_readme_prints_what_is_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = PYTHON.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert blocks
    names = {"__name__": "readme"}
    for code, printed in blocks:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, "README.md", "exec"), names)
        assert out.getvalue() == printed


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_python_of_the_documentation_compiles(path):
    for code, _ in PYTHON.findall(path.read_text(encoding="utf-8")):
        compile(code, path.name, "exec")


def options_of(words):
    """Return the options of a command such as `data synth`, and how many words name it."""
    command, used = typer.main.get_command(app), 0
    while hasattr(command, "commands"):
        assert words[used] in command.commands, f"no command {' '.join(words[: used + 1])}"
        command, used = command.commands[words[used]], used + 1
    return {option for parameter in command.params for option in parameter.opts} | {"--help"}


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_commands_of_the_documentation_exist_with_their_options(path):
    for line in COMMAND.findall(blocks_of_code(path.read_text(encoding="utf-8"))):
        words = shlex.split(line.split(" | ")[0], comments=True)[1:]
        given = {word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        assert given <= options_of(words), line


def anchors(path):
    """Return the anchors of a page as the site and GitHub make them."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.S | re.M)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        for heading in HEADING.findall(text)
    }


@pytest.mark.parametrize("path", [*TEXTS, ROOT / "benchmarks" / "README.md"], ids=name_of)
def test_links_lead_somewhere(path):
    for target in LINK.findall(path.read_text(encoding="utf-8")):
        if not target.startswith(("http://", "https://")):
            file, _, anchor = target.partition("#")
            there = path.parent / file if file else path
            assert there.exists(), target
            assert not anchor or anchor in anchors(there), target


def test_parameter_tables_are_up_to_date():
    spec = importlib.util.spec_from_file_location("tables", ROOT / "docs" / "tables.py")
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    for page in tables.PAGES:
        text = page.read_text(encoding="utf-8")
        assert tables.MARKED.search(text), f"{page.name} has no parameter table"
        assert tables.filled(text) == text, f"{page.name}: run python docs/tables.py"


def test_the_readme_shows_figures_early():
    assert "| tib-gnd |" in (ROOT / "README.md").read_text(encoding="utf-8")[:3000]
