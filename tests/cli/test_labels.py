"""Label texts on the command line: training, predictions among labels, and search."""

from __future__ import annotations

import json

import pytest

TEXTS = """fruit\tfruit\tObst und Gemüse
tool\ttool\tWerkzeug
cloth\tcloth\tStoff
metal\tmetal\tMetall
"""


@pytest.fixture
def model(shop, command):
    texts = shop / "names.txt"
    texts.write_text(TEXTS, encoding="utf-8")
    (shop / "hierarchy.tsv").write_text("tool\tmetal\n")
    arguments = ("--labels", texts, "--labels-header", "id,name@en,name@de", "--out", shop / "m")
    code, _, err = command("train", shop / "train.jsonl", "--method", "knn", *arguments)
    assert code == 0, err
    assert "4 labels" in err
    return shop / "m"


def predicted(command, *arguments):
    code, out, err = command("predict", *arguments)
    assert code == 0, err
    return [json.loads(line)["labels"] for line in out.splitlines()]


@pytest.fixture
def new(shop):
    (shop / "new.jsonl").write_text('{"text": "steel saw"}\n{"text": "ripe apple, blue shirt"}\n')
    return shop / "new.jsonl"


def test_names_in_a_language_beside_ids(model, new, command):
    first = predicted(command, model, new, "--language", "de", "--top", 1)
    assert [(labels[0]["id"], labels[0]["name"]) for labels in first] == [
        ("tool", "Werkzeug"),
        ("fruit", "Obst und Gemüse"),
    ] or first[1][0]["id"] == "cloth"
    assert predicted(command, model, new, "--top", 1)[0][0]["name"] == "tool"


def test_only_exclude_and_ancestors(model, new, command, shop):
    (shop / "some.txt").write_text("Werkzeug\nfruit\n", encoding="utf-8")
    given = predicted(command, model, new, "--only", shop / "some.txt")
    assert {tag["id"] for tags in given for tag in tags} == {"tool", "fruit"}
    given = predicted(command, model, new, "--exclude", shop / "some.txt")
    assert {tag["id"] for tags in given for tag in tags} == {"cloth"}
    given = predicted(command, model, new, "--ancestors", "--top", 1)
    assert [tag["id"] for tag in given[0]] == ["metal", "tool"]
    (shop / "some.txt").write_text("fruit\nfruits\n")
    code, _, err = command("predict", model, new, "--only", shop / "some.txt")
    assert code == 1
    assert "some.txt:2: the model has no label 'fruits'; did you mean 'fruit'?" in err


def test_search(model, command):
    code, out, _ = command("labels", model, "werkzeug")
    assert code == 0
    assert all(text in out for text in ("tool", "Werkzeug", "metal > tool"))
    code, out, _ = command("labels", model, "tool", "--json", "--language", "de")
    found = json.loads(out)
    assert code == 0
    assert [(each["id"], each["name"], each["path"]) for each in found] == [
        ("tool", "Werkzeug", ["Metall", "Werkzeug"])
    ]
    assert found[0]["count"] > 0
    code, out, err = command("labels", model, "zyzzyva")
    assert (code, out) == (0, "")
    assert "no label" in err


def test_no_texts_on_request(shop, command):
    (shop / "label_texts.tsv").write_text(TEXTS, encoding="utf-8")
    arguments = ("train", shop / "train.jsonl", "--method", "knn", "--out", shop / "n")
    assert "4 labels" in command(*arguments)[2]
    assert "3 labels" in command(*arguments, "--labels", "none")[2]


def test_options_without_a_file_are_refused(shop, command):
    arguments = ("train", shop / "train.jsonl", "--method", "knn", "--out", shop / "n")
    code, _, err = command(*arguments, "--labels-separator", ", ")
    assert code == 2
    assert "name the file with --labels" in err


def test_errors_name_file_and_line(shop, command):
    (shop / "names.tsv").write_text("fruit\tone\nfruit\ttwo\n")
    arguments = ("train", shop / "train.jsonl", "--method", "knn", "--out", shop / "n")
    code, _, err = command(*arguments, "--labels", shop / "names.tsv")
    assert code == 1
    assert "names.tsv:2: the label 'fruit' is already on line 1" in err


def test_update_with_label_texts(shop, command):
    pytest.importorskip("torch")
    settings = ("--set", "dim=8", "--set", "epochs=2", "--set", "batch_size=8")
    train = ("train", shop / "train.jsonl", "--method", "glas", *settings, "--out", shop / "g")
    assert command(*train)[0] == 0
    (shop / "names.tsv").write_text(TEXTS, encoding="utf-8")
    code, _, err = command(
        "update", shop / "g", shop / "test.jsonl", "--labels", shop / "names.tsv"
    )
    assert code == 0, err
    assert "4 labels, 1 of them new" in err
