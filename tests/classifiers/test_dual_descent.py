"""Dual coordinate descent against LIBLINEAR, as scikit-learn wraps it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix, random
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from labelspace._core import threads
from labelspace.classifiers.dual_descent import Tasks, all_against, solve
from labelspace.errors import InputError

EXACT = {"tolerance": 1e-6, "passes": 5000, "prune": 0.0}


def problem(n=300, features=60, labels=5, seed=0):
    rng = np.random.default_rng(seed)
    X = random(n, features, 0.2, format="csr", random_state=seed, dtype=np.float32)
    Y = X @ rng.standard_normal((features, labels)).astype(np.float32) > 1
    return X, csr_matrix(Y.astype(np.float32))


def solve_all(X, Y, **settings):
    return solve(X, all_against(Y), **settings)


def liblinear(X, y, loss, C=1.0):
    """Return LIBLINEAR's weights, that of the bias last."""
    shared = {"C": C, "random_state": 0}
    if loss == "squared_hinge":
        model = LinearSVC(dual=True, loss=loss, tol=1e-7, max_iter=100_000, **shared)
    else:
        model = LogisticRegression(solver="liblinear", tol=1e-8, max_iter=10_000, **shared)
    model.fit(X.astype(np.float64), y)
    return np.append(model.coef_[0], model.intercept_[0])


def some_tasks(Y, seed=0):
    """Return each label as a task on about half of the examples, in a shuffled order."""
    rng = np.random.default_rng(seed)
    rows = [
        rng.permutation(np.flatnonzero(rng.random(Y.shape[0]) < 0.5)) for _ in range(Y.shape[1])
    ]
    indptr = np.concatenate([[0], np.cumsum([len(r) for r in rows])])
    positive = [Y[r, label].toarray().ravel() > 0 for label, r in enumerate(rows)]
    return Tasks(indptr, np.concatenate(rows).astype(np.int32), np.concatenate(positive))


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
@pytest.mark.parametrize("C", [0.3, 1.0, 10.0])
def test_weights_are_those_of_liblinear(loss, C):
    X, Y = problem()
    found = solve_all(X, Y, loss=loss, C=C, **EXACT)
    assert found.shape == (Y.shape[1], X.shape[1] + 1)
    assert found.dtype == np.float32
    assert found.has_sorted_indices
    for label in range(Y.shape[1]):
        y = Y[:, label].toarray().ravel()
        expected = liblinear(X, y, loss, C)
        np.testing.assert_allclose(found[label].toarray()[0], expected, atol=1e-3)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_a_task_sees_its_own_examples_alone(loss):
    X, Y = problem()
    tasks = some_tasks(Y)
    found = solve(X, tasks, loss=loss, **EXACT).toarray()
    for task in range(len(tasks)):
        own = slice(tasks.indptr[task], tasks.indptr[task + 1])
        expected = liblinear(X[tasks.rows[own]], tasks.positive[own], loss)
        np.testing.assert_allclose(found[task], expected, atol=1e-3)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_the_usual_tolerance_is_near_the_least_cost(loss):
    X, Y = problem(n=600)
    W = solve_all(X, Y, loss=loss, prune=0.0).toarray()
    signs = 2 * Y.toarray() - 1

    def cost(w, label):
        margin = signs[:, label] * (X @ w[:-1] + w[-1])
        if loss == "squared_hinge":
            losses = np.maximum(1 - margin, 0) ** 2
        else:
            losses = np.log1p(np.exp(-margin))
        return w @ w / 2 + losses.sum()

    for label in range(Y.shape[1]):
        least = cost(liblinear(X, Y[:, label].toarray().ravel(), loss), label)
        assert least * 0.999 < cost(W[label], label) < least * 1.02


def test_all_against_is_the_tasks_written_out():
    X, Y = problem()
    n, labels = Y.shape
    tasks = Tasks(
        np.arange(labels + 1) * n,
        np.tile(np.arange(n, dtype=np.int32), labels),
        Y.T.toarray().ravel() > 0,
    )
    one, other = solve(X, tasks, loss="logistic"), solve_all(X, Y, loss="logistic")
    assert np.array_equal(one.toarray(), other.toarray())


