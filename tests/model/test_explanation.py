"""Explanations in names: words, labels and training rows are those of the file."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import labelspace as ls
from labelspace.errors import InputError, ParameterError, UnsupportedError

RECORDS = [
    {"text": "ripe apple and pear", "labels": ["fruit", "sweet"]},
    {"text": "ripe plum and apple", "labels": ["fruit"]},
    {"text": "steel hammer", "labels": ["tool"]},
    {"text": "steel saw, a hammer", "labels": ["tool"]},
] * 3


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "train.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    return ls.train(
        path, method="glas", dim=8, epochs=15, batch_size=4, lr=0.05, feature_damping=0.0
    )


def test_words_labels_and_rows_have_their_names(tagger):
    why = tagger.explain("a hammer of steel", k=3)
    assert why.label == "tool"
    assert why.score == tagger.tag("a hammer of steel", k=1)[0].score
    assert {word for word, _ in why.features} <= {"a", "hammer", "steel"}
    assert max(why.features, key=lambda pair: pair[1])[0] in ("hammer", "steel")
    assert sorted(name for name, _ in why.labels) == ["fruit", "sweet"]
    assert len(why.examples) == 3
    for near in why.examples:
        assert near.labels == RECORDS[near.row - 1]["labels"]
        assert near.cosine <= 1.01
    assert why.examples[0].labels == ["tool"]


def test_a_label_can_be_named(tagger):
    why = tagger.explain("a hammer of steel", "fruit")
    assert why.label == "fruit"
    assert why.score < 0.5
    assert why.features[0][0] in ("hammer", "steel")  # the largest contribution is negative
    assert why.features[0][1] < 0


def test_a_dataset_or_a_row_is_explained_like_its_text(tagger):
    by_text = tagger.explain("ripe plum", "sweet")
    dataset = ls.Dataset(labels=csr_matrix((1, 3), dtype=np.float32), texts=["ripe plum"])
    assert tagger.explain(dataset, "sweet") == by_text
    assert tagger.explain(tagger.pipeline.transform_texts(["ripe plum"]), "sweet") == by_text


def test_what_cannot_be_explained_is_said_in_words(tagger):
    with pytest.raises(ParameterError, match=r"no label 'fruits'; did you mean 'fruit'\?"):
        tagger.explain("plum", "fruits")
    with pytest.raises(ParameterError, match=r"no label 'zzz'$"):
        tagger.explain("plum", "zzz")
    with pytest.raises(ParameterError, match="k=0"):
        tagger.explain("plum", k=0)
    with pytest.raises(InputError, match="2 examples"):
        tagger.explain(tagger.pipeline.transform_texts(["plum", "saw"]))
    knn = ls.Tagger(tagger.pipeline, ls.KNN(), tagger.label_names)
    with pytest.raises(
        UnsupportedError,
        match=r"by knn; .* support it: dual-encoder, fusion, glas, labeltext, lexical, linear",
    ):
        knn.explain("plum")


@pytest.mark.parametrize("text", ["", "zyzzyva"])
def test_a_text_without_known_words_has_nothing_to_explain(tagger, text):
    with pytest.raises(InputError, match="no known word in this text"):
        tagger.explain(text)


def test_an_explanation_in_a_notebook_is_escaped(tagger):
    why = replace(tagger.explain("ripe plum"), label="<b>fruit</b>")
    assert "&lt;b&gt;fruit&lt;/b&gt;" in why._repr_html_()
    assert "<b>fruit" not in why._repr_html_()
