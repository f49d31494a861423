"""Names and texts from data never act: on terminals, in pages, pictures, tables and logs."""

from __future__ import annotations

import csv
import io
import json
import logging
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from urllib.parse import quote
from xml.etree import ElementTree

import pyarrow.parquet as pq
import pytest

import labelspace as ls
from labelspace._core.plain import plain
from labelspace.comparison.report import write_report
from labelspace.runs.progress import print_line
from support.comparisons import report_of
from support.drawn import small_map

FORGED = "error: forged"
NAMES = (
    "\x1b[31mred", "\x1b]0;title\x07", "\x9b2Jc1", "\x7fdel", "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>", "[bold]x[/]", "[/]", "[link=http://x]y", '=HYPERLINK("x","y")',
    "+1", "-1", "@SUM(1)", "break\u2028paragraph\u2029end", f"line\r\n{FORGED}",
    f"return\r{FORGED}", "\u202egnp.exe", "\u2066isolate", "$\\frac{1}$", "a|b", '["a"]',
    'comma,"quote"', "{{data}}", "\tTab", "%s%n{0}", "\\input{x}", "& % $ # _ { } ~ ^",
)  # fmt: skip
MODELS = ("fusion", "tree", "paths")
FOLDER = f"<b>[red]$\\frac$ \x1b[31m\u202e\r\n{FORGED}"
DIGIT_WORDS = ("nil", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def word(number):
    return "".join(DIGIT_WORDS[int(digit)] for digit in str(number))


def rows(n=8):
    return [
        {"id": f"{name}{i}", "text": f"{word(place)} {name}", "labels": [name]}
        for place, name in enumerate(NAMES)
        for i in range(n)
    ]


def acting(text):
    """Return the characters that a terminal could obey, other than the ends of lines."""
    return re.findall("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]", text)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with data and models; its name and all names in it are hostile."""
    folder = tmp_path_factory.mktemp("hostile") / FOLDER
    folder.mkdir()
    lines = [json.dumps(row) + "\n" for row in rows()]
    (folder / "rows.jsonl").write_text("".join(lines), encoding="utf-8")
    with (folder / "columns.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["text", "=kind", "\x1b[2Jtype"])
        table.writerows((row["text"], row["labels"][0], row["labels"][0]) for row in rows())
    ls.train(rows(), method="fusion", members="knn,linear", seed=1).save(folder / "fusion")
    ls.train(rows(), method="hierarchicalxc", seed=1).save(folder / "tree")
    ls.train(
        folder / "columns.csv", method="knn", columns=ls.Columns(path=("=kind", "\x1b[2Jtype"))
    ).save(folder / "paths")
    return folder


@pytest.fixture
def terminal(monkeypatch):
    """Make the outputs a terminal without colours."""
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "dumb")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)


# What each command is given: files are those in the folder; NAME is every hostile name, TEXT a text
# with it.
COMMANDS = {
    "train": "train rows.jsonl --method knn --out trained",
    "train, path columns": "train columns.csv --method knn --path-columns =kind --out by-column",
    "evaluate": "evaluate fusion rows.jsonl",
    "evaluate --levels": "evaluate paths columns.csv --levels",
    "predict": "predict fusion rows.jsonl",
    "explain": "explain fusion TEXT --label NAME",
    "explain --json": "explain fusion TEXT --json",
    "neighbours": "neighbours fusion TEXT",
    "neighbours --json": "neighbours fusion TEXT --json",
    "labels": "labels fusion --top 100",
    "labels, none found": "labels fusion qqqqqqqq\x1b[31m",
    "labels --json": "labels fusion --top 100 --json",
    "info": "info fusion",
    "info --json": "info paths --json",
    "plan": "plan rows.jsonl",
    "update": "update fusion rows.jsonl --out updated",
    "map --tree": "map tree --tree --out tree.html",
    "plot reliability": "plot reliability fusion rows.jsonl --out reliability.html",
    "data info": "data info rows.jsonl",
    "data info --json": "data info rows.jsonl --json",
    "data convert": "data convert rows.jsonl rows.parquet",
    "data get, unknown": "data get [/]\x1b[31m",
    "cache info": "cache info",
    "compare": "compare --train rows.jsonl --test rows.jsonl --methods most-common --html c.html",
    "tune": "tune rows.jsonl --method knn --trials 1 --cuts 1 --out tuned",
}
EXTRAS = {"plot reliability": "matplotlib", "tune": "optuna"}


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("name", COMMANDS)
def test_no_name_acts_on_the_terminal(name, place, command, monkeypatch):
    """The name of the folder, which commands print, is as hostile as the labels and ids."""
    if name in EXTRAS:
        pytest.importorskip(EXTRAS[name])
    monkeypatch.setenv("LABELSPACE_CACHE", str(place / "cache"))
    words = COMMANDS[name].split(" ")
    for at, label in enumerate(NAMES if "TEXT" in words else NAMES[:1]):
        named = {"NAME": label, "TEXT": f"{word(at)} {label}"}
        given = [words[0]]
        for before, each in pairwise(words):
            is_path = "." in each or before == "--out" or each in MODELS
            given.append(place / each if is_path else named.get(each, each))
        code, out, err = command(*given)
        assert bool(code) == (name == "data get, unknown"), err
        assert not acting(out + err)
        assert not [line for line in (out + err).splitlines() if line.lstrip().startswith(FORGED)]
        if name == "explain":
            assert f"{plain(label)}: " in out
        if name == "labels":
            shown = [plain(each) for each in NAMES]  # long words are broken over lines
            assert [each for each in shown if len(each) <= 24 and each not in out] == []


class Terminal(io.TextIOWrapper):
    """A standard output that is a terminal, kept in memory."""

    def isatty(self):
        return True


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_predictions_on_a_terminal_are_escaped(place, kind, monkeypatch):
    shown = Terminal(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr("sys.stdout", shown)
    ls.load(place / "fusion").predict_file(place / "rows.jsonl", k=1, format=kind)
    text = shown.buffer.getvalue().decode()
    assert not acting(text)
    assert len(text.splitlines()) == len(NAMES) * 8 + (kind == "csv")
    with pytest.raises(ls.LabelspaceError, match="give a file"):
        ls.load(place / "fusion").predict_file(place / "rows.jsonl", format="parquet")


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_predictions_in_a_file_hold_names_as_they_are(place, kind):
    out = place / f"tags.{kind}"
    tagger = ls.load(place / "fusion")
    tagger.predict_file(rows(), out, k=1)
    wanted = [(row["id"], row["labels"]) for row in rows()]
    if kind == "parquet":
        table = pq.read_table(out).to_pydict()
        assert list(zip(table["id"], table["labels"], strict=True)) == wanted
        return
    with out.open(encoding="utf-8", newline="") as file:
        if kind == "jsonl":
            records = [json.loads(line) for line in file]
            found = [(each["id"], [tag["name"] for tag in each["labels"]]) for each in records]
        else:
            cells = [(row["id"], row["labels"]) for row in csv.DictReader(file)]
            found = [(i, json.loads(cell) if cell[:2] == '["' else [cell]) for i, cell in cells]
    assert found == wanted


@pytest.mark.parametrize("target", ["rows.jsonl", "rows.parquet", "rows.txt"])
def test_converted_data_hold_names_as_they_are(place, target, tmp_path, command):
    features = ["--features", "tfidf"] if target.endswith(".txt") else []
    code, _, err = command("data", "convert", place / "rows.jsonl", tmp_path / target, *features)
    assert code == 0, err
    assert _labels_of(ls.read(tmp_path / target)) == [row["labels"] for row in rows()]


def _labels_of(data):
    names = data.names()
    return [[names[label] for label in row.indices] for row in data.labels]


class Tags(HTMLParser):
    """What a browser makes of a page: its elements, and the text outside of scripts and styles."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.texts = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]
        assert not [value for _, value in attrs if "javascript:" in (value or "")]

    def handle_data(self, data):
        self.texts.append(data)


def hostile_report():
    """Return a report of systems with these names; the last one failed with such an error."""
    report = report_of(NAMES, [0.5 + place / 100 for place in range(len(NAMES))], n=60)
    report["data"]["name"] = FOLDER
    report["data"]["label_texts"] = {"names": 1}
    for name, entrant in zip(NAMES, report["entrants"], strict=True):
        level = {"labels": 1, "examples": 1, "micro-F1": 1.0}
        entrant["by_level"] = {"chosen": name, "levels": dict.fromkeys(NAMES, level)}
        entrant["label_texts"] = True
        entrant["params"] = {name: name}
    report["entrants"][-1]["error"] = "".join(NAMES)
    return report


def test_reports_of_a_comparison_hold_no_markup_or_formula(tmp_path):
    files = [tmp_path / f"report.{kind}" for kind in ("json", "html", "csv", "tex")]
    report = hostile_report()
    write_report(report, *files)
    texts = [file.read_bytes().decode() for file in files]
    assert json.loads(texts[0])["entrants"] == report["entrants"]
    page = Tags(texts[1])
    assert not {"script", "img", "a", "iframe", "object", "base", "link"} & set(page.elements)
    assert all(
        name in page.texts for name in ("[bold]x[/]", NAMES[4], "<img src=x onerror=alert(1)>")
    )
    table = list(csv.reader(io.StringIO(texts[2])))
    assert len(table) == 1 + len(NAMES)
    assert not [cell for row in table for cell in row if cell.startswith(("=", "+", "-", "@"))]
    assert not acting(texts[2])
    assert [row[0].removeprefix("'") for row in table[1:]] == [plain(name) for name in NAMES]
    assert not acting(texts[3])
    assert not re.search(r"(?<!\\)[%#&$]", re.sub(r"^%.*| & |\$\\pm\$", "", texts[3]))
    assert "\\input" not in texts[3]


def test_trials_hold_no_formula_or_markup(tmp_path):
    pytest.importorskip("optuna")
    from labelspace.tuning.results import write_trials
    from labelspace.tuning.study import Trial

    trials = [
        Trial(number=i, state="failed", score=None, seconds=1.0, reason=name, parameters={})
        for i, name in enumerate(NAMES, 1)
    ]
    write_trials(tmp_path, trials, "P@1")
    text = (tmp_path / "trials.csv").read_bytes().decode()
    assert not acting(text)
    table = list(csv.DictReader(io.StringIO(text)))
    assert [row["reason"].removeprefix("'") for row in table] == [plain(name) for name in NAMES]
    assert not [row for row in table if row["reason"].startswith(("=", "+", "-", "@"))]


def test_plots_draw_names_as_they_are(tmp_path):
    pytest.importorskip("matplotlib")
    from labelspace.plots.curves import write_curves

    for place, name in enumerate(NAMES):
        run = {"method": name, "metric": name, "epochs": [{"epoch": 1, "loss": 0.5, "score": 1}]}
        for kind in ("html", "png") if place < 2 else ("html",):
            write_curves({"method": name, "members": [run, run]}, tmp_path / f"c.{kind}", name)
        text = (tmp_path / "c.html").read_text(encoding="utf-8")
        page = Tags(text)
        assert "script" not in page.elements
        assert "img" not in page.elements
        assert not re.findall("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)


def test_maps_draw_names_as_they_are():
    pytest.importorskip("matplotlib")
    from labelspace.maps.page import map_page
    from labelspace.maps.picture import picture

    own, named = small_map(len(NAMES)), list(NAMES)
    drawn = replace(own, names=named, ids=named, title=FOLDER)
    page, before = Tags(map_page(drawn)), Tags(map_page(own))
    assert page.elements == before.elements
    tree = ElementTree.fromstring(picture(drawn, "svg"))
    elements = {each.tag.rpartition("}")[2] for each in tree.iter()}
    assert not {"script", "img", "a", "foreignObject"} & elements
    assert picture(drawn, "png")[:4] == b"\x89PNG"


def test_progress_and_its_lines_are_escaped(capsys, monkeypatch):
    from labelspace.runs.progress import Stages, progress_bar

    for terminal in ("1", ""):
        monkeypatch.setenv("FORCE_COLOR", terminal)
        if not terminal:
            monkeypatch.delenv("FORCE_COLOR")
        monkeypatch.setenv("COLUMNS", "500")
        with progress_bar() as progress:
            for name in NAMES:
                progress.add_task(name, total=3)
                if terminal:
                    progress.refresh()
                else:
                    print_line(progress.line())
            Stages()(f"{NAMES[0]}{NAMES[14]}")
        said = capsys.readouterr().err
        assert not [name for name in NAMES if acting(name) and name in said]
        assert [name for name in NAMES if plain(name).strip() not in said] == []
        assert f"\n{FORGED}" not in said


def test_requests_write_one_line_of_the_log_each(place, capsys):
    from labelspace.serve.logs import logged_to_stderr
    from support.served import in_process

    with logged_to_stderr(), in_process({"m": place / "fusion"}) as served:
        for name in NAMES:
            path = "/v1/models/" + quote(name, safe="")
            shown = [served.get(path), served.post("/v1/models/m/tag", json={"text": name})]
            shown.append(served.get("/v1/models/m/labels", params={"query": name}))
            assert [answer.status_code for answer in shown[1:]] == [200, 200]
            for answer in shown:
                assert answer.headers["content-type"].startswith("application/")
                assert answer.headers["x-content-type-options"] == "nosniff"
        logging.getLogger("labelspace.serve").warning("%s", NAMES[14])
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) >= 3 * len(NAMES)
    assert not [line for line in lines if not re.match(r"\d{4}-\d\d-\d\dT[\d:]+Z ", line)]
    assert not acting("\n".join(lines))
