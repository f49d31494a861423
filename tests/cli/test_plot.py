"""`train --history` keeps the curve of a run, `plot history` draws it."""

from __future__ import annotations

import json
import re
import sys

import pytest

from labelspace.model import store
from labelspace.model.tagger import load

SETTINGS = ("epochs=4", "patience=9", "input_layers=8", "output_layers=8", "batch_size=16")
SMALL = ("--method", "neuralxc", *(word for pair in SETTINGS for word in ("--set", pair)))
FIGURES = {
    f"{part} {m}@{k}" for part in ("train", "valid") for m in ("P", "nDCG") for k in (1, 3, 5)
}


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
    for entry in kept["epochs"]:
        assert entry.keys() >= FIGURES
        assert all(0 <= entry[name] <= 100 for name in FIGURES)
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
    assert "Precision@k in percent" in page
    assert page.count("<svg") == 1
    assert "<th>valid nDCG@5</th>" in page


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("dxml", ("dim=8", "ensemble=1", "batch_size=16")),
        ("glas", ("dim=8", "batch_size=16")),
        ("glas", ("preset=paper", "dim=8", "hidden=8", "batch_size=16")),
        ("hyperbolic", ("dim=4", "ensemble=1", "batch_size=16")),
        ("seq2seq", ("width=16", "layers=1", "heads=2", "beams=2", "batch_size=16")),
        ("treespace", ("dim=8", "top_dim=4", "width=8", "batch_size=16")),
    ],
)
def test_every_method_trained_in_epochs_has_the_whole_curve(method, settings, shop, command):
    pytest.importorskip("matplotlib")
    if method == "seq2seq":
        pytest.importorskip("transformers")
    pairs = [word for pair in ("epochs=2", *settings) for word in ("--set", pair)]
    code, _, err = command(
        *("train", shop / "train.jsonl", "--valid", shop / "test.jsonl", "--history"),
        *("--method", method, *pairs, "--out", shop / "m"),
    )
    assert code == 0, err
    epochs = json.loads((shop / "m" / "history.json").read_text())["epochs"]
    assert [entry["epoch"] for entry in epochs] == [1, 2]
    for entry in epochs:
        assert entry.keys() >= FIGURES
    code, _, err = command("plot", "history", shop / "m", "--out", shop / "h.html")
    assert code == 0, err
    page = (shop / "h.html").read_text()
    assert all(f"<th>{name}</th>" in page for name in FIGURES)


def test_an_autoencoder_without_labels_has_the_loss_of_its_epochs(shop, command):
    pytest.importorskip("matplotlib")
    settings = ("inputs=code", "layers=8,4", "epochs=2", "ensemble=1")
    pairs = [word for pair in settings for word in ("--set", pair)]
    code, _, err = command(
        *("train", shop / "train.jsonl", "--history", "--out", shop / "m"),
        *("--method", "hierarchicalxc", *pairs),
    )
    assert code == 0, err
    epochs = json.loads((shop / "m" / "history.json").read_text())["epochs"]
    assert [entry.keys() for entry in epochs] == [{"epoch", "loss"}] * 2
    code, _, err = command("plot", "history", shop / "m", "--out", shop / "h.html")
    assert code == 0, err
    assert "Loss on training data" in (shop / "h.html").read_text()


def test_a_run_without_metrics_names_the_score_it_was_stopped_by():
    pytest.importorskip("matplotlib")
    from labelspace.plots.curves import curves_page

    epochs = [{"epoch": n, "loss": 1 / n, "score": 50.0 + n} for n in (1, 2)]
    page = curves_page({"method": "m", "metric": "nDCG@3", "epochs": epochs}, "m").decode()
    for words in ("Loss on training data", "Validation score", "nDCG@3 in percent"):
        assert words in page


def test_members_are_drawn_each_on_its_own(shop, command):
    pytest.importorskip("matplotlib")
    code, _, err = command(
        *("train", shop / "train.jsonl", "--history", "--out", shop / "m"),
        *("--method", "fusion", "--set", "members=glas,knn"),
    )
    assert code == 0, err
    code, _, err = command("plot", "history", shop / "m", "--out", shop / "h.html")
    assert code == 0, err
    assert re.search(r"h.html: glas \d+ epochs", err)
    page = (shop / "h.html").read_text()
    assert "glas: Precision@k on training data" in page
    assert "glas: nDCG@k on held-out data" in page
    assert "nDCG@k in percent" in page
    assert "<caption>glas</caption>" in page


