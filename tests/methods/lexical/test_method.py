from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from labelspace.errors import InputError, ModelFormatError
from labelspace.features.name_matcher import NameMatcher
from labelspace.methods.lexical import Lexical
from support.named import N_LABELS, N_SEEN, named


@pytest.fixture(scope="module")
def data():
    train, test = named(240), named(60, seed=1, n_labels=N_LABELS)
    matcher = NameMatcher.of(train.label_texts)
    return matcher.transform(train.texts), train.labels, matcher.transform(test.texts), test.labels


@pytest.fixture(scope="module")
def fitted(data):
    return Lexical().fit(data[0], data[1], name_matches=True)


def found_share(model, X, Y, low, high):
    """Return the share of pairs of these labels that are among the best five."""
    ranked = model.predict(X, 5).labels
    pairs = [(row, label) for row, label in zip(*Y.nonzero(), strict=True) if low <= label < high]
    return np.mean([label in ranked[row] for row, label in pairs])


def test_labels_without_examples_are_found_by_their_names(fitted, data):
    assert fitted.counts_[N_SEEN:, 0].sum() == 0
    assert found_share(fitted, *data[2:], N_SEEN, N_LABELS) > 0.8
    assert found_share(fitted, *data[2:], 0, N_SEEN) > 0.8


def test_counts_are_those_of_all_examples(fitted, data):
    X, Y = data[:2]
    assert np.array_equal(fitted.counts_[:, 0], np.asarray(Y.sum(axis=0)).ravel())
    matched = (X[:, ::2] > 0).astype(np.float32)
    assert np.array_equal(fitted.counts_[:, 3], np.asarray(matched.sum(axis=0)).ravel())
    assert np.array_equal(fitted.counts_[:, 4], np.asarray(matched.multiply(Y).sum(axis=0)).ravel())


def test_columns_before_the_matches_are_ignored(fitted, data):
    X, Y, X_test, _ = data
    noise = np.random.default_rng(0).random((X.shape[0] + X_test.shape[0], 3)).astype(np.float32)
    wide = np.hstack([noise[: X.shape[0]], X.toarray()])
    wide_test = np.hstack([noise[X.shape[0] :], X_test.toarray()])
    model = clone(fitted).fit(wide, Y, name_matches=True)
    assert np.array_equal(model.predict(wide_test, 5).labels, fitted.predict(X_test, 5).labels)


def test_too_few_columns_for_matches_are_refused(data):
    with pytest.raises(InputError, match="name_matches"):
        Lexical().fit(data[0][:, 1:], data[1], name_matches=True)


def test_rows_alone_rank_as_in_a_batch_and_after_loading(fitted, data):
    X = data[2]
    sizes = {"n_features": X.shape[1], "n_labels": N_LABELS}
    loaded = Lexical.restored(fitted.to_json(), fitted.state(), **sizes)
    together = fitted.predict(X, 5)
    for row in range(X.shape[0]):
        for model in (fitted, loaded):
            alone = model.predict(X[row], 5)
            assert np.array_equal(alone.labels[0], together.labels[row])
            assert np.array_equal(alone.scores[0], together.scores[row])


def test_a_row_without_a_match_gets_the_most_common_labels(fitted, data):
    ranked = fitted.predict(data[2][:1] * 0, 3)
    counts = fitted.counts_[:, 0]
    assert counts[ranked.labels[0, 0]] == counts.max()
    assert ranked.scores[0, 0] == np.float32(counts.max() / data[0].shape[0])


def test_an_explanation_names_the_match(fitted, data):
    X = data[2]
    row = int(np.flatnonzero(np.diff(X.indptr) > 0)[0])
    label = int(fitted.predict(X[row], 1).labels[0, 0])
    found = fitted.explain(X[row], label)
    assert found.features[0][0] == 2 * label
    assert found.features[0][1] > 1.0


def test_refit_counts_all_examples(data):
    X, Y = data[:2]
    model = Lexical().fit(X[:100], Y[:100], name_matches=True)
    before = model.trees_of_matches_
    assert model.refit(X, Y, None)
    assert model.trees_of_matches_ is before
    assert np.array_equal(model.counts_, Lexical().fit(X, Y, name_matches=True).counts_)


def test_damaged_counts_are_refused(fitted, data):
    sizes = {"n_features": data[0].shape[1], "n_labels": N_LABELS}
    for name, array in (
        ("counts", fitted.counts_[:-1]),
        ("counts", fitted.counts_ - 10**6),
        ("sizes", np.array([240, 5])),
    ):
        with pytest.raises(ModelFormatError):
            Lexical.restored(fitted.to_json(), {**fitted.state(), name: array}, **sizes)
