"""`labelspace methods` lists what each method needs and can do."""

from __future__ import annotations

import importlib.util
import json

from labelspace.methods import descriptions


def test_each_method_with_its_extra_and_what_works_on_it(command):
    code, out, _ = command("methods")
    assert code == 0
    rows = {line.split()[1]: line for line in out.splitlines() if line.startswith("│")}
    assert "(default)" in rows["fusion"]
    assert out.count("(default)") == 1
    assert "labelspace[neural]" in rows["glas"]
    assert "update, explain, map" in rows["glas"]
    assert "labelspace[t5]" in rows["seq2seq"]
    assert "labelspace[" not in rows["knn"]


def test_the_same_for_programs(command):
    metadata = {each["name"]: each for each in json.loads(command("methods", "--json")[1])}
    assert [name for name, each in metadata.items() if each["default"]] == ["fusion"]
    assert metadata["dxml"] == {
        "name": "dxml",
        "default": False,
        "summary": "deep embedding of examples, whose nearest neighbours vote",
        "extra": "neural",
        "installed": importlib.util.find_spec("torch") is not None,
        "update": True,
        "explain": False,
        "map": True,
    }


def test_what_to_install_is_named_completely(command, monkeypatch):
    monkeypatch.setattr(descriptions, "find_spec", lambda package: None)  # noqa: ARG005
    code, out, err = command("methods")
    assert code == 0
    assert "pip install 'labelspace[neural]'" in err
    assert "pip install 'labelspace[t5]'" in err
    assert "labelspace[neural]" in out
