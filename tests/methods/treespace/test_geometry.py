"""The geometries of TreeSpace: the ball against `nn.poincare`, fitted models against numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from labelspace.data.taxonomy import Taxonomy
from labelspace.methods.baselines import MostCommon
from labelspace.methods.treespace.geometry import GEOMETRIES, RADIUS
from labelspace.methods.treespace.method import TreeSpace
from labelspace.methods.treespace.search import TreeIndex
from labelspace.methods.treespace.search_loops import ball_distance
from labelspace.methods.treespace.vectors import RANK
from labelspace.nn import poincare
from support.fitted import restored

BALL = GEOMETRIES["hyperbolic"]
SMALL = {"dim": 24, "top_dim": 12, "width": 24, "neighbours": 0, "tail_bias": 0.0}
EITHER = pytest.mark.parametrize("geometry", list(GEOMETRIES))


def paths(n=200, seed=0):
    """Examples of a 4 x 4 x 2 tree whose features are a noisy copy of their labels."""
    rng = np.random.default_rng(seed)
    names = [f"{a}" for a in range(4)] + [f"{a}>{b}" for a in range(4) for b in range(4)]
    names += [f"{a}>{b}>{c}" for a in range(4) for b in range(4) for c in range(2)]
    parent = [(name, name.rpartition(">")[0]) for name in names if ">" in name]
    Y = np.zeros((n, len(names)), np.float32)
    for row, (a, b, c) in enumerate(rng.integers((4, 4, 2), size=(n, 3))):
        for name in (f"{a}", f"{a}>{b}", f"{a}>{b}>{c}"):
            Y[row, names.index(name)] = 1
    X = np.where(rng.random(Y.shape) < 0.9, Y, rng.random(Y.shape) < 0.05)
    return csr_matrix(X, dtype=np.float32), csr_matrix(Y), Taxonomy.from_names(parent, names)


def in_ball(rows):
    tangents = torch.from_numpy(rows).double()
    return poincare.exponential(torch.zeros_like(tangents), tangents)


def log_0(points):
    length = points.norm(dim=1, keepdim=True)
    return points * (torch.atanh(length) / length)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.floats(-6, 6))
def test_points_and_distances_are_those_of_poincare(seed, exponent):
    """Rows are from nearly 0 to far longer than the radius."""
    rng = np.random.default_rng(seed)
    rows = (10**exponent * rng.standard_normal((2, 5, 7))).astype(np.float32)
    x, y = (BALL.normalise_array(part) for part in rows)
    for part, vectors in zip(rows, (x, y), strict=True):
        np.testing.assert_allclose(BALL.normalise(torch.from_numpy(part)), vectors, rtol=1e-5)
        points = BALL.points(vectors)
        assert points.dtype == np.float32
        assert (np.linalg.norm(points.astype(np.float64), axis=1) < 0.9951).all()
        np.testing.assert_allclose(points, in_ball(vectors), rtol=1e-5, atol=1e-9)
        # A parent's tangent is log_0 of its point.
        np.testing.assert_allclose(log_0(in_ball(vectors)), vectors, rtol=1e-5, atol=1e-9)
    wanted = poincare.distance(in_ball(x)[:, None], in_ball(y)).numpy()
    found = BALL.similarity(torch.from_numpy(x), torch.from_numpy(y)).numpy()
    np.testing.assert_allclose(BALL.neutral_distance - found, wanted, rtol=1e-4, atol=1e-5)
    one, other = BALL.points(x), BALL.points(y)
    compiled = np.array([[ball_distance(a, b) for b in other] for a in one])
    np.testing.assert_allclose(compiled, wanted, rtol=2e-4)


def test_normalise_inverts_unnormalise():
    vectors = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
    vectors = (
        vectors / vectors.norm(dim=1, keepdim=True) * torch.linspace(0, 0.98 * RADIUS, 20)[:, None]
    )
    np.testing.assert_allclose(BALL.normalise(BALL.unnormalise(vectors)), vectors, rtol=1e-4)


@pytest.mark.parametrize("factor", [0.0, 1e-20, 1.0, 1e6, 1e15])
def test_gradients_are_finite_at_the_centre_at_the_rim_and_for_equal_points(factor):
    rows = torch.randn(6, 5, generator=torch.Generator().manual_seed(1)) * factor
    rows.requires_grad_()
    similarity = BALL.similarity(BALL.normalise(rows), BALL.normalise(rows))
    (similarity.sum() + BALL.parent_distance(BALL.normalise(rows), rows).sum()).backward()
    assert torch.isfinite(similarity).all()
    assert torch.isfinite(rows.grad).all()


def normalised(rows, geometry):
    squares = (rows**2).sum(1, keepdims=True)
    if geometry == "euclidean":
        return rows / np.sqrt(squares)
    return rows / np.sqrt(1 + squares / RADIUS**2)


def node_probabilities(model, X):
    """Return p of every node, computed from the trained weights in float64."""
    nodes, layout, vectors = model.nodes_, model.layout_, model.vectors_
    h = X.toarray().astype(np.float64) @ model.encoder_.trunk.input_layer.weight
    scale, bias = model.scale_.detach().numpy(), model.bias_.detach().numpy()
    p, tangents = np.ones((X.shape[0], len(nodes))), {}
    for node in range(1, len(nodes)):
        space, parent = int(layout.space[node]), int(nodes.main_parent[node])
        row = vectors.offsets[space].weight[layout.row[node]].astype(np.float64)
        if parent > 0:
            pair = (int(layout.space[parent]), space)
            P = vectors.level_projections[pair].detach().numpy().astype(np.float64)
            place = np.searchsorted(vectors.projected_nodes[pair], parent)
            into, out = np.split(vectors.node_projections[pair].weight[place], [RANK * P.shape[0]])
            P = P + into.reshape(RANK, -1).T.astype(np.float64) @ out.reshape(RANK, -1)
            row = row + tangents[parent] @ P
        tangents[node] = e = normalised(row[None], model.geometry)[0]
        z = normalised(h @ model.encoder_.heads[space].detach().numpy(), model.geometry)
        near = z @ e
        if model.geometry == "hyperbolic":  # in Lorentz coordinates, unlike the code
            a, b = np.linalg.norm(z, axis=1), np.linalg.norm(e)
            cosines = near / (a * b)
            cosh = np.cosh(2 * a) * np.cosh(2 * b) - np.sinh(2 * a) * np.sinh(2 * b) * cosines
            near = BALL.neutral_distance - np.arccosh(cosh)
        logits = scale[space] * near + bias[node]
        p[:, node] = p[:, parent] / (1 + np.exp(-logits))
    return p


@EITHER
def test_search_ranks_by_the_probabilities_of_the_weights(geometry):
    X, Y, taxonomy = paths()
    model = TreeSpace(**SMALL, geometry=geometry, projections="low-rank", epochs=4)
    model.fit(X, Y, taxonomy=taxonomy)
    index, queries = model.blend_.index, model.encoder_.encode(X[:30])[1]
    p = node_probabilities(model, X[:30])
    labels, scores, _ = index.rank(queries, Y.shape[1], exact=True)
    wanted = np.take_along_axis(p, index.node_of[labels], axis=1)
    np.testing.assert_allclose(scores, np.clip(wanted, 1e-9, 1 - 1e-6), rtol=1e-3)
    children, parents = model.nodes_.edges.T
    by_label = np.zeros((30, Y.shape[1]))
    np.put_along_axis(by_label, labels, scores, axis=1)
    inner = parents > 0
    lower, upper = model.nodes_.label[children[inner]], model.nodes_.label[parents[inner]]
    assert (by_label[:, lower] <= by_label[:, upper]).all()  # at most as probable as its parent


@EITHER
def test_a_beam_of_all_nodes_and_single_examples_give_the_same_ranking(geometry):
    X, Y, taxonomy = paths(80)
    model = TreeSpace(**SMALL, geometry=geometry, epochs=2).fit(X, Y, taxonomy=taxonomy)
    queries = model.encoder_.encode(X)[1]
    exact = model.blend_.index.rank(queries, 5, exact=True)
    parts = (model.nodes_, model.layout_, model.vectors_.final())
    numbers = (model.scale_.detach().numpy(), model.bias_.detach().numpy(), Y.shape[1])
    wide = TreeIndex.build(*parts, *numbers, len(model.nodes_), GEOMETRIES[geometry])
    for found in (wide.rank(queries, 5), model.blend_.index.rank(queries, 5)):
        assert np.array_equal(found[0], exact[0])
        assert np.array_equal(found[1], exact[1])
    whole = model.predict(X[:20], 5)
    for row in range(20):
        alone = model.predict(X[row], 5)
        assert np.array_equal(alone.labels[0], whole.labels[row])
        assert np.array_equal(alone.scores[0], whole.scores[row])


@EITHER
def test_a_tree_is_fitted_and_restored_from_its_state(geometry):
    X, Y, taxonomy = paths(500)
    model = TreeSpace(**SMALL, geometry=geometry).fit(X[:400], Y[:400], taxonomy=taxonomy)
    found = model.predict(X[400:], 3)
    hits = Y[np.arange(400, 500)[:, None], found.labels].mean()
    common = MostCommon().fit(X[:400], Y[:400]).predict(X[400:], 3)
    assert hits > 0.8 > 2 * Y[np.arange(400, 500)[:, None], common.labels].mean()
    again = restored(model).predict(X[400:], 3)
    assert np.array_equal(again.labels, found.labels)
    assert np.array_equal(again.scores, found.scores)
    assert all(np.isfinite(array).all() for array in model.state().values())


def test_training_in_the_ball_stays_finite_for_any_scale_of_the_inputs():
    X, Y, taxonomy = paths(60)
    for factor in (1e-8, 1e8):
        scaled = csr_matrix(
            X.multiply(np.where(np.arange(60) % 2, factor, 0.0)[:, None]), dtype=np.float32
        )
        model = TreeSpace(**SMALL, geometry="hyperbolic", epochs=2, lr=0.5, scale=100.0)
        model.fit(scaled, Y, taxonomy=taxonomy)
        assert all(np.isfinite(entry["loss"]) for entry in model.history_)
        points = model.blend_.index.flat
        assert np.isfinite(points).all()
        assert np.isfinite(model.predict(scaled, 3).scores).all()
