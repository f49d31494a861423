"""Commands as a person uses them, wrong calls included."""

from __future__ import annotations

import json

import pytest

COMMANDS = [
    (), ("train",), ("evaluate",), ("predict",), ("explain",), ("update",), ("compare",),
    ("data",), ("data", "info"), ("data", "convert"), ("data", "get"), ("data", "synth"),
    ("cache",), ("cache", "info"), ("cache", "clear"), ("methods",), ("info",), ("plan",),
    ("tune",),
]  # fmt: skip


@pytest.fixture
def model(shop, command):
    code, _, _ = command("train", shop / "train.jsonl", "--out", shop / "model")
    assert code == 0
    return shop / "model"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_an_example(command, name):
    code, out, _ = command(*name, "--help")
    assert code == 0
    assert "Example: labelspace" in out


def test_help_imports_nothing_heavy(labelspace):
    run = labelspace("--help", env={"PYTHONPROFILEIMPORTTIME": "1", "PATH": ""})
    loaded = {line.split("|")[-1].strip().split(".")[0] for line in run.stderr.splitlines()}
    assert run.returncode == 0
    assert not loaded & {"numpy", "scipy", "sklearn", "numba", "torch", "pyarrow", "faiss"}


def test_train_evaluate_predict(shop, model, command):
    code, out, _ = command("evaluate", model, shop / "test.jsonl", "--json", "--threshold", "0.3")
    found = json.loads(out)
    assert code == 0
    assert found["P@1"] == 100.0
    assert {"PSP@5", "recall@3", "coverage@1", "micro-F1", "bands"} <= found.keys()
    new = shop / "new.jsonl"
    new.write_text('{"id": "x", "text": "ripe apple pear"}\n{"text": "steel hammer"}\n')
    code, out, _ = command("predict", model, new, "--top", "1")
    assert code == 0
    answers = [json.loads(line) for line in out.splitlines()]
    assert [a["labels"][0]["name"] for a in answers] == ["fruit", "tool"]
    assert answers[0]["id"] == "x"
    code, _, _ = command("predict", model, new, "--out", shop / "tags.jsonl", "--threshold", "1")
    assert code == 0
    assert len((shop / "tags.jsonl").read_text().splitlines()) == 2


def test_predict_in_small_batches_is_predict_in_one(shop, model, command):
    answers = [
        command("predict", model, shop / "test.jsonl", "--batch-size", size)[1]
        for size in (1, 5, 99)
    ]
    assert answers[0] == answers[1] == answers[2]
    assert len(answers[0].splitlines()) == 12


def test_evaluate_counts_labels_that_training_never_saw(shop, model, command):
    record = {"text": "ripe apple", "labels": ["fruit", "never seen"]}
    (shop / "odd.jsonl").write_text(json.dumps(record) + "\n")
    found = json.loads(command("evaluate", model, shop / "odd.jsonl", "--json")[1])
    assert found["P@1"] == 100.0
    assert found["recall@5"] == 50.0


def test_a_broken_file_leaves_the_old_tags(shop, model, command):
    out = shop / "tags.jsonl"
    out.write_text("old\n")
    bad = shop / "bad.jsonl"
    bad.write_text('{"text": "apple"}\n{"text": \n')
    code, _, err = command("predict", model, bad, "--out", out)
    assert code == 1
    assert f"{bad}:2" in err
    assert out.read_text() == "old\n"


def test_tables_are_printed_for_people(shop, model, command):
    for call in (
        ("evaluate", model, shop / "test.jsonl"),
        ("info", model),
        ("methods",),
        ("methods", "knn"),
        ("plan", shop / "train.jsonl"),
        ("data", "info", shop / "train.jsonl"),
        ("data", "get"),
    ):
        code, out, err = command(*call)
        assert code == 0, err
        assert "│" in out


def test_json_everywhere(shop, model, command):
    info = json.loads(command("info", model, "--json")[1])
    assert info["method"] == "fusion@2"
    assert info["data"]["points"] == 60
    assert {m["name"] for m in json.loads(command("methods", "--json")[1])} >= {"knn", "random"}
    assert json.loads(command("methods", "knn", "--json")[1])[0]["name"] == "neighbours"
    plan = json.loads(command("plan", shop / "train.jsonl", "--json")[1])
    assert plan["fits"]
    assert plan["total"] == sum(plan["bytes"].values())
    stats = json.loads(command("data", "info", shop / "train.jsonl", "--json")[1])
    assert (stats["points"], stats["labels"]) == (60, 3)
    sets = json.loads(command("data", "get", "--json")[1])
    assert any(s["name"] == "amazon-670k" for s in sets)
    trained = command("train", shop / "train.jsonl", "--out", shop / "m2", "--json")[1]
    assert json.loads(trained)["method"] == "fusion"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--method", "nn"), "no method 'nn'; did you mean 'knn'"),
        (("--method", "knn", "--set", "neighbors=3"), "did you mean 'neighbours'"),
        (
            ("--method", "knn", "--set", "neighbours=many"),
            "knn.neighbours='many': expected an integer",
        ),
        (("--set", "neighbours"), "expected NAME=VALUE"),
        (("--method", "knn", "--set", "power=99"), "from 0 to 16"),
        (("--features", "tfdf"), "tfdf"),
        (("--method", "knn", "--workers", "2"), "knn does not train in batches"),
        (("--method", "glas", "--workers", "2"), "only the engine ray has workers"),
        (("--frobnicate",), "--frobnicate"),
    ],
)
def test_wrong_calls_exit_with_2_and_a_reason(shop, command, arguments, said):
    code, _, err = command("train", shop / "train.jsonl", "--out", shop / "m", *arguments)
    assert code == 2
    assert said in err
    assert not (shop / "m").exists()


