"""Methods and text features in scikit-learn's pipelines, searches and cross-validation."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn import exceptions
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, RandomizedSearchCV, cross_val_predict
from sklearn.pipeline import Pipeline, make_pipeline

from labelspace.errors import NotFittedError, ParameterError
from labelspace.features import Hashing, SideBySide, Tfidf
from labelspace.methods.knn import KNN
from labelspace.methods.linear import Linear
from labelspace.ranking import Ranking
from support.planted import planted

COLOURS, THINGS = ["red", "blue", "green"], ["shoes", "lamp", "chair", "pan"]
TEXTS = [f"{colour} {thing}" for colour in COLOURS for thing in THINGS] * 4
LABELS = csr_matrix(
    [[float(word in text.split()) for word in COLOURS + THINGS] for text in TEXTS], dtype=np.float32
)


@pytest.mark.parametrize("method", [KNN(), Linear()])
def test_texts_go_through_a_pipeline(method):
    pipeline = Pipeline([("tfidf", Tfidf()), ("method", method)]).fit(TEXTS, LABELS)
    found = pipeline.predict(["a green lamp"], k=2)
    assert set(found.labels[0].tolist()) == {2, 4}
    assert pipeline.score(TEXTS, LABELS) == 1.0
    names = pipeline[:-1].get_feature_names_out().tolist()
    assert names == sorted(COLOURS + THINGS)


def test_a_grid_search_goes_over_the_parameters_of_all_steps():
    grid = {
        "tfidf__word_ngrams": [(1, 1), (1, 2)],
        "tfidf__min_df": np.array([1, 2]),
        "knn__neighbours": np.arange(1, 3),
    }
    search = GridSearchCV(make_pipeline(Tfidf(), KNN()), grid, cv=KFold(3)).fit(TEXTS, LABELS)
    assert search.best_score_ == 1.0
    assert len(search.cv_results_["params"]) == 8
    assert not np.isnan(search.cv_results_["mean_test_score"]).any()


@pytest.mark.parametrize("method", [KNN(), Linear()])
def test_searches_need_no_scorer_and_take_numbers_of_numpy(method):
    X, Y = planted(150)
    grid = {"neighbours": np.arange(1, 4)} if isinstance(method, KNN) else {"C": np.array([0.5, 1])}
    for search in (GridSearchCV(method, grid, cv=3), RandomizedSearchCV(method, grid, n_iter=2)):
        search.fit(X, Y)
        assert 0 < search.best_score_ <= 1
        assert search.best_estimator_.predict(X, 3).k == 3


def test_cross_val_predict_returns_one_ranking():
    X, Y = planted(90)
    folds = KFold(3, shuffle=True, random_state=0)
    found = cross_val_predict(KNN(), X, Y, cv=folds)
    assert isinstance(found, Ranking)
    assert len(found) == 90
    for train, test in folds.split(X):
        expected = KNN().fit(X[train], Y[train]).predict(X[test])
        np.testing.assert_array_equal(found[test].labels, expected.labels)
        np.testing.assert_array_equal(found[test].scores, expected.scores)


def test_a_ranking_is_indexed_by_rows_and_is_no_array():
    ranking = KNN().fit(*planted(60)).predict(planted(60)[0], 3)
    assert len(ranking[5]) == 1
    np.testing.assert_array_equal(ranking[-1].labels, ranking.labels[-1:])
    np.testing.assert_array_equal(ranking[10:20].scores, ranking.scores[10:20])
    assert len(ranking[np.arange(60) % 2 == 0]) == 30
    assert [len(one) for one in ranking] == [1] * 60
    whole = np.concatenate([ranking[:20], ranking[20:]])
    np.testing.assert_array_equal(whole.labels, ranking.labels)
    with pytest.raises(TypeError, match="labels or its scores"):
        np.asarray(ranking)
    with pytest.raises(IndexError):
        ranking[60]


@pytest.mark.parametrize(
    "features",
    [
        Tfidf(char_ngrams=(2, 3)),
        Hashing(n_features=32),
        SideBySide([(1.0, Tfidf()), (0.5, Hashing(n_features=8))]),
    ],
)
def test_features_are_cloned_and_pickled(features):
    rows = features.fit_transform(TEXTS, LABELS)
    copy = clone(features)
    assert repr(copy) == repr(features)
    np.testing.assert_array_equal(copy.fit(TEXTS).transform(TEXTS).toarray(), rows.toarray())
    loaded = pickle.loads(pickle.dumps(features))
    np.testing.assert_array_equal(loaded.transform(TEXTS).toarray(), rows.toarray())
    assert loaded.get_feature_names_out().tolist() == features.feature_names()


def test_parameters_that_were_set_later_are_checked_and_used():
    hashing = Hashing(n_features=32).fit(TEXTS)
    assert hashing.set_params(n_features=np.int64(16)).transform(TEXTS).shape == (48, 16)
    assert type(hashing.state()[0]["parameters"]["n_features"]) is int
    with pytest.raises(ParameterError, match="min_df=0"):
        Tfidf().set_params(min_df=0).fit(TEXTS)


@pytest.mark.parametrize("use", [lambda: Tfidf().transform(["x"]), lambda: KNN().predict([[1.0]])])
def test_use_before_fit_raises_the_error_of_both_packages(use):
    with pytest.raises(NotFittedError):
        use()
    with pytest.raises(exceptions.NotFittedError):
        use()
