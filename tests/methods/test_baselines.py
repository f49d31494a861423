"""Random labels: consistent in k, and uniform at every rank."""

from __future__ import annotations

import numpy as np

from labelspace.methods.baselines import Random
from support.planted import planted


def test_random_labels_for_a_smaller_k_are_the_first_of_those_for_a_larger_one():
    X, Y = planted()
    model = Random(seed=3).fit(X, Y)
    most = model.predict(X, 12)
    assert (np.sort(most.labels, axis=1) == np.arange(12)).all()
    for k in (1, 2, 5, 11):
        best = model.predict(X, k)
        np.testing.assert_array_equal(best.labels, most.labels[:, :k])
        np.testing.assert_array_equal(best.scores, most.scores[:, :k])


def test_random_labels_are_uniform_at_every_rank():
    X, Y = planted(4000, seed=1)
    ranked = Random().fit(X, Y).predict(X, 12).labels
    shares = np.stack([np.bincount(column, minlength=12) for column in ranked.T]) / len(ranked)
    distinct = len(np.unique(ranked, axis=0)) / len(ranked)
    assert distinct > 0.9
    assert np.abs(shares - 1 / 12).max() < 0.025  # five standard errors
