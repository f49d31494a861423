"""The wide part of TreeSpace: whoever knows more is believed, and it comes back from its state."""

from __future__ import annotations

import numpy as np
import pytest

from labelspace.components.linear_companion import Wide
from labelspace.methods.hierarchicalxc import HierarchicalXC
from labelspace.methods.treespace.method import TreeSpace
from labelspace.metrics.ranking import measure
from labelspace.ranking import Ranking
from support.planted import planted


@pytest.fixture(scope="module")
def parts():
    X, Y = planted(900, seed=3)
    return (X[:600], Y[:600]), (X[600:750], Y[600:750]), (X[750:], Y[750:])


def said(Y, known, seed=0):
    """A ranking of all labels by chance, with the true ones first where they are known."""
    rng = np.random.default_rng(seed)
    scores = rng.uniform(0.05, 0.3, Y.shape) + 0.6 * known * Y.toarray()
    order = np.argsort(-scores, axis=1)
    return Ranking(order, np.take_along_axis(scores, order, 1).astype(np.float32))


@pytest.mark.parametrize("known", [True, False])
def test_whoever_knows_more_is_believed(parts, known):
    train, held, (X, Y) = parts
    if known:  # the classifiers see other examples' features, and learn nothing
        order = np.random.default_rng(0).permutation(600)
        train = (train[0][order], train[1])
    wide = Wide.fit(HierarchicalXC, train, held, said(held[1], known), None, 0, again=False)
    best = wide.rank(X, said(Y, known, seed=1), 5)
    figures = [
        measure("P@1", ranking, Y, train[1])
        for ranking in (best, said(Y, known, seed=1), wide.linear.predict(X, 5))
    ]
    assert figures[0] >= max(figures[1:]) - 2.0
    assert abs(figures[1] - figures[2]) > 10  # the two differ, so that there is a choice


def test_it_comes_back_from_its_state(parts):
    train, held, (X, Y) = parts
    wide = Wide.fit(HierarchicalXC, train, held, said(held[1], True), None, 0, again=True)
    back = Wide.restore(HierarchicalXC, wide.state(), X.shape[1], Y.shape[1])
    deep = said(Y, True)
    np.testing.assert_array_equal(back.rank(X, deep, 5).labels, wide.rank(X, deep, 5).labels)


def test_without_examples_held_out_there_is_nobody_to_weigh_it(parts):
    X, Y = parts[0]
    small = {"dim": 12, "top_dim": 8, "width": 16, "epochs": 1}
    assert TreeSpace(**small, validation=0.0).fit(X, Y).wide_ is None
    assert TreeSpace(**small, linear_tree=False).fit(X, Y).wide_ is None
    assert TreeSpace(**small).fit(X, Y).wide_ is not None


def test_the_spaces_are_weighed_without_the_votes_of_those_held_out(parts, monkeypatch):
    """An example that votes for itself would make them look perfect."""
    heard = []
    fit = Wide.fit

    def watched(tree, train, held, deep, *rest):
        heard.append(measure("P@1", deep, held[1], train[1]))
        return fit(tree, train, held, deep, *rest)

    monkeypatch.setattr(Wide, "fit", watched)
    rng = np.random.default_rng(0)
    X, Y = parts[0]
    Y = Y[rng.permutation(Y.shape[0])]  # there is nothing to learn, but by heart
    small = {"dim": 12, "top_dim": 8, "width": 16, "epochs": 1, "validation": 0.2}
    model = TreeSpace(**small).fit(X, Y)
    assert len(model.blend_.voters) == X.shape[0]
    assert heard[0] < 60
