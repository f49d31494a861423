"""`update` and `explain` as a person uses them, wrong calls included."""

from __future__ import annotations

import json
import signal

import pytest

from labelspace.model import store
from labelspace.nn.trainer import Trainer

SMALL = ("dim=8", "epochs=8", "batch_size=8", "lr=0.05", "feature_damping=0")
GLAS = ("--method", "glas", *(word for pair in SMALL for word in ("--set", pair)))


@pytest.fixture
def model(shop, command):
    code, _, err = command("train", shop / "train.jsonl", "--out", shop / "model", *GLAS)
    assert code == 0, err
    return shop / "model"


@pytest.fixture
def more(shop):
    """Write more data: shirts are now blue or not, tools are as before."""
    records = [
        {"text": "cotton shirt blue soft", "labels": ["cloth", "blue things"]},
        {"text": "hammer saw steel", "labels": ["tool"]},
        {"text": "cotton shirt sleeve", "labels": ["cloth"]},
    ] * 8
    path = shop / "more.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_update_to_another_place(shop, model, more, command):
    before = {file.name: file.read_bytes() for file in model.iterdir()}
    code, _, err = command("update", model, more, "--out", shop / "grown")
    assert code == 0
    assert "24 more examples; 4 labels, 1 of them new" in err
    assert {file.name: file.read_bytes() for file in model.iterdir()} == before
    new = shop / "new.jsonl"
    new.write_text('{"text": "blue soft shirt of cotton"}\n')
    answer = json.loads(command("predict", shop / "grown", new, "--top", "2")[1])
    assert {tag["name"] for tag in answer["labels"]} == {"cloth", "blue things"}
    found = json.loads(command("evaluate", shop / "grown", shop / "test.jsonl", "--json")[1])
    assert found["P@1"] == 100.0


def test_update_in_place(model, more, command):
    code, out, _ = command("update", model, more, "--json")
    done = json.loads(out)
    assert code == 0
    assert (done["points"], done["new_labels"], done["labels"]) == (24, 1, 4)
    assert done["model"] == str(model)
    header = store.load(model).header
    assert header["labels"] == 4
    assert header["updates"][0]["points"] == 24
    assert command("update", model, more)[0] == 0
    assert len(store.load(model).header["updates"]) == 2
    assert "│" in command("info", model)[1]


def test_a_failed_update_leaves_the_model(shop, model, more, command, monkeypatch):
    before = (model / "model.json").read_bytes()
    bad = shop / "bad.jsonl"
    bad.write_text('{"text": "apple", "labels": ["fruit"]}\n{"text": \n')
    code, _, err = command("update", model, bad)
    assert code == 1
    assert f"{bad}:2" in err

    def interrupted(self, event):  # noqa: ARG001
        if event == "on_batch":
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Trainer, "_notify", interrupted)
    code, _, err = command("update", model, more)
    assert code == 1
    assert err.strip().endswith(f"error: interrupted; {model} is unchanged")
    assert (model / "model.json").read_bytes() == before
    assert not list(shop.glob(".model*"))


def test_methods_that_cannot(shop, more, command):
    name = "most-common"
    assert command("train", shop / "train.jsonl", "--method", name, "--out", shop / "knn")[0] == 0
    code, _, err = command("update", shop / "knn", more)
    assert code == 1
    assert f"not supported by {name}" in err
    code, _, err = command("neighbours", shop / "knn", "ripe apple")
    assert code == 1
    assert "methods that find near ones: dxml, fusion, knn" in err
    code, _, err = command("explain", shop / "knn", "ripe apple")
    assert code == 1
    assert "methods that support it: dual-encoder, fusion, glas, labeltext, lexical, linear" in err


def test_explain_for_people_and_programs(shop, model, command):
    code, out, err = command("explain", model, "steel hammer", "-k", "2")
    assert code == 0
    assert "tool: score" in out
    assert "hammer" in out
    assert "2 of the 2 nearest training examples" in err
    why = json.loads(command("explain", model, "steel hammer", "--label", "fruit", "--json")[1])
    assert why["label"] == "fruit"
    assert {word for word, _ in why["features"]} == {"steel", "hammer"}
    lines = (shop / "train.jsonl").read_text().splitlines()
    for near in why["examples"]:
        assert sorted(near["labels"]) == sorted(json.loads(lines[near["row"] - 1])["labels"])
        assert "tool" in near["labels"]


def test_explain_called_wrongly(model, command):
    code, _, err = command("explain", model, "apple", "--label", "fruits")
    assert code == 2
    assert "did you mean 'fruit'" in err
    assert command("explain", model, "apple", "-k", "0")[0] == 2


def test_a_fusion_is_updated_mapped_and_explained(shop, more, command):
    fusion = ("--method", "fusion", "--set", "members=knn,linear", "--out", shop / "fusion")
    assert command("train", shop / "train.jsonl", *fusion)[0] == 0
    code, _, err = command("update", shop / "fusion", more)
    assert code == 0, err
    assert "24 more examples; 4 labels, 1 of them new" in err
    why = json.loads(command("explain", shop / "fusion", "blue soft shirt", "--json")[1])
    assert why["examples"]
    assert why["labels"]
    code, out, _ = command("neighbours", shop / "fusion", "blue soft shirt", "-k", "3", "--json")
    near = json.loads(out)
    assert code == 0
    assert len(near) == 3
    for each in near:
        assert "cloth" in each["labels"]
        assert set(each) == {"id", "row", "cosine", "labels"}
    code, out, _ = command("neighbours", shop / "fusion", "steel hammer")
    assert code == 0
    assert "training example" in out
    assert command("map", shop / "fusion", "--out", shop / "map.html")[0] == 0
    assert (shop / "map.html").stat().st_size > 1000
