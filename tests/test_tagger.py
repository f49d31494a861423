"""Taggers: text in, names out, the same after a reload."""

from __future__ import annotations

import json

import numpy as np
import pytest

import labelspace as ls
from labelspace.errors import DataError, InputError, ParameterError

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
    assert loaded.facts == tagger.facts
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
        ls.train(file, neighbors=3)
    with pytest.raises(ParameterError, match="no method 'kn'"):
        ls.train(file, method="kn")
    with pytest.raises(DataError, match="no such file"):
        ls.train(tmp_path / "nothing.jsonl")
    numbers = ls.Dataset(labels=ls.read(file).labels, features=np.ones((12, 1), np.float32))
    with pytest.raises(InputError, match="takes no texts"):
        ls.train(numbers).tag("text")
