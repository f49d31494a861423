"""Losses of DXML against their definitions: values and gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from labelspace.methods.dxml import losses

LABELS, DIM, SCALE = 70, 4, 3.0  # a logarithm is taken per 64 labels


def with_gradient_of(loss, points):
    points = points.detach().clone().requires_grad_()
    value = loss(points)
    value.backward()
    return value.item(), points.grad.numpy()


@pytest.mark.parametrize("others", [0, 5])
@pytest.mark.parametrize("n", [9, 300])  # one block of examples, and several
def test_votes_are_the_cross_entropy_of_a_smooth_k_nn(n, others):
    rng = np.random.default_rng(0)
    their_Y = csr_matrix((rng.random((n + others, LABELS)) < 0.3).astype(np.float32))
    all_points = rng.standard_normal((n + others, DIM)).astype(np.float32)
    all_points /= np.linalg.norm(all_points, axis=1, keepdims=True)
    points = torch.from_numpy(all_points[:n])
    used = np.unique(their_Y.indices)
    labels = torch.from_numpy(their_Y.toarray()[:, used]).double()

    def loss_by_definition(z):
        near = torch.cat([z, torch.from_numpy(all_points[n:]).double()])
        itself = torch.eye(n, n + others).bool()
        p = torch.softmax((SCALE * z @ near.T).masked_fill(itself, -torch.inf), 1)
        q = p @ labels * (1 - 2 * losses.EPS) + losses.EPS
        own = labels[:n]
        return -(own * q.log() + (1 - own) * (1 - q).log()).sum() / n

    expected = with_gradient_of(loss_by_definition, points.double())
    fixed = (all_points[n:], their_Y[n:]) if others else None
    found = with_gradient_of(lambda z: losses.votes(z, SCALE, their_Y[:n], fixed), points)
    assert found[0] == pytest.approx(expected[0], rel=1e-5)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-3, atol=1e-5)


def test_a_batch_of_one_example_has_no_gradient():
    Y = csr_matrix(np.array([[1, 0, 1]], np.float32))
    value, gradient = with_gradient_of(lambda z: losses.votes(z, 20.0, Y), torch.ones(1, 2))
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
