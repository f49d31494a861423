"""Tf-idf against scikit-learn's TfidfVectorizer, column by column, and its way to disk and back."""

from __future__ import annotations

import gzip
import json
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix, hstack
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from labelspace.errors import InputError, NotFittedError, ParameterError
from labelspace.features import Tfidf, ngrams, term_counts

WORDS = [
    "the",
    "THE",
    "cat",
    "Cat-flap",
    "a",
    "I",
    "naïve",
    "Straße",
    "İstanbul",
    "x2",
    "日本語",
    "_",
]
WORDS += ["...", "über\tall", "don't", "  ", "\n", "e\u0301t\u00e9", "supercalifragilistic"]
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join), max_size=8)
TRAINING = TEXTS.map(lambda texts: ["cat über the", "the cat über", *texts])


def assert_same_matrix(ours: csr_matrix, theirs: csr_matrix) -> None:
    """Assert the same shape, stored cells, and values to float32 precision."""
    theirs.sort_indices()
    assert ours.shape == theirs.shape
    assert ours.dtype == np.float32
    np.testing.assert_array_equal(ours.indptr, theirs.indptr)
    np.testing.assert_array_equal(ours.indices, theirs.indices)
    np.testing.assert_allclose(ours.data, theirs.data, rtol=0, atol=1e-6)


@given(
    train=TRAINING,
    test=TEXTS,
    ngrams=st.sampled_from(
        [("word", (1, 1)), ("word", (1, 2)), ("word", (2, 3)), ("char", (2, 4))]
    ),
    sublinear=st.booleans(),
    lowercase=st.booleans(),
    min_df=st.integers(1, 2),
    norm=st.sampled_from(["l2", None]),
)
@settings(max_examples=120, deadline=None)
def test_same_columns_and_values_as_sklearn(
    train, test, ngrams, sublinear, lowercase, min_df, norm
) -> None:
    kind, lengths = ngrams
    options = {"sublinear": sublinear, "lowercase": lowercase, "min_df": min_df, "norm": norm}
    ours = Tfidf(
        word_ngrams=lengths if kind == "word" else None,
        char_ngrams=lengths if kind == "char" else None,
        **options,
    )
    theirs = TfidfVectorizer(
        analyzer="word" if kind == "word" else "char_wb",
        ngram_range=lengths,
        sublinear_tf=sublinear,
        lowercase=lowercase,
        min_df=min_df,
        norm=norm,
    )
    try:
        expected = theirs.fit_transform(train)
    except ValueError:
        with pytest.raises(InputError, match="occurs in"):
            ours.fit(train)
        return
    assert_same_matrix(ours.fit_transform(train), expected)
    assert ours.feature_names() == theirs.get_feature_names_out().tolist()
    if test:
        assert_same_matrix(ours.transform(test), theirs.transform(test))


