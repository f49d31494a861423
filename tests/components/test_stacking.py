"""Combinations of rankings: labels that are certain, and few held-out examples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace._core.schema import check_arrays
from labelspace.components.boosted_stacking import BoostedCombiner, with_all_weights
from labelspace.components.stacking import Combiner, certainty
from labelspace.components.tail_objective import choose_tail_offset
from labelspace.errors import ModelFormatError
from labelspace.metrics.ranking import measure
from labelspace.ranking import Ranking

ROOT, GROUPS, LEAVES = 30, 5, 25  # labels: leaves, then groups, then the root of all


def tree_of_labels(n, seed):
    """Return two members' rankings of examples whose labels are a leaf, its group and the root.

    Both members are nearly certain of the group, often more so than of the root.
    """
    rng = np.random.default_rng(seed)
    leaf = rng.integers(0, LEAVES, n)
    Y = np.zeros((n, ROOT + 1), np.float32)
    Y[np.arange(n), leaf] = Y[np.arange(n), LEAVES + leaf % GROUPS] = Y[:, ROOT] = 1
    members = []
    for _ in range(2):
        odds = np.where(Y > 0, 1.0, -4.0) + rng.normal(0, 1, Y.shape)
        groups = slice(LEAVES, ROOT)
        odds[:, groups] = np.where(Y[:, groups] > 0, 9.0, -6.0) + rng.normal(0, 2, (n, GROUPS))
        odds[:, ROOT] = 9.0 + rng.normal(0, 1, n)
        order = np.argsort(-odds, axis=1)[:, :20]
        scores = 1 / (1 + np.exp(-np.take_along_axis(odds, order, 1)))
        members.append(Ranking(order, scores.astype(np.float32)))
    return members, csr_matrix(Y)


@pytest.mark.parametrize("combiner", [Combiner, BoostedCombiner])
@pytest.mark.parametrize("n", [60, 1000])
def test_a_label_of_every_example_ranks_first(combiner, n):
    fitted = combiner.fit(*tree_of_labels(n, 0), tree_of_labels(3000, 1)[1])
    new, Y = tree_of_labels(2000, 2)
    best = fitted.rank(new, 3)
    assert (best.labels[:, 0] == ROOT).all()
    assert (np.diff(best.scores, axis=1) <= 0).all()
    plain = replace(fitted, certain=60.0).rank(new, 3)
    assert measure("P@3", best, Y) >= measure("P@3", plain, Y) - 0.01
    if combiner is Combiner:
        assert (plain.labels[:, 0] == ROOT).mean() < 0.9


def test_certainty_is_the_estimate_of_a_label_that_is_always_true():
    assert 1 / (1 + np.exp(-certainty(1000))) == pytest.approx(1000.5 / 1001)
    assert certainty(0) == 60.0  # none is certain


def with_names(n, seed):
    """Return rankings of two members that err independently, and the labels."""
    rng = np.random.default_rng(seed)
    Y = rng.random((n, 40)) < 0.1
    members = []
    for strength in (1.5, 3.0):
        odds = np.where(Y, strength, -strength) + rng.normal(0, 2, Y.shape)
        order = np.argsort(-odds, axis=1)[:, :15]
        scores = 1 / (1 + np.exp(-np.take_along_axis(odds, order, 1)))
        members.append(Ranking(order, scores.astype(np.float32)))
    return members, csr_matrix(Y.astype(np.float32))


def test_with_few_held_out_examples_trees_rank_as_well_as_weights():
    new, Y = with_names(4000, 1)
    lost = []
    for seed in range(2, 6):
        few = with_names(60, seed)
        by_weights, by_both = (
            measure("P@3", kind.fit(*few, Y).rank(new, 3), Y)
            for kind in (Combiner, BoostedCombiner)
        )
        lost.append(by_weights - by_both)
    assert np.mean(lost) < 0.5


def test_scaled_combinations_have_scaled_log_odds():
    members, Y = with_names(300, 0)
    for kind in (Combiner, BoostedCombiner):
        fitted = replace(kind.fit(members, Y, Y, tail=True), certain=60.0)
        scaled = fitted._scaled(0.5, 0.25)
        before, after = fitted.rank(members, 5), scaled.rank(members, 5)
        np.testing.assert_array_equal(after.labels[:, 0], before.labels[:, 0])
        inner = before.scores[:, 0] < 0.999
        first, then = before.scores[inner, 0].astype(float), after.scores[inner, 0]
        odds = np.log(first / (1 - first))
        np.testing.assert_allclose(then, 1 / (1 + np.exp(-(0.5 * odds + 0.25))), atol=1e-3)


@pytest.mark.parametrize("kind", [Combiner, BoostedCombiner])
def test_a_stored_combination_ranks_alike_and_damage_is_refused(kind):
    members, Y = with_names(300, 0)
    fitted = kind.fit(members, Y, Y, tail=True)
    choose_tail_offset(fitted, "psp", members, Y, Y)
    arrays = fitted.state()
    again = kind.restore(arrays)
    best, found = fitted.rank(members, 5), again.rank(members, 5)
    np.testing.assert_array_equal(found.labels, best.labels)
    np.testing.assert_array_equal(found.scores, best.scores)
    for name in ("combiner.numbers", "combiner.weights"):
        damaged = {**arrays, name: arrays[name][:-1]}
        with pytest.raises(ModelFormatError, match=name):
            check_arrays(kind.schema(arrays, 2), damaged, labels=Y.shape[1])
    check_arrays(kind.schema(arrays, 2), arrays, labels=Y.shape[1])


def test_a_boosted_combination_of_an_earlier_version_ranks_by_its_trees():
    members, Y = with_names(300, 0)
    fitted = BoostedCombiner.fit(members, Y, Y)
    arrays = fitted.state()
    del arrays["combiner.weights"]
    found = BoostedCombiner.restore(with_all_weights(arrays, 2)).rank(members, 5)
    alone = replace(fitted, weights=0 * fitted.weights).rank(members, 5)
    np.testing.assert_array_equal(found.labels, alone.labels)
