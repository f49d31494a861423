"""The linear companion: the more accurate of the two models prevails; and its state."""

from __future__ import annotations

import numpy as np
import pytest

from labelspace.components.linear_companion import LinearCompanion
from labelspace.methods.hierarchicalxc import HierarchicalXC
from labelspace.methods.treespace.method import TreeSpace
from labelspace.metrics.ranking import measure
from labelspace.ranking import Ranking
from support.planted import planted


@pytest.fixture(scope="module")
def parts():
    X, Y = planted(900, seed=3)
    return (X[:600], Y[:600]), (X[600:750], Y[600:750]), (X[750:], Y[750:])


def member_ranking(Y, known, seed=0):
    """Return a random ranking of all labels, with the true ones first where they are known."""
    rng = np.random.default_rng(seed)
    scores = rng.uniform(0.05, 0.3, Y.shape) + 0.6 * known * Y.toarray()
    order = np.argsort(-scores, axis=1)
    return Ranking(order, np.take_along_axis(scores, order, 1).astype(np.float32))


@pytest.mark.parametrize("known", [True, False])
def test_the_more_accurate_model_prevails(parts, known):
    train, held, (X, Y) = parts
    if known:  # the classifiers see other examples' features, and learn nothing
        order = np.random.default_rng(0).permutation(600)
        train = (train[0][order], train[1])
    companion = LinearCompanion.fit(
        HierarchicalXC, train, held, member_ranking(held[1], known), None, 0, refit=False
    )
    best = companion.rank(X, member_ranking(Y, known, seed=1), 5)
    figures = [
        measure("P@1", ranking, Y, train[1])
        for ranking in (best, member_ranking(Y, known, seed=1), companion.linear.predict(X, 5))
    ]
    assert figures[0] >= max(figures[1:]) - 2.0
    assert abs(figures[1] - figures[2]) > 10  # the two differ, so that there is a choice


def test_it_comes_back_from_its_state(parts):
    train, held, (X, Y) = parts
    companion = LinearCompanion.fit(
        HierarchicalXC, train, held, member_ranking(held[1], True), None, 0, refit=True
    )
    back = LinearCompanion.restore(HierarchicalXC, companion.state(), X.shape[1], Y.shape[1])
    deep = member_ranking(Y, True)
    np.testing.assert_array_equal(back.rank(X, deep, 5).labels, companion.rank(X, deep, 5).labels)


def test_without_a_hold_out_there_is_no_companion(parts):
    X, Y = parts[0]
    small = {"dim": 12, "top_dim": 8, "width": 16, "epochs": 1}
    assert TreeSpace(**small, validation=0.0).fit(X, Y).companion_ is None
    assert TreeSpace(**small, linear_tree=False).fit(X, Y).companion_ is None
    assert TreeSpace(**small).fit(X, Y).companion_ is not None


def test_the_stacking_is_fitted_before_the_hold_out_votes(parts, monkeypatch):
    """An example that votes for itself would make them look perfect."""
    heard = []
    fit = LinearCompanion.fit

    def watched(tree, train, held, neural, *rest, **options):
        heard.append(measure("P@1", neural, held[1], train[1]))
        return fit(tree, train, held, neural, *rest, **options)

    monkeypatch.setattr(LinearCompanion, "fit", watched)
    rng = np.random.default_rng(0)
    X, Y = parts[0]
    Y = Y[rng.permutation(Y.shape[0])]  # nothing can be learned, only memorised
    small = {"dim": 12, "top_dim": 8, "width": 16, "epochs": 1, "validation": 0.2}
    model = TreeSpace(**small).fit(X, Y)
    assert len(model.blend_.voters) == X.shape[0]
    assert heard[0] < 60
