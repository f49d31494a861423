"""Losses of DXML against their definitions: values and gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix, vstack

from labelspace.methods.dxml import losses

N, OTHERS, LABELS = 9, 5, 7


@pytest.fixture
def batch():
    rng = np.random.default_rng(0)
    Y = csr_matrix((rng.random((N, LABELS)) < 0.3).astype(np.float32))
    more = csr_matrix((rng.random((OTHERS, LABELS)) < 0.3).astype(np.float32))
    torch.manual_seed(0)
    return torch.randn(N, N + OTHERS), Y, vstack([Y, more], "csr")


def neighbour_probabilities(logits):
    return torch.softmax(logits.clone().fill_diagonal_(-torch.inf), 1)


def with_gradient_of(loss, logits):
    logits = logits.detach().clone().requires_grad_()
    value = loss(logits)
    value.backward()
    return value.item(), logits.grad.numpy()


def test_votes_are_the_cross_entropy_of_a_smooth_k_nn(batch):
    logits, Y, their_Y = batch
    used = np.unique(their_Y.indices)
    neighbour_labels = torch.from_numpy(their_Y.toarray()[:, used]).double()
    own = torch.from_numpy(Y.toarray()[:, used]).double()

    def by_definition(scores):
        q = neighbour_probabilities(scores) @ neighbour_labels * (1 - 2 * losses.EPS) + losses.EPS
        return -(own * q.log() + (1 - own) * (1 - q).log()).sum() / N

    expected = with_gradient_of(by_definition, logits.double())
    found = with_gradient_of(lambda scores: losses.votes(scores, Y, their_Y), logits)
    assert found[0] == pytest.approx(expected[0], rel=1e-5)
    np.testing.assert_allclose(found[1], expected[1], atol=1e-6)


def test_a_batch_of_one_example_has_no_gradient():
    Y = csr_matrix(np.array([[1, 0, 1]], np.float32))
    value, gradient = with_gradient_of(lambda s: losses.votes(s, Y, Y), torch.ones(1, 1))
    assert np.isfinite(value)
    np.testing.assert_array_equal(gradient, 0.0)


def test_smooth_l1_is_equations_2_and_3():
    rng = np.random.default_rng(1)
    z, f = rng.uniform(-2, 2, (2, 6, 4))
    difference = np.abs(z - f)
    h = np.where(difference <= 1, 0.5 * difference**2, difference - 0.5)
    found = losses.smooth_l1(torch.from_numpy(z), torch.from_numpy(f))
    assert found.item() == pytest.approx(h.sum() / 6)


@pytest.mark.parametrize("margin", [0.5, 1.5])
def test_contrastive_and_triplet_equal_plain_loops(margin):
    rng = np.random.default_rng(2)
    z, f = rng.standard_normal((2, 8, 5))
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    f /= np.linalg.norm(f, axis=1, keepdims=True)
    negatives = rng.random((8, 8)) < 0.6
    np.fill_diagonal(negatives, False)
    negatives[3] = False  # shares labels with all
    contrastive = triplet = 0.0
    for i in range(8):
        own = np.linalg.norm(z[i] - f[i])
        far = [np.linalg.norm(z[i] - f[j]) for j in range(8) if negatives[i, j]]
        contrastive += own**2
        if far:
            contrastive += np.mean([max(0.0, margin - d) ** 2 for d in far])
            triplet += max(0.0, own**2 - min(far) ** 2 + margin)
    args = torch.from_numpy(z), torch.from_numpy(f), torch.from_numpy(negatives), margin
    assert losses.contrastive(*args).item() == pytest.approx(contrastive / 8, rel=1e-5)
    assert losses.triplet(*args).item() == pytest.approx(triplet / 8, rel=1e-5)


def test_a_point_on_its_target_has_a_finite_gradient():
    z = torch.eye(3, requires_grad=True)
    negatives = ~torch.eye(3, dtype=torch.bool)
    (losses.contrastive(z, torch.eye(3), negatives, 2.0)).backward()
    assert torch.isfinite(z.grad).all()
