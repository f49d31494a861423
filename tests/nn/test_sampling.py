"""Candidate labels: the batch's own are always there, and inclusion is what it says."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import random

from labelspace.nn.sampling import CandidateSampler


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
