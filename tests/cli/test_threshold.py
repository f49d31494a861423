"""Label sets instead of rankings, from training to prediction, and the report on scores."""

from __future__ import annotations

import json

import pytest

import labelspace as ls


@pytest.fixture
def trained(shop, command):
    code, out, err = command(
        *("train", shop / "train.jsonl", "--valid", shop / "test.jsonl", "--json"),
        *("--threshold-for", "macro-f1", "--out", shop / "model"),
    )
    assert code == 0, err
    return shop / "model", json.loads(out)


def records(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def sets(out):
    return [{tag["name"] for tag in json.loads(line)["labels"]} for line in out.splitlines()]


def test_a_threshold_is_chosen_in_training_and_kept(shop, trained, command):
    model, metadata = trained
    chosen = metadata["threshold"]
    assert chosen["goal"] == "macro-f1"
    assert chosen["examples"] == 12
    assert chosen["macro_f1"] == 100.0
    assert json.loads(command("info", model, "--json")[1])["threshold"] == chosen
    truth = [set(record["labels"]) for record in records(shop / "test.jsonl")]
    code, out, _ = command("predict", model, shop / "test.jsonl", "--threshold", "auto")
    assert code == 0
    assert sets(out) == truth
    tagger = ls.load(model)
    assert tagger.resolve_threshold("auto") == chosen["value"]
    texts = [record["text"] for record in records(shop / "test.jsonl")]
    tags = tagger.tag_many(texts, 50, "auto")
    assert [{tag.name for tag in each} for each in tags] == truth
    found = json.loads(
        command("evaluate", model, shop / "test.jsonl", "--threshold", "auto", "--json")[1]
    )
    assert found["macro-F1"] == 100.0


def test_without_held_out_data_training_keeps_a_tenth_back(shop, command):
    code, out, err = command(
        *("train", shop / "train.jsonl", "--json", "--threshold-for", "micro-f1"),
        *("--out", shop / "model"),
    )
    assert code == 0, err
    metadata = json.loads(out)
    assert metadata["threshold"]["examples"] == 6
    assert metadata["data"]["points"] == 54


def test_a_threshold_can_be_chosen_at_prediction(shop, command):
    assert command("train", shop / "train.jsonl", "--out", shop / "m")[0] == 0
    new = shop / "test.jsonl"
    code, _, err = command("predict", shop / "m", new, "--threshold", "auto")
    assert code == 2
    assert "--valid" in err
    code, out, err = command(
        *("predict", shop / "m", new, "--threshold", "auto", "--valid", new),
        *("--threshold-for", "precision=0.9"),
    )
    assert code == 0
    assert "for precision=0.9: precision" in err
    truth = [set(record["labels"]) for record in records(new)]
    right = sum(len(a & b) for a, b in zip(sets(out), truth, strict=True))
    assert right >= 0.9 * sum(map(len, sets(out))) > 0


def test_a_number_cuts_what_lies_below(shop, command):
    assert command("train", shop / "train.jsonl", "--out", shop / "m")[0] == 0
    everything = command("predict", shop / "m", shop / "test.jsonl")[1].splitlines()
    for line, kept in zip(
        everything,
        command("predict", shop / "m", shop / "test.jsonl", "--threshold", "0.4")[1].splitlines(),
        strict=True,
    ):
        wanted = [tag for tag in json.loads(line)["labels"] if tag["score"] >= 0.4]
        assert json.loads(kept)["labels"] == wanted


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--threshold", "much"), "expected a number from 0 to 1, or auto"),
        (("--threshold", "1.5"), "expected a number from 0 to 1, or auto"),
        (
            ("--threshold", "0.5", "--valid", "x.jsonl"),
            "--valid is used with --threshold auto only",
        ),
        (("--threshold-for", "micro-f1"), "needs held-out data: give --valid"),
    ],
)
def test_options_that_do_not_fit_are_refused(shop, command, arguments, said):
    code, _, err = command("predict", shop / "m", shop / "test.jsonl", *arguments)
    assert code == 2
    assert said in err


def test_a_wrong_goal_is_refused_before_training(shop, command):
    code, _, err = command(
        *("train", shop / "train.jsonl", "--out", shop / "m", "--threshold-for", "recall")
    )
    assert code == 2
    assert "expected micro-f1, macro-f1 or precision=0.9" in err


def test_training_reports_how_fast_texts_were_read(shop, command):
    code, out, _ = command("train", shop / "train.jsonl", "--out", shop / "m", "--json")
    assert code == 0
    speed = json.loads(out)["text_features"]
    assert speed["name"] == "tfidf"
    assert speed["texts_per_second"] > 0
    assert "texts per second" in command("train", shop / "train.jsonl", "--out", shop / "m")[2]


def test_features_side_by_side_from_the_command_line(shop, command):
    pytest.importorskip("gensim")
    code, _, err = command(
        *("train", shop / "train.jsonl", "--features", "tfidf+word2vec:8", "--out", shop / "m")
    )
    assert code == 0, err
    assert "features tfidf+word2vec:8" in err
    found = json.loads(command("evaluate", shop / "m", shop / "test.jsonl", "--json")[1])
    assert found["P@1"] == 100.0


def test_the_report_has_the_calibration_of_scores(shop, trained, command):
    model, _ = trained
    found = json.loads(command("evaluate", model, shop / "test.jsonl", "--json")[1])
    calibration = found["calibration"]
    assert calibration["k"] == 5
    assert calibration["pairs"] == sum(one["pairs"] for one in calibration["bins"])
    error = sum(one["pairs"] * abs(one["score"] - one["true"]) for one in calibration["bins"])
    assert calibration["ECE"] == pytest.approx(100 * error / calibration["pairs"])
    assert "expected calibration error" in command("evaluate", model, shop / "test.jsonl")[1]


def test_reliability_is_drawn_as_picture_and_as_page(shop, trained, command):
    pytest.importorskip("matplotlib")
    model, _ = trained
    call = ("plot", "reliability", model, shop / "test.jsonl", "--out")
    code, _, err = command(*call, shop / "r.png")
    assert code == 0, err
    assert "expected calibration error" in err
    assert (shop / "r.png").read_bytes().startswith(b"\x89PNG")
    assert command(*call, shop / "r.html", "--bins", "5")[0] == 0
    page = (shop / "r.html").read_text()
    assert page.count("<svg") == 1
    assert "<th>share true</th>" in page
    assert command(*call, shop / "r.pdf")[0] == 2
