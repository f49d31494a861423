"""k-nearest neighbours compared with scikit-learn's brute force."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix, hstack, random
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize

from labelspace.methods.baselines import MostCommon, Random
from labelspace.methods.knn import KNN
from labelspace.metrics.ranking import evaluate
from support.planted import planted


@pytest.mark.parametrize("power", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("signed", [False, True])
def test_votes_of_exact_cosine_neighbours(power, signed):
    X = random(300, 50, 0.2, format="csr", random_state=0, dtype=np.float32)
    if signed:
        X.data -= 0.5
    Y = random(300, 30, 0.1, format="csr", random_state=1)
    Q = random(40, 50, 0.2, format="csr", random_state=2, dtype=np.float32)
    distances, near = NearestNeighbors(n_neighbors=7, metric="cosine").fit(X).kneighbors(Q)
    weights = np.maximum(1 - distances, 0) ** power
    votes = np.einsum("nk,nkl->nl", weights, (Y.toarray() > 0)[near])
    expected = -np.sort(-votes / weights.sum(axis=1, keepdims=True), axis=1)[:, :5]
    found = KNN(neighbours=7, power=power).fit(X, Y).predict(Q, 5)
    np.testing.assert_allclose(found.scores, expected, atol=1e-5)


def test_common_features_are_ignored_and_training_data_are_not_changed():
    rng = np.random.default_rng(0)
    words = random(200, 60, 0.1, format="csr", random_state=0, dtype=np.float32)
    dense = rng.standard_normal((200, 8)).astype(np.float32)
    # Both parts have length 1, as combined features have: cosines of words alone are halved.
    X = hstack([normalize(words), csr_matrix(normalize(dense))], "csr")
    X = X[np.diff(words.indptr) > 0]
    before = X.copy()
    Y = random(X.shape[0], 30, 0.1, format="csr", random_state=1)
    found = KNN(max_document_frequency=0.5).fit(X, Y).predict(X, 5)
    expected = KNN().fit(X[:, :60], Y).predict(X[:, :60], 5)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-5)
    np.testing.assert_array_equal(X.toarray(), before.toarray())
    assert not np.allclose(found.scores, KNN().fit(X, Y).predict(X, 5).scores, atol=1e-5)


def test_an_example_without_common_features_gets_no_label():
    X = csr_matrix(np.eye(3, dtype=np.float32))
    ranking = KNN().fit(X[:2], csr_matrix(np.eye(2))).predict(X[2], 2)
    assert ranking.labels.tolist() == [[-1, -1]]


def test_a_bounded_search_finds_the_same_where_the_bound_is_not_reached():
    X, Y = planted(300, seed=1)
    exact = KNN().fit(X[:200], Y[:200])
    bounded = KNN(max_postings=10_000).fit(X[:200], Y[:200])
    restored = KNN.restored(
        bounded.to_json(), bounded.state(), n_features=X.shape[1], n_labels=Y.shape[1]
    )
    expected = exact.predict(X[200:], 5)
    for model in (bounded, restored):
        found = model.predict(X[200:], 5)
        np.testing.assert_array_equal(found.labels, expected.labels)
        np.testing.assert_array_equal(found.scores, expected.scores)


def test_similarities_that_cancel_are_counted_once():
    # The partial sum of the first example returns to exactly zero.
    X = csr_matrix(np.array([[1, -1], [1, 1]], np.float32))
    found = KNN(neighbours=2).fit(X, csr_matrix(np.eye(2))).predict(np.array([[1.0, 1.0]]), 2)
    assert found.labels.tolist() == [[1, -1]]


def test_it_ranks_far_better_than_the_baselines():
    X, Y = planted(400, seed=3)
    train, test = slice(0, 300), slice(300, 400)
    p1 = {
        cls.name: evaluate(cls().fit(X[train], Y[train]).predict(X[test], 5), Y[test])["P@1"]
        for cls in (Random, MostCommon, KNN)
    }
    assert p1["knn"] > max(p1["most-common"], p1["random"]) + 20


def test_most_common_ranks_by_frequency_with_ties_to_the_smaller_id():
    Y = csr_matrix(np.array([[1, 0, 1, 1], [0, 0, 1, 1], [0, 1, 0, 1]]))
    ranking = MostCommon().fit(np.ones((3, 1)), Y).predict(np.ones((1, 1)), 4)
    assert ranking.labels.tolist() == [[3, 2, 0, 1]]
    np.testing.assert_allclose(ranking.scores[0], [1, 2 / 3, 1 / 3, 1 / 3], rtol=1e-6)


def test_random_labels_are_uniform():
    X = csr_matrix(np.arange(1, 2001, dtype=np.float32)[:, None])
    ranking = Random().fit(X, csr_matrix(np.ones((2000, 10)))).predict(X, 1)
    counts = np.bincount(ranking.labels.ravel(), minlength=10)
    assert counts.min() > 140  # 200 expected, standard deviation 13
    assert counts.max() < 260


def test_single_updates_end_with_the_model_of_one_training():
    X, Y = planted(200, seed=4)
    updated, whole = KNN(neighbours=5).fit(X[:120], Y[:120]), KNN(neighbours=5).fit(X, Y)
    for row in range(120, 200):
        updated.partial_fit(X[row], Y[row])
    for name, array in whole.state().items():
        np.testing.assert_array_equal(updated.state()[name], array)
    np.testing.assert_array_equal(updated.predict(X, 5).scores, whole.predict(X, 5).scores)
