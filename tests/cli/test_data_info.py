"""`labelspace data info`: what was understood of a file, and what looks wrong with it."""

from __future__ import annotations

import json


def test_rows_and_warnings(tmp_path, command):
    file = tmp_path / "t.csv"
    file.write_text("text;tags\none;a, b\ntwo;b, c\nthree;a, c\nfour;[/b]\n")
    call = ("data", "info", file, "--label", "tags")
    code, out, err = command(*call)
    assert code == 0
    assert '"a, b"' in out
    assert "example 3" in out
    assert "example 4" not in out
    assert "every example has exactly one label" in err
    figures = json.loads(command(*call, "--json")[1])
    assert figures["samples"][0] == {"text": "one", "labels": ["a, b"]}
    assert len(figures["samples"]) == 3
    assert any("--label-separator ','" in warning for warning in figures["warnings"])
    assert any("exactly one label" in warning for warning in figures["warnings"])
    figures = json.loads(command(*call, "--label-separator", ",", "--json")[1])
    assert figures["samples"][0]["labels"] == ["a", "b"]
    assert figures["warnings"] == []


def test_a_folder_is_refused_in_words_of_the_command_line(tmp_path, command):
    code, _, err = command("data", "info", tmp_path)
    assert code == 1
    assert "name one of its files" in err
    assert "read_split" not in err
