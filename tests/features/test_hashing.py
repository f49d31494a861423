"""Hashed vectors against scikit-learn's HashingVectorizer."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.feature_extraction.text import HashingVectorizer

from labelspace.errors import InputError, ParameterError
from labelspace.features import Hashing

TEXTS = ["The cat sat on the Cat", "", "naïve 日本語 Straße", "a b c"]


@pytest.mark.parametrize("word_ngrams", [(1, 1), (1, 2), (2, 3)])
@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("norm", ["l2", None])
def test_same_vectors_as_sklearn(word_ngrams, lowercase: bool, norm) -> None:
    ours = Hashing(n_features=512, word_ngrams=word_ngrams, lowercase=lowercase, norm=norm)
    theirs = HashingVectorizer(
        n_features=512, ngram_range=word_ngrams, lowercase=lowercase, norm=norm, dtype=np.float32
    )
    for matrix in (ours.transform(TEXTS), ours.fit(TEXTS).fit_transform(iter(TEXTS))):
        assert matrix.dtype == np.float32
        np.testing.assert_array_equal(matrix.toarray(), theirs.transform(TEXTS).toarray())


def test_no_texts_give_no_rows() -> None:
    assert Hashing(n_features=16).transform([]).shape == (0, 16)


def test_state_goes_through_json_and_back() -> None:
    hashing = Hashing(n_features=64, word_ngrams=(1, 2), lowercase=False)
    params, arrays = hashing.state()
    back = Hashing.from_state(json.loads(json.dumps(params)), arrays)
    np.testing.assert_array_equal(
        back.transform(TEXTS).toarray(), hashing.transform(TEXTS).toarray()
    )
    assert len(back.feature_names()) == back.n_features == 64


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_features", 0), ("n_features", 2**31), ("word_ngrams", (2, 1)), ("word_ngrams", None)],
)
def test_parameters_out_of_range_are_named(name: str, value) -> None:
    with pytest.raises(ParameterError, match=f"{name}="):
        Hashing(**{name: value})


def test_one_bare_text_is_an_error() -> None:
    with pytest.raises(InputError, match="put it into a list"):
        Hashing().transform("one text")