def test_failures_exit_with_1_and_one_sentence(shop, command):
    for call in (
        ("data", "info", shop / "nothing.txt"),
        ("evaluate", shop, shop / "test.jsonl"),
        ("info", shop / "nothing"),
        ("train", shop / "nothing.jsonl", "--out", shop / "m"),
    ):
        code, _, err = command(*call)
        assert code == 1
        said = [line for line in err.splitlines() if line != "reading ..."]
        assert len(said) == 1
        assert said[0].startswith("error: ")


def test_memory_that_is_not_there_is_refused(shop, command, monkeypatch):
    monkeypatch.setattr("labelspace.model.memory.available_bytes", lambda: 1000)
    code, _, err = command("train", shop / "train.jsonl", "--out", shop / "m")
    assert code == 1
    assert "needs about" in err
    assert "labelspace plan" in err


@pytest.mark.parametrize("first", [".jsonl", ".parquet"])
def test_convert_there_and_back(shop, command, first):
    middle, back = shop / f"a{first}", shop / "b.jsonl"
    assert command("data", "convert", shop / "train.jsonl", middle)[0] == 0
    assert command("data", "convert", middle, back)[0] == 0
    given, found = (
        [json.loads(line) for line in path.read_text().splitlines()]
        for path in (shop / "train.jsonl", back)
    )
    assert [(r["id"], r["text"], sorted(r["labels"])) for r in given] == [
        (r["id"], r["text"], sorted(r["labels"])) for r in found
    ]


def test_convert_text_to_xc_and_train_on_it(shop, command):
    target = shop / "train.txt"
    code, _, err = command("data", "convert", shop / "train.jsonl", target)
    assert code == 1
    assert "features" in err
    assert command("data", "convert", shop / "train.jsonl", target, "--features", "tfidf")[0] == 0
    names = (shop / "train.txt.labels.txt").read_text().split()
    assert names == ["cloth", "fruit", "tool"]
    assert command("train", target, "--out", shop / "m")[0] == 0
    assert json.loads(command("evaluate", shop / "m", target, "--json")[1])["P@1"] == 100.0


def test_synthetic_data(shop, command):
    assert command("data", "synth", shop / "s", "--train", "50", "--test", "10")[0] == 0
    sparse = [
        "--kind",
        "sparse",
        "--points",
        "40",
        "--features",
        "90",
        "--labels",
        "20",
        "--nnz",
        "8",
    ]
    assert command("data", "synth", shop / "s.txt", *sparse)[0] == 0
    stats = json.loads(command("data", "info", shop / "s.txt", "--json")[1])
    assert (stats["points"], stats["features"], stats["labels"]) == (40, 90, 20)
    assert command("data", "synth", shop / "x", "--kind", "other")[0] == 2


def test_a_model_counts_svmlight_features_as_its_training_file_did(shop, command):
    train, new = shop / "train.svm", shop / "new.svm"
    train.write_text("0 0:1\n1 1:1\n" * 5)  # counted from 0
    new.write_text("1 1:1\n")  # alone, this would be taken to count from 1
    assert command("train", train, "--out", shop / "m")[0] == 0
    assert json.loads(command("evaluate", shop / "m", new, "--json")[1])["P@1"] == 100.0
    answer = json.loads(command("predict", shop / "m", new)[1])
    assert answer["labels"][0]["name"] == "1"


def test_figures_of_a_test_file_are_saved_and_shown(shop, model, command):
    assert "no figures" in command("info", model)[2]
    code, _, said = command("evaluate", model, shop / "test.jsonl", "--save")
    assert (code, said.splitlines()[-1]) == (0, f"the figures were saved to {model}")
    (found,) = json.loads(command("info", model, "--json")[1])["evaluation"]
    assert found["source"] == "test.jsonl"
    _, out, said = command("info", model)
    assert f"figures: {found['examples']} examples of test.jsonl" in out
    assert f"{found['figures']['P@1']:.2f}" in out
    assert "Measured by evaluate." in said
    header = json.loads((model / "model.json").read_text())
    header["evaluation"][0]["examples"] = "many"
    (model / "model.json").write_text(json.dumps(header))
    code, _, said = command("info", model)
    assert code == 1
    assert f"{model}: evaluation 1 of model.json: examples is not a count" in said
