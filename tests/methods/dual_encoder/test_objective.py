"""The loss of a batch against its definition, with and without the labels' own vectors."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace.methods.dual_encoder.objective import BatchObjective
from labelspace.methods.dual_encoder.space import DualSpace
from labelspace.nn.trainer import Batch

N, FEATURES, LABELS = 9, 12, 7
PARAMS = {"seed": 3, "dim": 8, "scale": 5.0, "keep": 1.0, "negatives": "in-batch", "n_negatives": 0}


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def drawn(label_dropout, **changes):
    """Return a space whose labels have vectors of their own, the objective, and all its data."""
    rng = np.random.default_rng(0)
    X, T = (
        csr_matrix((rng.random((n, FEATURES)) * (rng.random((n, FEATURES)) < 0.5)), dtype="f4")
        for n in (N, LABELS)
    )
    own = np.eye(LABELS, dtype=np.float32)[rng.integers(0, 4, N)]
    own[0, 5] = 1.0
    Y = csr_matrix(own)
    params = SimpleNamespace(**PARAMS, label_dropout=label_dropout, **changes)
    space = DualSpace.fresh(X, Y, T, params)
    space.table.weight[:] = rng.standard_normal(space.table.weight.shape)
    return space, BatchObjective(space, params, X, Y), (X.toarray(), Y.toarray(), T.toarray())


def by_definition(space, X, Y, T, with_vectors, candidates):
    W, v = space.encoder.input_layer.weight, space.table.weight
    z, u = unit(unit(X) @ W), unit(unit(T) @ W)
    if with_vectors:
        u = unit(u + v)
    scores = 5.0 * z @ u[candidates].T
    logs = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    return -(Y[:, candidates] * logs).sum() / len(X)


@pytest.mark.parametrize("dropout", [0.0, 1.0])
def test_the_loss_is_the_cross_entropy_over_the_labels_of_the_batch(dropout):
    space, objective, (X, Y, T) = drawn(dropout)
    rows = np.array([0, 4, 2, 7])
    batch = Batch(rows, np.random.default_rng(1))
    candidates = np.flatnonzero(Y[rows].any(axis=0))
    assert len(candidates) < LABELS
    expected = by_definition(space, X[rows], Y[rows], T, dropout == 0.0, candidates)
    loss = objective(batch)
    assert loss.item() == pytest.approx(expected, rel=1e-4)
    before = space.encoder.input_layer.weight.copy(), space.table.weight.copy()
    loss.backward()
    space.optimiser(0.001).step(1.0)
    changed = (space.table.weight != before[1]).any(axis=1)
    # A vector that is dropped has no gradient, and neither have labels outside of the batch.
    assert np.flatnonzero(changed).tolist() == ([] if dropout else candidates.tolist())
    assert (space.encoder.input_layer.weight != before[0]).any()
    assert objective(batch).item() < loss.item()


def test_uniform_negatives_are_scored_too():
    space, _, (X, Y, T) = drawn(0.0)
    params = SimpleNamespace(**{**PARAMS, "negatives": "uniform", "n_negatives": LABELS})
    params.label_dropout = 0.0
    objective = BatchObjective(space, params, csr_matrix(X), csr_matrix(Y))
    rows = np.arange(3)
    expected = by_definition(space, X[rows], Y[rows], T, True, np.arange(LABELS))
    found = objective(Batch(rows, np.random.default_rng(0))).item()
    assert found == pytest.approx(expected, rel=1e-4)


def test_vectors_of_labels_without_text_are_never_dropped():
    space, before, (X, Y, T) = drawn(1.0)
    T[:] = 0.0
    bare = space.with_labels(space.table.weight, csr_matrix(T))
    objective = BatchObjective(bare, before.params, csr_matrix(X), csr_matrix(Y))
    candidates = np.flatnonzero(Y.any(axis=0))
    z, v = unit(unit(X) @ space.encoder.input_layer.weight), space.table.weight
    scores = 5.0 * z @ unit(v)[candidates].T
    logs = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    expected = -(Y[:, candidates] * logs).sum() / N
    found = objective(Batch(np.arange(N), np.random.default_rng(0))).item()
    assert found == pytest.approx(expected, rel=1e-4)