def test_members_of_one_name_and_learners_in_a_row_are_distinguished():
    pytest.importorskip("matplotlib")
    from labelspace.plots.curves import _curves

    def epochs(*learners):
        return [
            {"epoch": n, "learner": learner, "train P@1": 10.0 * n * learner}
            for learner in learners
            for n in (1, 2, 3)
        ]

    members = [{"method": "glas", "metric": "P@1", "epochs": epochs(1)} for _ in range(2)]
    members.append({"method": "hyperbolic", "epochs": epochs(1, 2)})
    figure = _curves({"method": "fusion", "members": members}, "m")
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == [
        f"{name}: Precision@k on training data" for name in ("glas", "glas 2", "hyperbolic")
    ]
    for axes in figure.axes:
        (line,) = axes.lines
        assert line.get_xdata().tolist() == [1, 2, 3]
        assert line.get_ydata().tolist() == [10, 20, 30]  # of the first learner
        assert axes.get_ylabel() == "Precision@k in percent"


def test_the_history_is_part_of_the_model_and_survives_an_update(shop, command):
    code, _, err = command(
        *("train", shop / "train.jsonl", "--history", "--method", "glas", "--out", shop / "m"),
        *("--set", "epochs=2", "--set", "dim=8"),
    )
    assert code == 0, err
    kept = load(shop / "m").history
    assert [entry["epoch"] for entry in kept["epochs"]] == [1, 2]
    assert "train P@1" in kept["epochs"][0]
    assert "history.json" in json.loads((shop / "m" / "model.json").read_text())["files"]
    assert command("update", shop / "m", shop / "test.jsonl")[0] == 0
    assert load(shop / "m").history == kept


def test_a_method_without_epochs_is_reported(shop, command):
    method = ("--method", "knn")
    code, _, err = command("train", shop / "train.jsonl", *method, "--history", "--out", shop / "m")
    assert code == 0
    assert "knn is not trained in epochs" in err
    code, _, err = command("plot", "history", shop / "m", "--out", shop / "h.png")
    assert code == 1
    assert "train it with --history" in err


def test_a_model_that_is_not_there_is_named(shop, command):
    code, _, err = command("plot", "history", shop / "NOSUCHMODEL", "--out", shop / "h.png")
    assert code == 1
    assert f"there is no model in {shop / 'NOSUCHMODEL'}" in err


def test_another_ending_is_refused(model, shop, command):
    code, _, err = command("plot", "history", model, "--out", shop / "h.pdf")
    assert code != 0
    assert ".html or .png" in err


@pytest.mark.parametrize(
    "history",
    [
        *([], 3, {"epochs": 3}, {"epochs": [{}], "method": "x"}, {"epochs": [], "method": "x"}),
        {"epochs": [{"epoch": "1"}], "method": "x"},
        {"members": [], "method": "x"},
        {"members": [3], "method": "x"},
    ],
)
def test_a_broken_history_is_named(model, shop, command, history):
    pytest.importorskip("matplotlib")
    bundle = store.load(model)
    bundle.documents["history"] = history
    store.save(bundle, shop / "broken")
    code, _, err = command("plot", "history", shop / "broken", "--out", shop / "h.png")
    assert code == 1
    assert "history.json" in err


def test_a_changed_history_is_seen_by_its_checksum(model, shop, command):
    pytest.importorskip("matplotlib")
    path = model / "history.json"
    path.write_text(path.read_text().replace('"epoch": 1', '"epoch": 9'))
    code, _, err = command("plot", "history", model, "--out", shop / "h.png")
    assert code == 1
    assert "history.json is not the file that was saved" in err


def test_without_matplotlib_the_extra_is_named(model, shop, command, monkeypatch):
    monkeypatch.delitem(sys.modules, "labelspace.plots.curves", raising=False)
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
