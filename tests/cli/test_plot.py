"""`train --history` keeps the curve of a run, `plot history` draws it."""

from __future__ import annotations

import json
import sys

import pytest

SETTINGS = ("epochs=4", "patience=9", "input_layers=8", "output_layers=8", "batch_size=16")
SMALL = ("--method", "neuralxc", *(word for pair in SETTINGS for word in ("--set", pair)))


@pytest.fixture
def model(shop, command):
    code, _, err = command(
        *("train", shop / "train.jsonl", "--valid", shop / "test.jsonl", "--history"),
        *(*SMALL, "--out", shop / "model"),
    )
    assert code == 0, err
    return shop / "model"


def test_the_curve_has_every_metric_of_every_epoch(model):
    kept = json.loads((model / "history.json").read_text())
    assert kept["method"] == "neuralxc"
    assert [entry["epoch"] for entry in kept["epochs"]] == [1, 2, 3, 4]
    wanted = {
        f"{part} {m}@{k}" for part in ("train", "valid") for m in ("P", "nDCG") for k in (1, 3, 5)
    }
    for entry in kept["epochs"]:
        assert wanted <= entry.keys()
        assert all(0 <= entry[name] <= 100 for name in wanted)
    assert kept["epochs"][-1]["train P@1"] >= kept["epochs"][0]["train P@1"]
    # Early stopping goes by nDCG@5 on the same held-out examples.
    assert kept["epochs"][-1]["score"] == pytest.approx(kept["epochs"][-1]["valid nDCG@5"])


def test_the_model_with_a_history_is_read_as_any_other(model, shop, command):
    code, out, _ = command("evaluate", model, shop / "test.jsonl", "--json")
    assert code == 0
    assert json.loads(out)["P@1"] > 50


def test_the_curve_is_drawn_as_picture_and_as_page(model, shop, command):
    pytest.importorskip("matplotlib")
    code, _, err = command("plot", "history", model, "--out", shop / "h.png")
    assert code == 0, err
    assert (shop / "h.png").read_bytes().startswith(b"\x89PNG")
    code, _, err = command("plot", "history", model, "--out", shop / "h.html")
    assert code == 0, err
    page = (shop / "h.html").read_text()
    for heading in ("Precision@k on training data", "nDCG@k on held-out data"):
        assert heading in page
    assert page.count("<svg") == 1
    assert "<th>valid nDCG@5</th>" in page


def test_other_methods_show_what_they_train_by(shop, command):
    pytest.importorskip("matplotlib")
    from labelspace.evaluation.curves import curves_page

    command(
        *("train", shop / "train.jsonl", "--history", "--method", "glas", "--out", shop / "m"),
        *("--set", "epochs=2", "--set", "dim=8"),
    )
    epochs = json.loads((shop / "m" / "history.json").read_text())["epochs"]
    page = curves_page(epochs, "m").decode()
    assert "Loss" in page
    assert "Validation score" in page


def test_a_method_without_epochs_says_so(shop, command):
    method = ("--method", "knn")
    code, _, err = command("train", shop / "train.jsonl", *method, "--history", "--out", shop / "m")
    assert code == 0
    assert "knn is not trained in epochs" in err
    code, _, err = command("plot", "history", shop / "m", "--out", shop / "h.png")
    assert code == 1
    assert "train it with --history" in err


def test_another_ending_is_refused(model, shop, command):
    code, _, err = command("plot", "history", model, "--out", shop / "h.pdf")
    assert code != 0
    assert ".html or .png" in err


def test_a_broken_history_is_named(model, shop, command):
    pytest.importorskip("matplotlib")
    for content in ("{", '{"epochs": 3}', '{"epochs": [{}], "method": "x"}', "[]"):
        (model / "history.json").write_text(content)
        code, _, err = command("plot", "history", model, "--out", shop / "h.png")
        assert code == 1
        assert "history.json" in err


def test_without_matplotlib_the_extra_is_named(model, shop, command, monkeypatch):
    monkeypatch.delitem(sys.modules, "labelspace.evaluation.curves", raising=False)
    for name in ("matplotlib", "matplotlib.axes", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    code, _, err = command("plot", "history", model, "--out", shop / "h.png")
    assert code == 1
    assert "labelspace[plots]" in err


def test_help_shows_examples(command):
    for name in (("plot",), ("plot", "history")):
        code, out, _ = command(*name, "--help")
        assert code == 0
        assert "Example: labelspace" in out
