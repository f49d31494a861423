"""Regularisers and their gradients against written-out sums, and what the paper says of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from labelspace.labels.cooccurrence import CooccurrenceTarget
from labelspace.nn.regularisers import glas, graph_laplacian, gravity, sparse_tensor, spread_out


def vectors(m=7, d=4, seed=0, unit=False):
    V = torch.randn(m, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(V) if unit else V


def target(m=7, seed=0):
    """A block of a true co-occurrence target, some label twice, as its sparse matrix."""
    Y = np.random.default_rng(seed).random((40, 2 * m)) < 0.2
    labels = np.random.default_rng(seed).integers(0, 2 * m, m)
    return CooccurrenceTarget(csr_matrix(Y, dtype=np.float32)).sparse_submatrix(labels)


def dense(block):
    return torch.from_numpy(block.toarray()).double()


def summed(V, term):
    total = V.sum() * 0.0
    for i in range(len(V)):
        for j in range(len(V)):
            total = total + term(V[i], V[j], i, j)
    return total / len(V) ** 2


REGULARISERS = {
    "spread_out": (
        lambda V, U: spread_out(V),  # noqa: ARG005
        lambda V, U: summed(V, lambda v, w, i, j: (v @ w) ** 2),  # noqa: ARG005
    ),
    "graph_laplacian": (
        graph_laplacian,
        lambda V, U: summed(V, lambda v, w, i, j: U[i, j] * ((v - w) ** 2).sum()),
    ),
    "glas": (glas, lambda V, U: summed(V, lambda v, w, i, j: (v @ w - U[i, j]) ** 2)),
}
every_regulariser = pytest.mark.parametrize("name", REGULARISERS)


def value_and_gradient(function, V, U):
    V = V.clone().requires_grad_()
    value = function(V, U)
    (gradient,) = torch.autograd.grad(3.0 * value, V)
    return value.detach(), gradient


@every_regulariser
@pytest.mark.parametrize("shape", [(7, 4), (4, 9), (1, 3)])
def test_matches_the_written_out_sum(name, shape) -> None:
    V, U = vectors(*shape), dense(target(shape[0]))
    ours, loops = (value_and_gradient(f, V, U) for f in REGULARISERS[name])
    torch.testing.assert_close(ours, loops, rtol=1e-12, atol=1e-12)


@every_regulariser
def test_counts_are_as_good_as_copies_of_rows(name) -> None:
    counts = torch.tensor([2.0, 1.0, 5.0, 1.0], dtype=torch.float64)
    V, U = vectors(4, 9), dense(target(4))
    copied = torch.tensor([0, 0, 1, 2, 2, 2, 2, 2, 3])
    function = REGULARISERS[name][0]
    value, gradient = value_and_gradient(function, V[copied], U[copied][:, copied])
    summed = torch.zeros_like(V).index_add_(0, copied, gradient)
    if name == "spread_out":
        counted = value_and_gradient(lambda V, _: spread_out(V, counts), V, U)
    else:
        counted = value_and_gradient(lambda V, U: function(V, U, counts), V, U)
    torch.testing.assert_close(counted, (value, summed), rtol=1e-12, atol=1e-12)


def test_gravity_counts_labels_as_copies_of_rows() -> None:
    Z, V, copied = vectors(5, 4, seed=1), vectors(3, 4), torch.tensor([0, 1, 1, 1, 2])
    counts = torch.tensor([1.0, 3.0, 1.0], dtype=torch.float64)
    torch.testing.assert_close(gravity(Z, V, counts), gravity(Z, V[copied]))


@every_regulariser
def test_gradients_are_those_of_small_differences(name) -> None:
    U = dense(target())
    V = vectors(seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda V: REGULARISERS[name][0](V, U), (V,))


@pytest.mark.parametrize("function", [graph_laplacian, glas])
def test_a_sparse_target_gives_the_same(function) -> None:
    V, block = vectors(60, 16).float(), target(60)
    sparse = value_and_gradient(function, V, sparse_tensor(block))
    torch.testing.assert_close(sparse, value_and_gradient(function, V, dense(block).float()))


@pytest.mark.parametrize("seed", range(3))
def test_glas_is_laplacian_plus_spread_out_on_unit_vectors(seed) -> None:
    """Section 3.2: the sums differ by (2 u - u^2), which does not depend on the vectors."""
    V, U = vectors(50, 8, seed, unit=True), dense(target(50, seed))
    constant = (2 * U - U.square()).sum() / 50**2
    both = graph_laplacian(V, U) + spread_out(V)
    assert abs(both - glas(V, U) - constant) < 1e-10


def test_uncorrelated_labels_recover_spread_out() -> None:
    V = vectors(30, 8, unit=True)
    same = glas(V, torch.eye(30, dtype=torch.float64)) + 1 / 30
    torch.testing.assert_close(same, spread_out(V))


def test_glas_vanishes_where_the_target_is_met() -> None:
    V = vectors(30, 8, unit=True)
    value, gradient = value_and_gradient(glas, V, V @ V.T)
    assert 0 <= value < 1e-14
    assert gradient.abs().max() < 1e-14


def test_laplacian_vanishes_where_all_labels_meet_and_glas_does_not() -> None:
    """The paper's reason to add the two: the Laplacian alone is content with one point."""
    V = torch.ones(7, 4, dtype=torch.float64) / 2
    U = dense(target())
    assert abs(graph_laplacian(V, U)) < 1e-14
    assert glas(V, U) > 0.1


