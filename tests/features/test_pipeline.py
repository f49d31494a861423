"""From a Dataset to one matrix: texts, numbers, both; checks; and the state of it all."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.sparse import csr_matrix, issparse

from labelspace.data.dataset import Dataset
from labelspace.errors import InputError, ModelFormatError, NotFittedError, ParameterError
from labelspace.features import FeaturePipeline, Hashing, Tfidf, make_features, pipeline_for

TEXTS = ["the cat sat", "the dog sat", "a cat ran"]
NUMBERS = np.array([[1, 0], [0, 2], [3, 0]], dtype=np.float32)


def data(texts=None, features=None) -> Dataset:
    return Dataset(csr_matrix(np.eye(3, dtype=np.float32)), features=features, texts=texts)


def test_texts_alone_give_their_vectors() -> None:
    pipeline = pipeline_for(data(TEXTS), "tfidf")
    matrix = pipeline.fit_transform(data(TEXTS))
    np.testing.assert_array_equal(matrix.toarray(), Tfidf().fit_transform(TEXTS).toarray())
    for again in (pipeline.transform(data(TEXTS)), pipeline.transform_texts(TEXTS)):
        np.testing.assert_array_equal(again.toarray(), matrix.toarray())
    assert pipeline.n_features == matrix.shape[1] == len(pipeline.feature_names())


def test_sparse_numbers_alone_pass_as_they_are() -> None:
    numbers = csr_matrix(NUMBERS)
    pipeline = pipeline_for(data(features=numbers), "tfidf")
    for matrix in (
        pipeline.fit_transform(data(features=numbers)),
        pipeline.transform(data(features=numbers)),
    ):
        assert issparse(matrix)
        np.testing.assert_array_equal(csr_matrix(matrix).toarray(), NUMBERS)


@pytest.mark.parametrize("numbers", [NUMBERS, csr_matrix(NUMBERS)])
def test_texts_come_before_features_where_there_are_both(numbers) -> None:
    both = data(TEXTS, numbers)
    pipeline = pipeline_for(both, "tfidf").fit(both)
    matrix = pipeline.transform(both)
    words = Tfidf().fit_transform(TEXTS).toarray()
    np.testing.assert_array_equal(matrix.toarray(), np.hstack([words, NUMBERS]))
    assert matrix.format == "csr"
    assert matrix.dtype == np.float32
    terms = ["cat", "dog", "ran", "sat", "the"]
    assert pipeline.feature_names() == [*terms, "feature 0", "feature 1"]
    assert pipeline.n_features == 7


def test_none_leaves_texts_alone() -> None:
    both = data(TEXTS, csr_matrix(NUMBERS))
    alone = pipeline_for(both, "none").fit_transform(both)
    np.testing.assert_array_equal(alone.toarray(), NUMBERS)


@pytest.mark.parametrize("spec", ["tfidf", "hashing", "none"])
def test_state_goes_through_json_and_back(spec: str) -> None:
    both = data(TEXTS, NUMBERS)
    pipeline = pipeline_for(both, spec)
    expected = csr_matrix(pipeline.fit_transform(both)).toarray()
    params, arrays = pipeline.state()
    back = FeaturePipeline.from_state(json.loads(json.dumps(params)), arrays)
    np.testing.assert_array_equal(csr_matrix(back.transform(both)).toarray(), expected)
    assert back.n_numeric == 2


def test_state_of_an_unknown_kind_asks_for_an_upgrade() -> None:
    with pytest.raises(ModelFormatError, match="newer labelspace"):
        FeaturePipeline.from_state({"text": {"kind": "psychic"}, "n_numeric": 0}, {})


def test_names_make_their_features() -> None:
    assert isinstance(make_features("tfidf"), Tfidf)
    assert isinstance(make_features("hashing"), Hashing)
    assert make_features("none") is None
    for wrong in ("", "tf-idf"):
        with pytest.raises(ParameterError, match="tfidf, chars, hashing, tokens, static"):
            make_features(wrong)
    with pytest.raises(ParameterError, match="expected one of"):
        pipeline_for(data(features=NUMBERS), "typo")


def test_what_does_not_fit_is_said() -> None:
    texts_only = pipeline_for(data(TEXTS), "tfidf").fit(data(TEXTS))
    both = pipeline_for(data(TEXTS, NUMBERS), "tfidf").fit(data(TEXTS, NUMBERS))
    numbers_only = pipeline_for(data(features=NUMBERS), "none")
    with pytest.raises(InputError, match="1 numeric features; the model takes 2"):
        numbers_only.transform(data(features=NUMBERS[:, :1]))
    with pytest.raises(InputError, match="2 numeric features; the model takes 0"):
        texts_only.transform(data(TEXTS, NUMBERS))
    with pytest.raises(InputError, match="0 numeric features; the model takes 2"):
        both.transform(data(TEXTS))
    with pytest.raises(InputError, match="made for texts"):
        both.transform(data(features=NUMBERS))
    with pytest.raises(InputError, match="takes no texts"):
        numbers_only.transform_texts(TEXTS)
    with pytest.raises(InputError, match="2 numeric features beside each text"):
        both.transform_texts(TEXTS)
    with pytest.raises(ParameterError, match="no features"):
        pipeline_for(data(TEXTS), "none")
    with pytest.raises(NotFittedError, match="fit"):
        pipeline_for(data(TEXTS), "tfidf").transform(data(TEXTS))
