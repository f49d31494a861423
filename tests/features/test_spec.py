"""Features by name and side by side."""

from __future__ import annotations

import json

import numpy as np
import pytest

from labelspace.errors import ModelFormatError, ParameterError
from labelspace.features import (
    Hashing,
    SentenceVectors,
    SideBySide,
    StaticVectors,
    Tfidf,
    Tokens,
    WordVectors,
    make_features,
)

TEXTS = ["the cat sat", "the dog sat", "a cat ran", "zyzzyva", ""]


def two():
    return SideBySide([(1.0, Tfidf()), (0.5, Hashing(n_features=64))])


def test_parts_stand_side_by_side_each_with_its_weight():
    rows = two().fit_transform(TEXTS).toarray()
    words = Tfidf().fit_transform(TEXTS).toarray()
    hashed = Hashing(n_features=64).transform(TEXTS).toarray()
    expected = np.hstack([words, 0.5 * hashed])
    lengths = np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(rows, expected / np.where(lengths > 0, lengths, 1), atol=1e-6)
    # A word in the vocabulary of one part alone still makes a row of length 1; no words make none.
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), [1, 1, 1, 1, 0], atol=1e-6)


def test_columns_have_the_names_of_their_parts():
    features = two().fit(TEXTS)
    terms = ["cat", "dog", "ran", "sat", "the", "zyzzyva"]
    assert features.feature_names()[:7] == [*terms, "hash 0"]
    assert features.n_features == len(features.feature_names()) == 70
    assert features.transform(TEXTS).shape == (5, 70)
    np.testing.assert_array_equal(
        features.transform(TEXTS).toarray(), two().fit_transform(TEXTS).toarray()
    )


def test_state_goes_through_json_and_back():
    features = two().fit(TEXTS)
    params, arrays = features.state()
    back = SideBySide.from_state(json.loads(json.dumps(params)), arrays)
    np.testing.assert_array_equal(
        back.transform(TEXTS).toarray(), features.transform(TEXTS).toarray()
    )
    params["parts"][0]["kind"] = "psychic"
    with pytest.raises(ModelFormatError, match="newer labelspace"):
        SideBySide.from_state(params, arrays)


def test_a_sum_of_names_makes_its_parts():
    made = make_features("tfidf+0.5*static:128+word2vec:64")
    assert isinstance(made, SideBySide)
    weights, parts = zip(*made.parts, strict=True)
    assert weights == (1.0, 0.5, 1.0)
    assert [type(part) for part in parts] == [Tfidf, StaticVectors, WordVectors]
    assert [part.dim for part in parts[1:]] == [128, 64]


def test_one_name_makes_one_kind():
    assert isinstance(make_features("static"), StaticVectors)
    assert isinstance(make_features("word2vec"), WordVectors)
    assert make_features("sentences:some/dir").source == "some/dir"
    assert make_features("sentences:some/dir").max_tokens is None
    cut = make_features("sentences:64:some/dir:5")
    assert (cut.source, cut.max_tokens) == ("some/dir:5", 64)
    runs = make_features("chars").fit(["tea pot", "teapot"]).feature_names()
    assert " te" in runs
    assert "tea" in runs
    assert "tea pot" not in runs


def test_a_directory_may_have_a_plus_in_its_name():
    made = make_features("tfidf+sentences:c++/a+b+hashing")
    assert [type(part) for _, part in made.parts] == [Tfidf, SentenceVectors, Hashing]
    assert made.parts[1][1].source == "c++/a+b"


@pytest.mark.parametrize(
    "wrong",
    [
        "tfidf+",
        "+tfidf",
        "tfidf+nonsense",
        "sentences",
        "sentences:",
        "tfidf:5",
        "x*tfidf",
        "*static",
    ],
)
def test_wrong_names_are_refused_whole(wrong):
    with pytest.raises(ParameterError, match="expected one of tfidf") as raised:
        make_features(wrong)
    assert repr(wrong) in str(raised.value)


def test_wrong_values_are_named():
    with pytest.raises(ParameterError, match="'many' is no number of columns"):
        make_features("static:many")
    with pytest.raises(ParameterError, match=r"weight 0\.0 of static"):
        make_features("tfidf+0*static")
    with pytest.raises(ParameterError, match="tokens cannot be combined"):
        make_features("tfidf+tokens")
    with pytest.raises(ParameterError, match="tokens cannot be combined"):
        SideBySide([(1.0, Tokens())])
    with pytest.raises(ParameterError, match="parts is empty"):
        SideBySide([])