def test_descent_reaches_the_conditional_frequencies() -> None:
    U = dense(target(6, seed=4))
    V = vectors(6, 6, seed=4, unit=True).requires_grad_()
    optimiser = torch.optim.LBFGS([V], max_iter=500, tolerance_grad=1e-12)

    def closure():
        optimiser.zero_grad()
        loss = glas(V, U)
        loss.backward()
        return loss

    optimiser.step(closure)
    # The nearest Gram matrix is U without its negative eigenvalues.
    nearest = torch.linalg.eigvalsh(U).clamp(max=0).square().sum() / 36
    torch.testing.assert_close(glas(V, U), nearest, rtol=0, atol=1e-7)


def test_single_precision_at_the_size_of_a_batch() -> None:
    V, block = vectors(1000, 32, unit=True), target(1000)
    exact = value_and_gradient(glas, V, dense(block))
    value, gradient = value_and_gradient(glas, V.float(), sparse_tensor(block))
    torch.testing.assert_close(value.double(), exact[0], rtol=1e-5, atol=0)
    torch.testing.assert_close(gradient.double(), exact[1], rtol=1e-4, atol=1e-9)


def test_gravity_is_the_mean_squared_score_of_all_pairs() -> None:
    Z, V = vectors(5, 4, seed=1).requires_grad_(), vectors(7, 4).requires_grad_()
    scores = [(z @ v) ** 2 for z in Z for v in V]
    expected = torch.stack(scores).sum() / 35
    torch.testing.assert_close(gravity(Z, V), expected)
    torch.testing.assert_close(
        torch.autograd.grad(gravity(Z, V), (Z, V)), torch.autograd.grad(expected, (Z, V))
    )


def test_gravity_of_labels_on_themselves_is_spread_out() -> None:
    V = vectors()
    torch.testing.assert_close(gravity(V, V), spread_out(V))


def test_no_labels_have_no_penalty():
    V = torch.zeros(0, 4, requires_grad=True)
    U = sparse_tensor(csr_matrix((0, 0), dtype=np.float32))
    Z = torch.ones(3, 4)
    for value in (spread_out(V), graph_laplacian(V, U), glas(V, U), gravity(Z, V)):
        assert float(value.detach()) == 0.0
        value.backward()
