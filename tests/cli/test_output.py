"""What commands print: names from data do not act, and nothing is cut at 80 columns."""

from __future__ import annotations

import json
import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelspace._core.plain import plain
from labelspace.cli.output import Figure, print_json, print_mapping, print_message, print_table

HOSTILE = (
    "[/b] [red]x[/red] \x1b]0;title\x07\x1b[2J\x9b31m\x7f a\u2028b\u202ec\n\r\t [link=http://x]"
)
SHOWN = (
    r"[/b] [red]x[/red] \x1b]0;title\x07\x1b[2J\x9b31m\x7f a\u2028b\u202ec\n\r\t [link=http://x]"
)


@pytest.fixture
def terminal(monkeypatch):
    """Make standard output a terminal of 80 columns, without colours."""
    for name, value in (("FORCE_COLOR", "1"), ("COLUMNS", "80"), ("TERM", "dumb")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)


def acting(text):
    return [
        c for c in text if (c < " " and c != "\n") or "\x7f" <= c <= "\x9f" or c in "\u2028\u202e"
    ]


def test_control_characters_become_visible():
    assert plain(HOSTILE) == SHOWN
    assert plain("Grüße, 日本 – שלום 👩‍🔬 \\x") == "Grüße, 日本 – שלום 👩‍🔬 \\x"
    plain("\ud800").encode()


@settings(max_examples=60, deadline=None)
@given(st.text())
def test_plain_text_is_one_line_that_can_be_written(text):
    shown = plain(text)
    assert not acting(shown)
    assert len(shown.splitlines()) <= 1
    shown.encode()
    assert plain(shown) == shown


def test_names_from_data_do_not_act_in_tables(capsys):
    print_table((HOSTILE, "number"), [(HOSTILE, 1.5)], HOSTILE)
    print_mapping({HOSTILE: [{HOSTILE: HOSTILE}]}, HOSTILE)
    out = capsys.readouterr().out
    assert out.count(SHOWN) == 7
    assert not acting(out)


def test_names_from_data_do_not_act_in_messages_and_warnings(capsys, command, tmp_path):
    print_message(HOSTILE)
    assert capsys.readouterr().err == SHOWN + "\n"
    code, _, err = command("info", tmp_path / HOSTILE.replace("/", ""))
    assert code == 1
    assert r"\x1b[2J" in err
    assert not acting(err)
    logging.getLogger("labelspace.data").warning("%s: dropped", HOSTILE)
    assert capsys.readouterr().err == SHOWN + ": dropped\n"


def test_json_holds_the_name_and_no_control_character(capsys):
    print_json({"name": HOSTILE, "text": "é"})
    out = capsys.readouterr().out
    assert json.loads(out) == {"name": HOSTILE, "text": "é"}
    assert "é" in out
    assert not acting(out)


def test_progress_descriptions_are_no_markup(capsys, monkeypatch):
    from labelspace.cli.output import progress_bar

    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress_bar() as progress:
        progress.add_task("fetching [/]", total=3)
        progress.refresh()
    assert "fetching [/]" in capsys.readouterr().err


def test_explain_shows_a_label_in_brackets(tmp_path, command):
    names = ["[/b] tool", "fruit [archived]", "\x1b[2Jcloth"]
    rows = ({"text": f"word{i % 3} thing{i % 3}", "labels": [names[i % 3]]} for i in range(30))
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, _, err = command(
        *("train", tmp_path / "t.jsonl", "--out", tmp_path / "m", "--method", "linear")
    )
    assert code == 0, err
    for name in names:
        code, out, err = command("explain", tmp_path / "m", "word0", "--label", name)
        assert code == 0, err
        assert f"{plain(name)}: " in out
        assert "\x1b" not in out


@pytest.mark.usefixtures("terminal")
def test_nothing_is_cut_on_a_narrow_terminal(capsys):
    names = ["omikuji", "omikuji-bonsai", "hierarchicalxc"]
    heads = [f"PSnDCG@{k}" for k in range(12)]
    figures = [[100 * i + k + 0.25 for k in range(12)] for i in range(3)]
    print_table(("", *heads), [(n, *row) for n, row in zip(names, figures, strict=True)])
    out = capsys.readouterr().out
    assert all(len(line) <= 80 for line in out.splitlines())
    words = out.replace("│", " ").replace("┃", " ").split()
    for word in (*heads, *(f"{value:,.2f}" for row in figures for value in row)):
        assert word in words
    assert words.count("omikuji-bonsai") == words.count("omikuji") > 1
    assert "…" not in out


@pytest.mark.usefixtures("terminal")
def test_formatted_figures_are_never_broken(capsys):
    print_table(("name", "a", "what it does"), [("x", Figure("65.81 ± 0.30"), "word " * 40)] * 2)
    out = capsys.readouterr().out
    assert out.count("65.81 ± 0.30") == 2
    assert out.count("word") == 80
    assert all(len(line) <= 80 for line in out.splitlines())


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=8),
    st.lists(st.booleans(), min_size=8, max_size=8),
    st.integers(20, 120),
)
def test_columns_fit_or_are_as_narrow_as_they_may_be(sizes, numeric, width):
    from labelspace.cli.output import _Column, _fitting, _total, _widths

    columns = [_Column("n", ["x" * n], is_it) for n, is_it in zip(sizes, numeric, strict=False)]
    groups = list(_fitting(columns, width))
    assert [c for group in groups for c in group if c is not columns[0]] == columns[1:]
    for group in groups:
        found = _widths(group, width)
        assert all(c.least <= w <= c.widest for c, w in zip(group, found, strict=True))
        assert _total(found) <= width or found == [c.least for c in group] or len(group) <= 2


def test_a_pipe_gets_whole_lines(capsys):
    print_table(("name", "what it does"), [("x" * 150, "word " * 60)], "title " * 50)
    print_mapping({"name": "y" * 300})
    lines = capsys.readouterr().out.splitlines()
    assert any("x" * 150 in line and line.count("word") == 60 for line in lines)
    assert lines[0].count("title") == 50
    assert any("y" * 300 in line for line in lines)


def test_facts_are_lines_without_brackets_and_quotes(capsys):
    print_mapping({"members": [{"name": "knn", "weights": [0.5, 1]}], "none": None, "yes": True,
                 "tail_offset": [None, None], "nested": {"a": {"b": "c"}}})  # fmt: skip
    out = capsys.readouterr().out
    for text in ("name knn, weights 0.50, 1", "none, none", "a: b c", "yes"):
        assert text in out
    assert not set("[]{}'\"") & set(out)
    assert len(out.splitlines()) == 7  # a line per fact and the frame: no empty header


def test_info_is_readable(shop, command):
    train = ("train", shop / "train.jsonl", "--method", "fusion", "--set", "members=knn,linear")
    assert command(*train, "--out", shop / "m")[0] == 0
    code, out, _ = command("info", shop / "m")
    assert code == 0
    assert not set("[]{}'") & set(out)
    assert "┃" not in out
    assert "┃" not in command("data", "info", shop / "train.jsonl")[1]