def test_the_default_is_the_tfidf_of_the_published_comparison(shared_data) -> None:
    with gzip.open(shared_data("wordnet") / "train.jsonl.gz", "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in islice(lines, 3000)]
    theirs = TfidfVectorizer(sublinear_tf=True, min_df=2)
    expected = theirs.fit_transform(texts[:2000])
    ours = Tfidf()
    assert_same_matrix(ours.fit_transform(texts[:2000]), expected)
    assert ours.feature_names() == theirs.get_feature_names_out().tolist()
    assert_same_matrix(ours.transform(texts[2000:]), theirs.transform(texts[2000:]))


@given(TRAINING, TEXTS)
@settings(max_examples=40, deadline=None)
def test_one_by_one_is_bit_for_bit_the_batch(train, test) -> None:
    tfidf = Tfidf(char_ngrams=(2, 3)).fit(train)
    batch = tfidf.transform(test)
    for i, text in enumerate(test):
        one = tfidf.transform([text])
        np.testing.assert_array_equal(one.indices, batch[i].indices)
        np.testing.assert_array_equal(one.data, batch[i].data)


@pytest.mark.parametrize("limit", [("_BLOCK_TEXTS", 7), ("_BLOCK_LETTERS", 40)])
def test_blocks_of_texts_join_seamlessly(monkeypatch, limit) -> None:
    texts = [f"{a} {b} {a}" for a in WORDS for b in WORDS]
    whole = Tfidf().fit(texts)
    expected = whole.transform(texts)
    monkeypatch.setattr(ngrams, *limit)
    monkeypatch.setattr(term_counts, "_SLICE", 5)
    in_blocks = Tfidf()
    found = in_blocks.fit_transform(texts)
    assert_same_matrix(found, expected)
    np.testing.assert_array_equal(found.data, expected.data)
    assert in_blocks.feature_names() == whole.feature_names()
    assert_same_matrix(whole.transform(texts), expected)


def test_words_and_characters_weigh_the_same() -> None:
    texts = ["the cat sat", "the dog sat", "the cat ran"]
    words, characters = Tfidf(), Tfidf(word_ngrams=None, char_ngrams=(2, 3))
    both = Tfidf(char_ngrams=(2, 3))
    parts = [words.fit_transform(texts), characters.fit_transform(texts)]
    assert_same_matrix(both.fit_transform(texts), normalize(hstack(parts, format="csr")))
    assert both.feature_names() == words.feature_names() + characters.feature_names()
    assert both.n_features == words.n_features + characters.n_features


def test_max_features_keeps_the_most_frequent_and_the_first_among_equals() -> None:
    texts = ["bb cc dd aa dd", "bb cc dd aa ee", "ee zz zz zz zz", "zz"]
    assert Tfidf(max_features=3).fit(texts).feature_names() == ["aa", "dd", "zz"]
    theirs = TfidfVectorizer(max_features=2, min_df=2, sublinear_tf=True).fit(texts)
    ours = Tfidf(max_features=2).fit(texts)
    assert ours.feature_names() == theirs.get_feature_names_out().tolist() == ["dd", "zz"]
    assert_same_matrix(ours.transform(texts), theirs.transform(texts))


def test_min_df_counts_texts_not_repetitions() -> None:
    assert Tfidf(min_df=2).fit(["aa aa aa bb", "bb", "cc"]).feature_names() == ["bb"]


@pytest.mark.parametrize(("n_texts", "terms"), [(1, ["aa"]), (999, ["aa", "bb"]), (1000, ["aa"])])
def test_all_terms_of_few_texts_are_kept(n_texts: int, terms: list[str]) -> None:
    texts = ["aa"] * (n_texts - 1) + ["aa bb" if n_texts > 1 else "aa"]
    assert Tfidf().fit(texts).feature_names() == terms


def test_a_text_without_known_words_is_a_row_of_zeros() -> None:
    tfidf = Tfidf().fit(iter(["aa bb", "aa bb"]))
    matrix = tfidf.transform(["", "zz", "aa"])
    assert matrix.toarray().tolist() == [[0, 0], [0, 0], [1, 0]]
    assert tfidf.transform([]).shape == (0, 2)
    assert matrix.indices.dtype == np.int32
    assert matrix.has_canonical_format


@pytest.mark.parametrize("char_ngrams", [None, (2, 3)])
def test_state_goes_through_json_and_back(char_ngrams) -> None:
    texts = ["The cat sat", "the naïve Cat", "日本語 the cat"]
    tfidf = Tfidf(word_ngrams=(1, 2), char_ngrams=char_ngrams, lowercase=False, min_df=1)
    expected = tfidf.fit_transform(texts)
    params, arrays = tfidf.state()
    back = Tfidf.from_state(json.loads(json.dumps(params)), arrays)
    assert_same_matrix(back.transform(texts), expected)
    assert back.feature_names() == tfidf.feature_names()
    assert back.state()[0] == params


def test_fitting_again_forgets_the_first_texts() -> None:
    tfidf = Tfidf().fit(["aa", "aa"]).fit(["bb", "bb"])
    assert tfidf.feature_names() == ["bb"]


@pytest.mark.parametrize(
    "ask", [lambda t: t.transform(["x"]), lambda t: t.feature_names(), lambda t: t.state()]
)
def test_asking_before_fit_is_an_error(ask) -> None:
    with pytest.raises(NotFittedError, match="fit"):
        ask(Tfidf())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("word_ngrams", (0, 1)),
        ("word_ngrams", (2, 1)),
        ("word_ngrams", 2),
        ("char_ngrams", (3,)),
        ("char_ngrams", (1.0, 2.0)),
        ("min_df", 0),
        ("min_df", 0.5),
        ("max_features", 0),
        ("norm", "l1"),
    ],
)
def test_parameters_out_of_range_are_named(name: str, value) -> None:
    with pytest.raises(ParameterError, match=f"{name}="):
        Tfidf(**{name: value})


def test_no_terms_of_any_kind_is_an_error() -> None:
    with pytest.raises(ParameterError, match="word_ngrams=None and char_ngrams=None"):
        Tfidf(word_ngrams=None)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], "no texts"),
        (["", "a"], "--features chars"),
        ("one text", "put it into a list"),
        (["aa", None], "text 1 is not a string"),
    ],
)
def test_texts_that_cannot_be_learned_from_are_explained(texts, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Tfidf().fit(texts)
