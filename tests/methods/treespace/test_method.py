"""TreeSpace: nodes, the loss term by term, search against scoring all nodes, predictions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from labelspace.data.taxonomy import Taxonomy, label_ancestors
from labelspace.errors import InputError, ParameterError
from labelspace.methods.treespace.geometry import GEOMETRIES, RADIUS
from labelspace.methods.treespace.method import TreeSpace
from labelspace.methods.treespace.nodes import Nodes
from labelspace.methods.treespace.objective import TreeObjective
from labelspace.methods.treespace.search import TreeIndex, Votes, with_ancestors
from labelspace.methods.treespace.vectors import RANK, Layout, TreeVectors
from labelspace.metrics.ranking import evaluate
from labelspace.nn import poincare
from labelspace.nn.trainer import Batch
from support.fitted import restored

EUCLIDEAN = GEOMETRIES["euclidean"]
SMALL = {"dim": 24, "top_dim": 12, "width": 24, "n_negatives": 50}


def catalogue(n=240, seed=0):
    """Products with a path of up to three levels and a brand; each label has a word of its own."""
    rng = np.random.default_rng(seed)
    names = [f"{a}" for a in range(3)]
    names += [f"{a}>{b}" for a in range(3) for b in range(3)]
    names += [f"{a}>{b}>{c}" for a in range(3) for b in range(3) for c in range(2)]
    names += [f"brand: {x}" for x in range(5)]
    place = {name: i for i, name in enumerate(names)}
    pairs = [(name, name.rpartition(">")[0]) for name in names if ">" in name]
    Y, X = np.zeros((n, len(names)), np.float32), np.zeros((n, len(names) + 10), np.float32)
    for row in range(n):
        a, b, c, x = rng.integers((3, 3, 2, 5))
        path = [f"{a}", f"{a}>{b}", f"{a}>{b}>{c}"][: rng.integers(1, 4)]
        for name in [*path, f"brand: {x}"]:
            Y[row, place[name]] = X[row, place[name]] = 1
    X[:, -10:] = rng.random((n, 10)) < 0.2
    return csr_matrix(X), csr_matrix(Y), Taxonomy.from_names(pairs, names)


def random_index(seed, geometry="euclidean", n=40, dims=(3, 5)):
    """Return an index of random vectors; nodes may have two parents, a third have no label."""
    rng = np.random.default_rng(seed)
    edges = [(child, rng.integers(0, child)) for child in range(1, n)]
    edges += [(child, rng.integers(0, child)) for child in range(2, n, 3)]
    label = np.where(rng.random(n) < 0.3, -1, np.arange(n))
    label[0] = -1
    nodes = Nodes._sorted(np.array(edges), label, np.zeros(n, bool))
    layout = Layout.of(nodes, dims[-1], dims[0], len(dims))
    sizes = np.bincount(layout.space[1:], minlength=len(layout.dims))
    vectors = [rng.standard_normal((m, d)) for m, d in zip(sizes, layout.dims, strict=True)]
    scale, bias = np.array([1.5, 0.7]), rng.standard_normal(n).astype(np.float32)
    kind = GEOMETRIES[geometry]
    vectors = [kind.normalise_array(rows) for rows in vectors]
    index = TreeIndex.build(nodes, layout, vectors, scale, bias, n, 0, kind)
    queries = rng.standard_normal((12, sum(layout.dims))).astype(np.float32)
    parts = np.split(queries, layout.starts[1:-1], axis=1)
    return index, np.hstack([kind.points(kind.normalise_array(part)) for part in parts])


def node_logit(index, query, node):
    vector = index.flat[index.starts[node] : index.starts[node + 1]].astype(np.float64)
    part = query[index.part[node] :][: len(vector)].astype(np.float64)
    if not len(index.slope):
        return vector @ part + index.bias[node]
    gaps = (1 - vector @ vector) * (1 - part @ part)
    distance = np.arccosh(1 + 2 * np.sum((vector - part) ** 2) / gaps)
    return index.bias[node] - index.slope[node] * distance


def node_probabilities(index, query):
    """Return p of every node, by the definition."""
    p = {0: 1.0}
    for node in range(1, len(index.nodes)):
        logit = node_logit(index, query, node)
        parents = index.nodes.edges[index.nodes.edges[:, 0] == node, 1]
        p[node] = max(p[parent] for parent in parents.tolist()) / (1 + np.exp(-logit))
    return p


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 45), st.sampled_from(list(GEOMETRIES)))
def test_best_first_search_is_exact(seed, k, geometry):
    index, queries = random_index(seed, geometry)
    found, reference = index.rank(queries, k), index.rank(queries, k, exact=True)
    assert np.array_equal(found[0], reference[0])
    assert np.array_equal(found[1], reference[1])
    p = node_probabilities(index, queries[0])
    for label, score in zip(found[0][0], found[1][0], strict=True):
        if label >= 0:
            wanted = np.clip(p[int(index.node_of[label])], 1e-9, 1 - 1e-6)
            assert score == pytest.approx(wanted, rel=1e-4)


def test_search_expands_few_nodes_and_no_more_than_the_beam():
    rng = np.random.default_rng(3)
    edges = [(child, (child - 1) // 10) for child in range(1, 1111)]
    label = np.where(np.arange(1111) > 110, np.arange(1111), -1)
    nodes = Nodes._sorted(np.array(edges), label, np.zeros(1111, bool))
    layout = Layout.of(nodes, 8, 8, 3)
    vectors = [rng.standard_normal((m, 8)) for m in np.bincount(layout.space[1:])]
    scale, bias = np.full(3, 3.0), np.full(1111, -2.0, np.float32)
    queries = rng.standard_normal((20, 24)).astype(np.float32)
    index = TreeIndex.build(nodes, layout, vectors, scale, bias, 1111, 0, EUCLIDEAN)
    assert (index.rank(queries, 3)[2] < 600).all()
    beam = TreeIndex.build(nodes, layout, vectors, scale, bias, 1111, 4, EUCLIDEAN)
    assert (beam.rank(queries, 3)[2] <= 40).all()


def test_votes_are_blended_with_the_tree():
    index, queries = random_index(5)
    Y = csr_matrix(np.eye(40)[[7, 8, 8]] + np.eye(40)[[9, 9, 11]])
    near = np.array([[0, 1, -1]] * len(queries)), np.array([[0.9, 0.8, 0.0]] * len(queries))
    votes = Votes(near[0], near[1].astype(np.float32), Y.indptr, Y.indices)
    numbers = np.array([0.8, 0.1, 0.4, 1.2, -0.3])
    labels, scores, _ = index.rank(queries, 40, votes, numbers)
    weights = np.exp(20 * (np.float32([0.9, 0.8]) - np.float32(0.9)))
    shares = (weights / weights.sum()) @ Y[:2].toarray()
    p = node_probabilities(index, queries[2])
    for label, score in zip(labels[2], scores[2], strict=True):
        if label < 0:
            continue
        own = np.clip(p[int(index.node_of[label])], 1e-9, 1 - 1e-6)
        own = 1 / (1 + np.exp(-(0.8 * np.log(own / (1 - own)) + 0.1)))
        odds = 0.6 * own + 0.4 * shares[label]
        assert score == pytest.approx(
            1 / (1 + np.exp(-(1.2 * np.log(odds / (1 - odds)) - 0.3))), rel=1e-3
        )
    few = index.rank(queries, 3, votes, numbers)
    assert np.array_equal(few[0], labels[:, :3])  # labels with votes may rank below 3 by the tree


def test_nodes_with_two_parents_labels_outside_and_labels_without_their_ancestors():
    names = ["top", "a", "b", "both", "brand: x", "never"]
    pairs = [("a", "top"), ("b", "top"), ("both", "a"), ("both", "b"), ("never", "a")]
    Y = csr_matrix([[1, 1, 0, 1, 1, 0], [1, 0, 1, 1, 0, 0], [1, 0, 1, 0, 0, 0]])  # both without a
    nodes = Nodes.build(Y, Y, Taxonomy.from_names(pairs, names), 0)
    above = nodes.indicator(Y)
    by_label = {int(label): node for node, label in enumerate(nodes.label) if label >= 0}
    assert set(by_label) == {0, 1, 2, 3, 4}
    assert nodes.main_parent[by_label[1]] != by_label[0]  # label a is on a leaf below its node
    assert nodes.depth[by_label[3]] == 3
    assert len(nodes.parents[by_label[3]].indices) == 2
    assert nodes.outside[by_label[4]]
    assert nodes.main_parent[nodes.main_parent[by_label[4]]] == 0
    assert (nodes.main_parent[1:] < np.arange(1, len(nodes))).all()
    assert np.array_equal(
        above[:, list(by_label.values())].toarray(), Y[:, list(by_label)].toarray()
    )
    with pytest.raises(InputError, match="6 labels"):
        Nodes.build(Y, Y[:, :5], Taxonomy.from_names(pairs, names), 0)


@pytest.mark.parametrize("geometry", list(GEOMETRIES))
@pytest.mark.parametrize("kind", ["node", "low-rank", "shared"])
def test_nodes_have_the_vectors_that_were_set(kind, geometry):
    rng = np.random.default_rng(1)
    X, Y, taxonomy = catalogue()
    nodes = Nodes.build(X, Y, taxonomy, 0)
    layout = Layout.of(nodes, 10, 6, 2)
    assert layout.dims == (6, 10, 10)  # the last space is that of the brands
    vectors = TreeVectors.fresh(nodes, layout, kind, GEOMETRIES[geometry], rng)
    points = [
        rng.standard_normal(table.weight.shape).astype(np.float32) for table in vectors.offsets
    ]
    points = [part / np.linalg.norm(part, axis=1, keepdims=True) for part in points]
    vectors.set_vectors(points)
    for found, wanted in zip(vectors.final(), points, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-5)


def parent_distance(vector, projected, geometry):
    """Return the distance of a node to the projection of its parent."""
    if geometry == "euclidean":
        return 1 - vector @ projected / np.linalg.norm(projected)
    length = np.sqrt(1 + projected @ projected / RADIUS**2)
    tangent = torch.from_numpy(projected / length).double()
    zero = torch.zeros_like(tangent)
    node = poincare.exponential(zero, torch.from_numpy(vector).double())
    return float(poincare.distance(node, poincare.exponential(zero, tangent)))


def node_projections(model, scored):
    """Return the mean square of the projections of nodes, matrix by matrix."""
    vectors, dims, total = model.vectors_, model.layout_.dims, 0.0
    for (a, b), table in vectors.node_projections.items():
        children = [node for node in scored if model.layout_.space[node] == b]
        parents = {int(model.nodes_.main_parent[node]) for node in children}
        parents = [p for p in parents if p > 0 and model.layout_.space[p] == a]
        squares = []
        for row in table.weight[np.searchsorted(vectors.projected_nodes[a, b], parents)]:
            if vectors.kind == "node":
                matrix = row.reshape(dims[a], dims[b])
            else:
                into, out = row[: RANK * dims[a]], row[RANK * dims[a] :]
                matrix = into.reshape(RANK, dims[a]).T @ out.reshape(RANK, dims[b])
            squares.append((matrix**2).mean())
        total += np.mean(squares)
    return total


@pytest.mark.parametrize(
    ("kind", "geometry"),
    [
        ("low-rank", "euclidean"),
        ("shared", "euclidean"),
        ("node", "euclidean"),
        ("low-rank", "hyperbolic"),
        ("node", "hyperbolic"),
    ],
)
def test_the_loss_term_by_term(kind, geometry):
    X, Y, taxonomy = catalogue(60)
    model = TreeSpace(
        **SMALL, epochs=1, keep=1.0, geometry=geometry, projections=kind, level_weight=0.7,
        consistency=0.3, regularisation=0.2, validation=0.0, neighbours=0,
    ).fit(X, Y, taxonomy=taxonomy)  # fmt: skip
    above = model.nodes_.indicator(Y)
    batch = Batch(np.arange(9), np.random.default_rng(0))
    found = float(TreeObjective(model, X, above)(batch).detach())
    index, queries = model.blend_.index, model.encoder_.encode(X[:9])[1]
    nodes, layout, total = model.nodes_, model.layout_, 0.0
    scored = set()
    for row in range(9):
        for parent in above[row].indices.tolist():
            for node in nodes.children[parent].indices.tolist():
                logit = node_logit(index, queries[row], node)
                sign = 1 if above[row, node] else -1
                total += 0.7 ** layout.space[node] * np.log1p(np.exp(-sign * logit)) / 9
                scored.add(node)
    final, distance, below = model.vectors_.final(), 0.0, 0
    steps = model.vectors_.steps(np.array(sorted(scored)))
    _, expected, offsets, _ = model.vectors_.batch(steps)
    for step, guess in zip(steps, expected, strict=True):
        if guess is None:
            continue
        for node, wanted in zip(step.nodes, guess.detach().numpy(), strict=True):
            vector = final[layout.space[node]][layout.row[node]]
            distance += parent_distance(vector, wanted, geometry)
            below += 1
    total += 0.3 * distance / below
    total += (
        0.2
        * sum(float((part.detach() ** 2).sum()) for part in offsets)
        / sum(len(part) for part in offsets)
    )
    total += 0.2 * sum(
        float((P.detach() ** 2).mean()) for P in model.vectors_.level_projections.values()
    )
    total += 0.2 * node_projections(model, scored)
    assert found == pytest.approx(total, rel=1e-4)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"projections": "node"},
        {"projections": "shared", "consistency": 0.0, "regularisation": 0.0},
        {"top_dim": 24, "level_weight": 0.5},
        {"n_negatives": 2, "neighbours": 0},
        {"beam": 6},
        {"geometry": "hyperbolic"},
        {"geometry": "hyperbolic", "projections": "node", "neighbours": 0},
    ],
)
def test_a_catalogue_is_fitted(change):
    X, Y, taxonomy = catalogue(300)
    model = TreeSpace(**{**SMALL, **change}).fit(X[:240], Y[:240], taxonomy=taxonomy)
    found = evaluate(model.predict(X[240:], 5), Y[240:], Y[:240], bands=False)
    assert found["P@1"] > 95
    assert found["nDCG@5"] > 85


def test_without_a_taxonomy_the_tree_is_clustered():
    X, Y, _ = catalogue(300)
    model = TreeSpace(**SMALL).fit(X[:240], Y[:240])
    assert evaluate(model.predict(X[240:], 5), Y[240:], Y[:240], bands=False)["P@1"] > 90


def test_consistent_rankings_have_ancestors_before_labels():
    """Examples lack the labels of inner nodes, so these labels are on leaves."""
    X, Y, taxonomy = catalogue(200)
    alone = Y.toarray()
    alone[:, :12] = 0.0
    alone[:40, 0] = 1.0
    Y = csr_matrix(alone)
    model = TreeSpace(**SMALL, consistent=True).fit(X, Y, taxonomy=taxonomy)
    ranking = model.predict(X, 6)
    parent = dict(taxonomy.edges.tolist())
    for labels, scores in zip(ranking.labels.tolist(), ranking.scores, strict=True):
        assert (np.diff(scores) <= 0).all()
        for place, label in enumerate(labels):
            assert label < 0 or label not in parent or parent[label] in labels[:place]


def test_with_ancestors_keeps_order_and_raises_scores():
    taxonomy = Taxonomy.from_names([("b", "a"), ("c", "b"), ("c", "d")], ["a", "b", "c", "d", "e"])
    above = label_ancestors(taxonomy, 5)
    labels, scores = np.array([[4, 2, 0, -1]]), np.array([[0.9, 0.5, 0.4, 0.0]], np.float32)
    closed, raised = with_ancestors(labels, scores, above.indptr, above.indices)
    assert closed.tolist() == [[4, 0, 3, 1]]
    assert raised[0].tolist() == pytest.approx([0.9, 0.5, 0.5, 0.5])


def test_a_tail_bias_ranks_labels_higher():
    index, queries = random_index(8)
    tail_bias = np.zeros(40, np.float32)
    neutral = index.rank(queries, 3)[0]
    assert np.array_equal(index.rank(queries, 3, tail_bias=tail_bias)[0], neutral)
    raised = int(index.rank(queries, 6)[0][0, 5])
    tail_bias[raised] = 50.0
    labels, scores, _ = index.rank(queries, 3, tail_bias=tail_bias)
    assert labels[0, 0] == raised
    assert (np.diff(scores, axis=1) <= 0).all()


def test_the_prediction_loss_may_be_0_but_not_all_losses():
    X, Y, taxonomy = catalogue(100)
    with pytest.raises(ParameterError, match="at least one weight"):
        TreeSpace(**SMALL, prediction=0, consistency=0, regularisation=0).fit(X, Y)
    model = TreeSpace(**SMALL, prediction=0.0, epochs=1, validation=0.0)
    assert len(model.fit(X, Y, taxonomy=taxonomy).history_) == 1


@pytest.mark.parametrize("geometry", list(GEOMETRIES))
def test_a_loaded_model_gives_the_same_bits(geometry):
    """Loops are compiled separately for read-only arrays, as those of a file are."""
    X, Y, taxonomy = catalogue(200)
    model = TreeSpace(**SMALL, geometry=geometry, linear_tree=False).fit(X, Y, taxonomy=taxonomy)
    kept = {name: np.array(array) for name, array in model.state().items()}
    for array in kept.values():
        array.setflags(write=False)
    loaded = restored(model, kept)
    for name in ("flat", "bias", "slope"):  # the compiler must see the same types
        assert not getattr(model.blend_.index, name).flags.writeable
    one, other = model.predict(X, 5), loaded.predict(X, 5)
    assert np.array_equal(one.labels, other.labels)
    assert np.array_equal(one.scores, other.scores)


def test_embed_is_the_shared_part_of_the_encoder():
    X, Y, taxonomy = catalogue(60)
    model = TreeSpace(**SMALL, epochs=1, linear_tree=False).fit(X, Y, taxonomy=taxonomy)
    assert np.array_equal(model.embed(X), model.encoder_.encode(X)[0])
