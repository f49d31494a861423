"""Taggers: text in, names out, the same after a reload."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import labelspace as ls
from labelspace.errors import DataError, InputError, ParameterError, UnsupportedError

RECORDS = [
    {"text": "ripe apple and pear", "labels": ["fruit", "sweet"]},
    {"text": "ripe plum and apple", "labels": ["fruit"]},
    {"text": "steel hammer", "labels": ["tool"]},
    {"text": "steel saw, a hammer", "labels": ["tool"]},
] * 3


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    return path


def test_tag_one_and_many(file):
    tagger = ls.train(file, method="knn", neighbours=3)
    assert tagger.tag("a ripe apple", k=1)[0].name == "fruit"
    tags = tagger.tag_many(["hammer of steel", "ripe plum"], k=2)
    assert [each[0].name for each in tags] == ["tool", "fruit"]
    assert all(0 <= tag.score <= 1 for each in tags for tag in each)


def test_words_never_seen_get_no_tags(file):
    assert ls.train(file, method="knn").tag("zyzzyva") == []


def test_a_reloaded_tagger_answers_alike(file, tmp_path):
    tagger = ls.train(file)
    tagger.save(tmp_path / "model")
    loaded = ls.load(tmp_path / "model")
    assert loaded.tag("ripe hammer", k=3) == tagger.tag("ripe hammer", k=3)
    assert loaded.metadata == tagger.metadata
    assert loaded.label_counts.n_points == 12
    assert dict(zip(loaded.label_names, loaded.label_counts.counts, strict=True)) == {
        "fruit": 6,
        "sweet": 3,
        "tool": 6,
    }


def test_validation_data_may_have_labels_of_its_own(file, tmp_path):
    other = tmp_path / "valid.jsonl"
    other.write_text('{"text": "ripe apple", "labels": ["fruit", "never seen"]}\n')
    assert ls.train(file, valid=other).label_names == ["fruit", "sweet", "tool"]


def test_errors_reach_the_user_in_words(file, tmp_path):
    with pytest.raises(ParameterError, match="did you mean 'neighbours'"):
        ls.train(file, method="knn", neighbors=3)
    with pytest.raises(ParameterError, match="no method 'kn'"):
        ls.train(file, method="kn")
    with pytest.raises(DataError, match="no such file"):
        ls.train(tmp_path / "nothing.jsonl")
    numbers = ls.Dataset(labels=ls.read(file).labels, features=np.ones((12, 1), np.float32))
    with pytest.raises(InputError, match="takes no texts"):
        ls.train(numbers).tag("text")


MORE = [
    {"text": "ripe apple pie with plum", "labels": ["fruit", "cake"]},
    {"text": "steel saw", "labels": ["tool"]},
    {"text": "sweet pear pie", "labels": ["cake", "sweet"]},
] * 4
SMALL = {"dim": 8, "epochs": 12, "batch_size": 4, "lr": 0.05, "feature_damping": 0.0}


@pytest.fixture
def more(tmp_path):
    path = tmp_path / "more.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in MORE))
    return path


def test_update_adds_labels_behind_the_known_ones(file, more, tmp_path):
    tagger = ls.train(file, method="glas", **SMALL)
    stages = []
    tagger.update(more, on_stage=stages.append)
    assert stages == [
        "reading",
        "computing features",
        "loading libraries, checking memory",
        "training glas",
    ]
    assert tagger.label_names == ["fruit", "sweet", "tool", "cake"]
    assert tagger.label_counts.counts.tolist() == [10, 7, 10, 8]
    assert tagger.label_counts.n_points == 24
    done = tagger.metadata["updates"][0]
    assert (done["points"], done["new_labels"]) == (12, 1)
    assert tagger.metadata["data"]["points"] == 12  # of the first training
    assert "cake" in {tag.name for tag in tagger.tag("ripe apple and plum", k=2)}
    assert tagger.tag("a hammer of steel", k=1)[0].name == "tool"
    tagger.save(tmp_path / "model")
    loaded = ls.load(tmp_path / "model")
    assert loaded.metadata == tagger.metadata
    assert loaded.tag("plum", k=4) == tagger.tag("plum", k=4)
    loaded.update(more)
    assert loaded.label_names == tagger.label_names
    assert [each["new_labels"] for each in loaded.metadata["updates"]] == [1, 0]


def test_update_matches_the_labels_of_a_dataset_by_name_or_number(file, more):
    whole = ls.read(more)
    assert list(whole.label_names) == ["cake", "fruit", "sweet", "tool"]
    by_file, by_name, by_number = (ls.train(file, method="glas", **SMALL) for _ in range(3))
    by_file.update(more)
    by_name.update(whole)
    assert by_name.label_names == by_file.label_names
    assert by_name.tag("pear", k=4) == by_file.tag("pear", k=4)
    numbered = ls.Dataset(labels=whole.labels[:, [1, 2, 3, 0]], texts=whole.texts)
    by_number.update(numbered)
    assert by_number.label_names == ["fruit", "sweet", "tool", "3"]
    assert by_number.label_counts.counts.tolist() == by_file.label_counts.counts.tolist()
    fewer = ls.Dataset(labels=whole.labels[:, [1]], texts=whole.texts)
    by_number.update(fewer)
    assert len(by_number.label_names) == 4


def test_update_of_a_method_that_cannot_names_those_that_can(file, more, tmp_path):
    with pytest.raises(UnsupportedError, match=r"not supported by random.*dxml, fusion, glas"):
        ls.train(file, method="random").update(more)
    with pytest.raises(DataError, match="no such file"):
        ls.train(file, method="glas", **SMALL).update(tmp_path / "nothing.jsonl")


def test_updating_on_numbers_wants_as_many_features(file):
    labels = ls.read(file).labels
    numbers = ls.Dataset(labels=labels, features=np.eye(12, 3, dtype=np.float32))
    tagger = ls.train(numbers, method="glas", **SMALL)
    with pytest.raises(InputError, match="2 numeric features"):
        tagger.update(ls.Dataset(labels=labels, features=np.ones((12, 2), np.float32)))


def test_evaluate_gives_what_the_command_prints(file, tmp_path):
    tagger = ls.train(file, method="knn")
    found = tagger.evaluate(file, ks=(1, 2), threshold=0.3)
    assert found["P@1"] == 100.0
    assert found["examples"] == 12
    assert {"micro-F1", "bands", "calibration", "unknown_labels", "recall@2"} <= found.keys()
    assert "by_level" not in found
    tagger.save(tmp_path / "model")
    assert ls.load(tmp_path / "model").evaluate(file, ks=(1, 2), threshold=0.3) == found
    with pytest.raises(ParameterError, match="at least 1"):
        tagger.evaluate(file, ks=())
    with pytest.raises(ParameterError, match="needs a taxonomy"):
        tagger.evaluate(file, levels=True)


def test_evaluate_matches_labels_by_name(file):
    tagger = ls.train(file, method="knn")
    whole = ls.read(file)
    turned = ls.Dataset(
        labels=whole.labels[:, [2, 0, 1]], texts=whole.texts, label_names=["tool", "fruit", "sweet"]
    )
    assert tagger.evaluate(turned) == tagger.evaluate(file)


def test_one_text_and_several_are_distinguished(file):
    tagger = ls.train(file, method="knn")
    with pytest.raises(InputError, match="use tag_many"):
        tagger.tag(["ripe apple"])
    with pytest.raises(InputError, match="use tag for one"):
        tagger.tag_many("ripe apple")


def test_objects_have_short_reprs(file):
    tagger = ls.train(file, method="knn")
    assert repr(tagger) == (
        "Tagger(knn, tfidf features, 3 labels such as 'fruit', 'sweet', 'tool', "
        "trained on 12 examples)"
    )
    data = ls.read(file)
    assert repr(data) == f"Dataset(12 examples, 3 labels, texts, source={str(file)!r})"
    ranking = tagger.predict(data, 2)
    assert repr(ranking).startswith("Ranking(12 examples, k=2)\n  0 (")
    assert repr(ranking).endswith("... 7 more")
    assert ranking == ranking  # was an error
    assert (data == ls.read(file)) is False


def test_tags_are_a_table_in_notebooks_and_escaped():
    rows = [{"text": "apple", "labels": ["<script>alert(1)</script>"]}] * 4
    tags = ls.train(rows, method="knn").tag("apple")
    assert isinstance(tags, list)
    page = tags._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    ranking = ls.train(rows, method="knn").predict(ls.read(rows), 2)
    assert ranking._repr_html_().count("<tr>") == 5


def test_errors_of_a_model_name_its_directory_however_short(tmp_path, monkeypatch):
    """A name of one letter stands in every sentence by chance."""
    monkeypatch.chdir(tmp_path)
    ls.train([{"text": "aa bb", "labels": ["x"]}] * 4, method="knn").save("m")
    header = json.loads(Path("m/model.json").read_text())
    header["labels"] = 5
    Path("m/model.json").write_text(json.dumps(header))
    with pytest.raises(ls.LabelspaceError, match=r"^m: Y\.shape does not fit: the model is"):
        ls.load("m")


def test_an_update_drops_the_threshold_unless_it_is_kept(file):
    tagger = ls.train(file, method="knn")
    tagger.choose_threshold(file)
    tagger.update(RECORDS[:1], keep_threshold=True)
    assert tagger.resolve_threshold("auto") > 0
    tagger.update(RECORDS[:1])
    with pytest.raises(ParameterError, match="the model has none"):
        tagger.resolve_threshold("auto")


def test_a_loaded_tagger_has_the_header_of_its_file(file, tmp_path):
    tagger = ls.train(file, method="knn")
    assert (tagger.header, tagger.digest) == ({}, "")
    tagger.save(tmp_path / "model")
    loaded = ls.load(tmp_path / "model")
    assert loaded.header["method"].startswith("knn@")
    assert len(loaded.digest) == 64