@pytest.mark.parametrize("labels", [1, 16, 37])
def test_labels_side_by_side_have_the_weights_of_each_alone(labels):
    X, Y = problem(labels=labels)
    together = solve_all(X, Y, **EXACT).toarray()
    for label in range(0, labels, 5):
        alone = Tasks(
            np.array([0, len(X.indptr) - 1]),
            np.arange(X.shape[0], dtype=np.int32),
            Y[:, label].toarray().ravel() > 0,
        )
        np.testing.assert_allclose(
            together[label], solve(X, alone, **EXACT).toarray()[0], atol=1e-3
        )


def test_labels_side_by_side_do_not_depend_on_the_number_of_threads(monkeypatch):
    X, Y = problem(labels=50)
    together = solve_all(X, Y).toarray()
    for n_threads in (1, 7):
        monkeypatch.setattr(threads, "cores", lambda n=n_threads: n)
        monkeypatch.setattr(threads, "_pool", None)
        assert np.array_equal(solve_all(X, Y).toarray(), together)
    assert not np.array_equal(solve_all(X, Y, seed=1).toarray(), together)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_thread_count_and_other_tasks_change_nothing(loss, monkeypatch):
    X, Y = problem(labels=50)
    tasks = some_tasks(Y)
    together = solve(X, tasks, loss=loss).toarray()
    for n_threads in (1, 7):
        monkeypatch.setattr(threads, "cores", lambda n=n_threads: n)
        monkeypatch.setattr(threads, "_pool", None)
        assert np.array_equal(solve(X, tasks, loss=loss).toarray(), together)
    first = Tasks(tasks.indptr[:4], tasks.rows, tasks.positive)
    assert np.array_equal(solve(X, first, loss=loss).toarray(), together[:3])
    assert not np.array_equal(solve(X, tasks, loss=loss, seed=1).toarray(), together)


def test_small_weights_are_dropped_but_not_the_bias():
    X, Y = problem()
    whole, pruned = (solve_all(X, Y, prune=prune).toarray() for prune in (0.0, 0.9))
    assert (np.abs(whole[:, -1]) < 0.9).any()
    expected = np.where(np.abs(whole) >= 0.9, whole, 0)
    expected[:, -1] = whole[:, -1]
    assert np.array_equal(pruned, expected)


def test_wide_features_are_collected_in_order():
    # Fewer cells than features: weights are gathered from the examples, not by a scan.
    rng = np.random.default_rng(0)
    X = random(40, 100_000, 1e-4, format="csr", random_state=0, dtype=np.float32)
    Y = csr_matrix((rng.random((40, 30)) < 0.3).astype(np.float32))
    W = solve_all(X, Y, prune=0.0)
    assert W.nnz > 10_000  # past the first size of the buffers
    for label in range(30):
        own = W.indices[W.indptr[label] : W.indptr[label + 1]]
        assert (np.diff(own) > 0).all()
    assert np.array_equal(np.unique(W.indices), np.append(np.unique(X.indices), 100_000))


def test_empty_and_one_sided_tasks():
    X, _ = problem(n=20)
    rows = np.arange(20, dtype=np.int32)
    tasks = Tasks(np.array([0, 0, 20, 20]), rows, np.ones(20, bool))
    W = solve(X, tasks, **EXACT)
    assert W[0].nnz == W[2].nnz == 0
    assert (X @ W[1, :-1].T.toarray() + W[1, -1] > 0.9).all()
    nothing = solve(X, Tasks(np.array([0]), rows[:0], np.empty(0, bool)))
    assert nothing.shape == (0, X.shape[1] + 1)
    assert solve_all(X, csr_matrix((20, 3))).shape == (3, X.shape[1] + 1)


def test_rows_without_features_do_no_harm():
    X = csr_matrix((30, 5), dtype=np.float32)
    Y = csr_matrix(np.arange(30)[:, None] < 3, dtype=np.float32)
    for loss in ("squared_hinge", "logistic"):
        W = solve_all(X, Y, loss=loss, **EXACT).toarray()
        assert np.isfinite(W).all()
        assert W[0, -1] < 0


def test_progress_counts_every_task():
    X, Y = problem(labels=50)
    reported = []
    solve_all(X, Y, progress=reported.append)
    assert sum(reported) == 50


def test_a_row_that_is_not_there_is_refused():
    X, _ = problem(n=20)
    with pytest.raises(InputError, match="20 rows"):
        solve(X, Tasks(np.array([0, 1]), np.array([20], np.int32), np.array([True])))
