"""Sampled labels and their chances, partners that share labels, dropped features."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix, random, vstack

from labelspace.nn.sampling import CandidateSampler, Partners, drop_features, negatives_per_row
from support.planted import planted


@pytest.fixture(scope="module")
def Y():
    return random(400, 60, 0.03, format="csr", random_state=0)


@pytest.mark.parametrize("kind", ["in-batch", "uniform", "frequency", "all"])
def test_candidates_are_distinct_sorted_and_hold_the_batch(Y, kind):
    drawn = CandidateSampler(Y, kind, 5).draw(Y[:20], np.random.default_rng(0))
    assert (np.diff(drawn.labels) > 0).all()
    assert set(Y[:20].indices) <= set(drawn.labels)
    assert np.array_equal(drawn.labels[drawn.columns(Y[:20].indices)], Y[:20].indices)
    if kind == "in-batch":
        assert set(Y[:20].indices) == set(drawn.labels)
    if kind == "all":
        assert (drawn.inclusion == 1).all()


def test_draws_by_frequency_are_those_of_numpy_without_a_sum_over_all_labels(Y):
    sampler = CandidateSampler(Y, "frequency", 50)
    expected = np.random.default_rng(2).choice(60, 50, p=sampler.chance)
    assert np.array_equal(sampler._negatives(np.random.default_rng(2)), expected)
    sampler.chance = None  # what a draw that sums would need
    assert np.array_equal(sampler._negatives(np.random.default_rng(2)), expected)


@pytest.mark.parametrize("kind", ["uniform", "frequency"])
def test_inclusion_is_how_often_a_label_is_drawn(Y, kind):
    sampler, rng = CandidateSampler(Y, kind, 6), np.random.default_rng(1)
    times, rounds = np.zeros(60), 3000
    stated = np.zeros(60)
    for _ in range(rounds):
        batch = Y[rng.choice(400, 16, replace=False)]
        drawn = sampler.draw(batch, rng)
        times[drawn.labels] += 1
        stated[drawn.labels] = drawn.inclusion
    np.testing.assert_allclose(times / rounds, stated, atol=0.05)


def test_hard_negatives_are_certain(Y):
    hard = np.array([[7, 9], [9, -1]])
    drawn = CandidateSampler(Y, "uniform", 3).draw(Y[:2], np.random.default_rng(0), hard)
    assert {7, 9} <= set(drawn.labels)
    assert (drawn.inclusion[drawn.columns(np.array([7, 9]))] == 1).all()


def test_the_sampled_binary_loss_is_unbiased(Y):
    import torch

    from labelspace.nn.losses import binary_loss

    rng = np.random.default_rng(2)
    logits = rng.normal(-2, 1, (400, 60)).astype(np.float32)

    def loss(rows, candidates):
        batch = Y[rows]
        at = np.repeat(np.arange(len(rows)), np.diff(batch.indptr))
        found = torch.from_numpy(logits[np.ix_(rows, candidates.labels)])
        weights = torch.from_numpy(1.0 / candidates.inclusion)
        columns = torch.from_numpy(candidates.columns(batch.indices))
        return binary_loss(found, torch.from_numpy(at), columns, negative_weights=weights).item()

    exact, sampled = CandidateSampler(Y, "all", 0), CandidateSampler(Y, "uniform", 20)
    pairs = []
    for _ in range(2000):
        rows = rng.choice(400, 16, replace=False)
        pairs.append((loss(rows, exact.draw(Y[rows], rng)), loss(rows, sampled.draw(Y[rows], rng))))
    truth, estimate = np.mean(pairs, axis=0)
    assert estimate == pytest.approx(truth, rel=0.03)


def test_dropout_keeps_a_share_and_the_mean():
    X, _ = planted(400)
    before = X.copy()
    noisy = drop_features(X, 0.5, np.random.default_rng(0))
    assert 0.45 < noisy.nnz / X.nnz < 0.55
    assert noisy.sum() == pytest.approx(X.sum(), rel=0.1)
    assert (before != X).nnz == 0
    assert drop_features(X, 1.0, np.random.default_rng(0)) is X
    as_it_is = drop_features(X, 0.5, np.random.default_rng(0), rescale=False)
    assert (noisy != 2 * as_it_is).nnz == 0


def test_partners_share_a_label_rare_ones_first():
    rng = np.random.default_rng(0)
    common = np.ones((100, 1))
    rare = np.repeat(np.eye(10), 10, axis=0)
    Y = csr_matrix(np.hstack([common, rare]).astype(np.float32))
    Y = vstack([Y, csr_matrix((2, 11), dtype=np.float32)], "csr")
    rows = np.repeat(np.arange(100), 20)
    partners = Partners(Y, 1.0 / np.asarray(Y.sum(axis=0)).ravel())
    drawn = partners.draw(rows, rng)
    assert (np.diff(Y.indptr)[drawn] > 0).all()
    # The rare label has ten times the chance of the common one, which brings it by chance too.
    expected = 10 / 11 + 1 / 11 * 0.1
    assert abs((drawn // 10 == rows // 10).mean() - expected) < 0.03
    assert partners.draw(np.array([100, 101]), rng).tolist() == [100, 101]  # they have no labels


def test_partners_are_the_most_similar_of_many_draws():
    Y = csr_matrix(np.array([[1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]]))
    partners = Partners(Y, 1 / np.sqrt([3, 2, 1, 1]), draws=60)
    drawn = partners.draw(np.arange(5), np.random.default_rng(0))
    assert drawn.tolist() == [1, 0, 1, 3, 4]  # no other has label 3; the last has none


def test_negatives_of_a_row_are_all_labels_it_does_not_have_equally_often():
    Y = csr_matrix(np.array([[0, 1, 0, 0, 1, 1], [1, 0, 0, 0, 0, 0], [0] * 6, [1] * 6]))
    drawn = negatives_per_row(Y, 6000, np.random.default_rng(0))
    for row in range(3):
        times = np.bincount(drawn[row], minlength=6)
        outside = np.flatnonzero(Y[row].toarray().ravel() == 0)
        assert times[Y[row].indices].sum() == 0
        expected = 6000 / len(outside)
        np.testing.assert_allclose(times[outside], expected, atol=5 * np.sqrt(expected))
    assert (drawn[3] == -1).all()


def test_candidates_know_which_of_them_were_drawn(Y):
    hard = np.array([[7, 9], [9, -1]])
    drawn = CandidateSampler(Y, "uniform", 3).draw(Y[:2], np.random.default_rng(0), hard)
    assert len(drawn.drawn) == 3 + 3
    assert set(drawn.labels) == set(drawn.drawn) | set(Y[:2].indices)
