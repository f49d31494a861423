"""One-vs-all classifiers: scores compared with dense products, candidates, hard negatives."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix, random
from sklearn.svm import LinearSVC

from labelspace._core.sparse import unit_rows
from labelspace.classifiers.naive_bayes import Shortlister
from labelspace.classifiers.one_vs_rest import (
    UNSEEN,
    LinearRanker,
    candidate_matrix,
    hard_negative_tasks,
)
from labelspace.classifiers.sparse_scores import best, scores_of
from labelspace.errors import NotFittedError
from labelspace.methods import linear
from labelspace.methods.linear import Linear
from labelspace.metrics.ranking import evaluate
from support.fitted import restored
from support.planted import planted

HARD = {"negatives": "hard", "shortlist": 8}


def sparse(n, m, density=0.3, seed=0):
    matrix = random(n, m, density, format="csr", random_state=seed, dtype=np.float32)
    matrix.data -= 0.3
    return matrix


def test_best_of_all_is_the_dense_product_sorted():
    X, W = sparse(70, 20), sparse(20, 15, seed=1)
    offsets = np.random.default_rng(0).standard_normal(15).astype(np.float32)
    offsets[4] = -np.inf
    dense = unit_rows(X).toarray() @ W.toarray() + offsets
    labels, scores = best(X, W, offsets, 6)
    expected = np.argsort(-dense, axis=1)[:, :6]
    assert np.array_equal(labels, expected)
    np.testing.assert_allclose(scores, np.take_along_axis(dense, expected, 1), atol=1e-6)
    all_labels, scores = best(X, W, offsets, 15)
    assert (np.sort(all_labels, axis=1)[:, 1:] == np.delete(np.arange(15), 4)).all()
    assert (all_labels[:, -1] == -1).all()
    assert np.isneginf(scores[:, -1]).all()


def test_weights_in_an_array_give_the_same_bits_as_sparse_ones():
    X, W = sparse(70, 20), sparse(20, 15, 0.5, seed=1)
    offsets = np.random.default_rng(0).standard_normal(15).astype(np.float32)
    offsets[4] = -np.inf
    for k in (6, 15):
        found = best(X, W.toarray(), offsets, k)
        np.testing.assert_array_equal(found, best(X, W, offsets, k))


@pytest.mark.parametrize(("density", "stored"), [(0.1, csr_matrix), (0.5, np.ndarray)])
def test_many_remaining_weights_are_stored_as_an_array(density, stored):
    ranker = LinearRanker(sparse(15, 21, density))
    assert isinstance(ranker._by_feature()[0], stored)


def test_scores_of_candidates_are_those_of_the_dense_product():
    X, W = sparse(600, 20), sparse(15, 21, seed=1)
    candidates = np.random.default_rng(0).integers(-1, 15, (600, 7))
    dense = np.hstack([unit_rows(X).toarray(), np.ones((600, 1))]) @ W.toarray().T
    expected = np.where(candidates < 0, -np.inf, np.take_along_axis(dense, candidates, 1))
    found = scores_of(X, W, candidates)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    for row in range(20):  # few rows take another path, with the same bits
        alone = slice(row, row + 1)
        np.testing.assert_array_equal(scores_of(X[alone], W, candidates[alone]), found[alone])


def test_candidates_are_those_of_the_naive_bayes_formula():
    X, Y = planted(200, seed=1)
    x, y = X.toarray().astype(np.float64), Y.toarray()
    sums = y.T @ x
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = sums / sums.sum(axis=1, keepdims=True) / (x.sum(axis=0) / x.sum())
        weights = np.where(ratio >= 3, np.log1p(0.1 * ratio), 0)
        scores = unit_rows(X).toarray() @ weights.T + np.log(y.mean(axis=0)) / 3
    labels, found = Shortlister.fit(X, Y).search(X, 4)
    np.testing.assert_allclose(found, -np.sort(-scores, axis=1)[:, :4], atol=1e-4)
    assert (labels < 11).all()  # the last has no examples


def test_tasks_hold_positives_and_hard_negatives():
    Y = csr_matrix(np.array([[1, 0, 0], [1, 0, 1], [0, 0, 0], [0, 0, 1]]))
    listed = candidate_matrix(np.array([[0, 1], [2, -1], [2, 0], [-1, -1]]), 3)
    tasks = hard_negative_tasks(Y, listed, np.array([True, False, True]))
    assert tasks.indptr.tolist() == [0, 3, 6]
    assert tasks.rows.tolist() == [0, 1, 2, 1, 2, 3]
    assert tasks.positive.tolist() == [True, True, False, True, False, True]


@pytest.mark.parametrize("against", ["all", "listed"])
def test_a_ranker_holds_a_classifier_per_label(against):
    X, Y = planted(150)
    listed = candidate_matrix(np.random.default_rng(0).integers(0, 12, (150, 4)), 12)
    ranker = LinearRanker.fit(
        X, Y, listed if against == "listed" else None, tolerance=1e-6, passes=5000, prune=0.0
    )
    unit = unit_rows(X).astype(np.float64)
    all_labels = np.tile(np.arange(12), (150, 1))
    scores = ranker.score(X, all_labels)
    for label in (0, 5):
        y = Y[:, label].toarray().ravel() > 0
        rows = y | (listed[:, label].toarray().ravel() > 0) if against == "listed" else slice(None)
        svm = LinearSVC(dual=True, tol=1e-6, max_iter=10_000).fit(unit[rows], y[rows])
        np.testing.assert_allclose(scores[:, label], svm.decision_function(unit), atol=1e-3)
    assert (scores[:, 11] == UNSEEN).all()
    labels, found = ranker.best(X, 12)
    np.testing.assert_allclose(np.take_along_axis(scores, labels, 1), found, atol=1e-5)


@pytest.mark.parametrize("settings", [{}, {"loss": "logistic"}, HARD, {**HARD, "loss": "logistic"}])
def test_planted_labels_are_predicted(settings):
    X, Y = planted(500, seed=3)
    train, test = slice(0, 400), slice(400, 500)
    model = Linear(**settings).fit(X[train], Y[train])
    assert evaluate(model.predict(X[test], 5), Y[test])["P@1"] >= 95


@pytest.mark.parametrize("settings", [{}, HARD])
def test_scores_are_calibrated(settings):
    X, Y = planted(3000, seed=4)
    flipped = np.random.default_rng(0).random(Y.shape) < 0.02  # so that nothing is certain
    Y = csr_matrix(np.abs(Y.toarray() - flipped))
    ranking = Linear(**settings).fit(X[:2000], Y[:2000]).predict(X[2000:], 5)
    hits = np.take_along_axis(Y[2000:].toarray(), ranking.labels, 1)
    tenth = np.minimum((10 * ranking.scores).astype(int), 9).ravel()
    gap = np.bincount(tenth, (ranking.scores - hits).ravel())
    assert np.abs(gap).sum() / tenth.size < 0.04  # the expected calibration error


def test_with_hard_negatives_restored_models_and_single_rows_rank_the_same():
    X, Y = planted()
    model = Linear(**HARD).fit(X, Y)
    other = restored(model, {name: array.copy() for name, array in model.state().items()})
    one, two = model.predict(X, 8), other.predict(X, 8)
    assert np.array_equal(one.labels, two.labels)
    assert np.array_equal(one.scores, two.scores)
    for row in range(10):
        alone = model.predict(X[row], 8)
        assert np.array_equal(alone.labels[0], one.labels[row])
        assert np.array_equal(alone.scores[0], one.scores[row])
    assert model.metadata()["negatives"] == "hard"
    again = Linear(**HARD).fit(X, Y).state()
    assert all(np.array_equal(again[name], array) for name, array in model.state().items())


def test_negatives_are_hard_above_the_limit_of_work(monkeypatch):
    X, Y = planted()
    assert Linear().fit(X, Y).metadata()["negatives"] == "all"
    monkeypatch.setattr(linear, "MAX_WORK", 100)
    assert Linear().fit(X, Y).metadata()["negatives"] == "hard"


def test_margins_of_given_labels():
    X, Y = planted()
    model = Linear()
    with pytest.raises(NotFittedError):
        model.margins(X, np.zeros((120, 1), int))
    model.fit(X, Y)
    best_of_all, margins = model.ranker_.best(X, 3)
    np.testing.assert_allclose(model.margins(X, best_of_all), margins, atol=1e-5)


def test_pruning_leaves_fewer_weights():
    X, Y = planted()
    whole, pruned = (Linear(prune=p).fit(X, Y).ranker_.weights for p in (0.0, 0.3))
    assert pruned.nnz < whole.nnz / 2
    assert np.abs(pruned[:, :-1].data).min() >= 0.3


def test_nothing_is_held_out_if_valid_is_given(monkeypatch):
    X, Y = planted(300)
    rows = []
    fit = Linear._fit_weights
    monkeypatch.setattr(
        Linear, "_fit_weights", lambda self, X, Y, *_: (rows.append(Y.shape[0]), fit(self, X, Y))
    )
    Linear().fit(X[:200], Y[:200], valid=(X[200:], Y[200:]))
    assert rows == [200]  # once, on all of them
    rows.clear()
    Linear().fit(X[:200], Y[:200])
    assert rows == [180, 200]


def test_scores_of_labels_with_few_and_many_weights_are_dense_products():
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((30, 401)).astype(np.float32)
    dense[10:, :-1] *= rng.random((20, 400)) < 0.02  # ten labels with many weights, twenty with few
    dense[5, -1] = 0.0  # a label without a bias
    X = csr_matrix(
        (rng.standard_normal((40, 400)) * (rng.random((40, 400)) < 0.02)), dtype=np.float32
    )
    candidates = np.stack([rng.permutation(30)[:12] for _ in range(40)])
    candidates[0, 3] = -1
    found = scores_of(X, csr_matrix(dense), candidates)
    expected = np.hstack([unit_rows(X).toarray(), np.ones((40, 1))]) @ dense.T
    expected = np.take_along_axis(expected, candidates, 1)
    expected[0, 3] = -np.inf
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def work_of(X, Y):
    return Y.shape[1] * (X.nnz + linear.EXAMPLE_WORK * X.shape[0])


def test_a_refit_uses_the_same_kind_of_negatives(monkeypatch):
    X, Y = planted(400, seed=3)
    # Nine tenths of the examples are below the limit.
    monkeypatch.setattr(linear, "MAX_WORK", 0.97 * work_of(X, Y))
    kinds = []
    fit = Linear._fit_weights

    def recorded(self, *args):
        fit(self, *args)
        kinds.append(kind(self))

    monkeypatch.setattr(Linear, "_fit_weights", recorded)

    def kind(model):
        return "all" if model.shortlister_ is None else "hard"

    model = Linear(validation=0.1).fit(X, Y)
    assert kinds == ["hard", "hard"]
    assert model.shortlist_weight_ in linear.SHORTLIST_WEIGHTS
    rows = np.arange(360)
    member = Linear(validation=0.0).fit(X[rows], Y[rows])
    member.refit(X, Y, None)
    assert kinds[2:] == ["all", "all"]
    again = restored(model)
    again.refit(X[:200], Y[:200], None)
    assert kinds[-1] == "hard"


def test_without_candidate_search_the_kind_of_negatives_is_still_known():
    X, Y = planted(200)
    model = Linear(**HARD).fit(X, Y)
    model.drop_candidate_search()
    again = restored(model)
    assert model.metadata() == again.metadata()
    assert again.metadata()["negatives"] == "hard"
