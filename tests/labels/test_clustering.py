"""Trees from data: link clustering against scipy, balanced splits by what they promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import linkage, to_tree
from scipy.sparse import csr_matrix
from scipy.spatial.distance import squareform

from labelspace.data.taxonomy import Taxonomy
from labelspace.errors import InputError, ParameterError
from labelspace.labels.agglomerative import agglomerate
from labelspace.labels.balanced import label_centroids, split_balanced
from labelspace.labels.clustering import TREE_KINDS, build_tree
from support.planted import planted


def clusters_of(parent, n):
    """Return the sets of original nodes below each merged cluster."""
    members = [{node} for node in range(n)] + [set() for _ in range(len(parent) - n)]
    for node, above in enumerate(parent):
        if above >= 0:
            members[above] |= members[node]
    return {frozenset(m) for m in members[n:]}


def clusters_by_scipy(similarity, link):
    """Return the same by dense linkage, without merges at similarity 0."""
    distance = similarity.max() - similarity
    np.fill_diagonal(distance, 0.0)
    merged = linkage(squareform(distance), link)
    _, nodes = to_tree(merged, rd=True)
    kept = [node for node in nodes if not node.is_leaf() and node.dist < similarity.max() - 1e-9]
    return {frozenset(node.pre_order()) for node in kept}


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 25), st.sampled_from(["complete", "average"]))
def test_link_clustering_is_scipys_where_similarities_differ(seed, n, link):
    rng = np.random.default_rng(seed)
    # Not on a grid, where means of different numbers may be equal.
    similarity = np.triu(rng.random((n, n)) + 0.01, 1)
    if link == "complete":  # a mean over zeros has no end at which scipy could be stopped
        similarity *= rng.random((n, n)) < 0.6
    similarity += similarity.T
    found = clusters_of(agglomerate(csr_matrix(similarity), link), n)
    assert found == clusters_by_scipy(similarity, link)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 15))
def test_clusters_that_share_nothing_are_joined_in_the_order_of_scipys_ties(seed, n):
    rng = np.random.default_rng(seed)
    pairs = rng.permutation([(i, j) for i in range(n) for j in range(i)])
    shared = pairs[: rng.integers(0, len(pairs) + 1)]
    # The k-th pair shares k examples, so that all distances but 0 differ.
    carried = [pair for times, pair in enumerate(shared, 1) for _ in range(times)]
    Y = np.zeros((len(carried) + n, n), np.float32)
    for row, pair in enumerate(carried):
        Y[row, pair] = 1
    Y[len(carried) :] = np.eye(n)
    X = csr_matrix(rng.random((len(Y), 4)).astype(np.float32))
    tree = build_tree("complete", X, csr_matrix(Y), leaf_size=2, join="order")
    counts = (Y.T @ Y)[np.triu_indices(n, 1)]
    merged = linkage(counts.max() - counts, "complete")
    _, nodes = to_tree(merged, rd=True)
    expected = {frozenset(node.pre_order()) for node in nodes if not node.is_leaf()}
    ranges = tree.label_ranges[~tree.is_leaf]
    assert {frozenset(tree.label_order[a:b].tolist()) for a, b in ranges} == expected


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["complete", "average"]))
def test_ties_and_gaps_leave_a_forest_of_what_is_alike(seed, link):
    rng = np.random.default_rng(seed)
    counts = np.triu(rng.integers(1, 4, (30, 30)) * (rng.random((30, 30)) < 0.1), 1)
    counts += counts.T
    parent = agglomerate(csr_matrix(counts.astype(np.float32)), link)
    assert np.array_equal(np.bincount(parent[parent >= 0], minlength=len(parent))[30:],
                          np.full(len(parent) - 30, 2))  # fmt: skip
    roots = np.flatnonzero(parent < 0)
    members = {int(root): {int(root)} for root in roots}
    for node in range(len(parent)):
        root = node
        while parent[root] >= 0:
            root = parent[root]
        members[int(root)].add(node)
    sets = [sorted(m & set(range(30))) for m in members.values()]
    assert sorted(node for one in sets for node in one) == list(range(30))
    for one in sets:
        inside = counts[np.ix_(one, one)]
        if link == "complete":
            assert (inside[~np.eye(len(one), dtype=bool)] > 0).all()
        for other in sets:
            between = counts[np.ix_(one, other)]
            if one is not other:
                assert (between.min() if link == "complete" else between.max()) == 0


def test_long_rows_that_must_be_moved_together():
    """A hub that merges with all others in turn writes more than the array holds."""
    n = 200
    similarity = np.zeros((n, n))
    similarity[0, 1:] = similarity[1:, 0] = np.arange(n - 1, 0, -1) * n
    similarity += np.triu(np.ones((n, n)), 1) + np.tril(np.ones((n, n)), -1)
    found = clusters_of(agglomerate(csr_matrix(similarity), "average"), n)
    assert found == clusters_by_scipy(similarity, "average")


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2**32), st.integers(1, 60), st.integers(2, 7), st.integers(1, 9), st.booleans()
)
def test_splits_are_balanced_and_small_enough(seed, n, fanout, most, at_random):
    rng = np.random.default_rng(seed)
    vectors = csr_matrix(rng.random((n, 12)) * (rng.random((n, 12)) < 0.4), dtype=np.float32)
    parent, part_of = split_balanced(
        vectors, fanout=fanout, most=most, seed=seed % 100, at_random=at_random
    )
    assert parent[0] == -1
    assert (parent[1:] < np.arange(1, len(parent))).all()
    assert np.bincount(parent[1:], minlength=len(parent)).max() <= fanout
    sizes = np.bincount(part_of, minlength=len(parent))
    inner = np.unique(parent[1:])
    assert (sizes[inner] == 0).all()
    ends = np.setdiff1d(np.arange(len(parent)), inner)
    assert (sizes[ends] <= most).all()
    whole = sizes.copy()
    for part in range(len(parent) - 1, 0, -1):
        whole[parent[part]] += whole[part]
    for part in inner:
        children = whole[parent == part]
        assert children.max() - children.min() <= np.ceil(np.log2(fanout))


def test_a_split_finds_two_directions():
    rng = np.random.default_rng(0)
    side = rng.permutation(np.repeat([0, 1], 20))
    vectors = np.where(side[:, None] == 0, [1, 1, 0, 0], [0, 0, 1, 1]) * rng.uniform(
        0.5, 1, (40, 4)
    )
    for seed in range(5):
        _, part_of = split_balanced(
            csr_matrix(vectors, dtype=np.float32), fanout=2, most=20, seed=seed
        )
        assert len(np.unique(part_of[side == 0])) == len(np.unique(part_of[side == 1])) == 1
        assert part_of[side == 0][0] != part_of[side == 1][0]


def test_centroids_are_sums_of_unit_examples():
    X, Y = planted()
    unit = X.toarray() / np.maximum(np.linalg.norm(X.toarray(), axis=1, keepdims=True), 1e-12)
    sums = Y.toarray().T @ unit
    expected = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
    np.testing.assert_allclose(label_centroids(X, Y).toarray(), expected, atol=1e-6)


TAXONOMY = Taxonomy.from_names(
    [("1", "0"), ("2", "0"), ("3", "1"), ("11", "9"), ("4", "things")], [str(n) for n in range(12)]
)


@pytest.mark.parametrize("kind", TREE_KINDS)
@pytest.mark.parametrize("size", [2, 4, 50])
def test_every_used_label_hangs_on_one_leaf(kind, size):
    X, Y = planted()
    tree = build_tree(kind, X, Y, fanout=3, leaf_size=size, taxonomy=TAXONOMY)
    assert sorted(tree.label_order) == list(range(11))  # no example carries the last
    assert (tree.label[tree.leaves] >= 0).all()
    assert (tree.label[~tree.is_leaf] < 0).all()
    if kind != "taxonomy":
        assert np.diff(tree.first_child).max() <= max(3, size)
    again = build_tree(kind, X, Y, fanout=3, leaf_size=size, taxonomy=TAXONOMY)
    assert np.array_equal(again.parent, tree.parent)
    assert np.array_equal(again.label, tree.label)


def test_the_taxonomy_is_the_tree():
    X, Y = planted()
    tree = build_tree("taxonomy", X, Y, leaf_size=20, taxonomy=TAXONOMY)
    sets = {frozenset(tree.labels_below(node).tolist()) for node in range(len(tree))}
    assert {frozenset({0, 1, 2, 3}), frozenset({1, 3}), frozenset({4})} <= sets
    with pytest.raises(InputError, match="needs a taxonomy"):
        build_tree("taxonomy", X, Y)
    with pytest.raises(InputError, match="12 labels and Y has 11"):
        build_tree("taxonomy", X, Y[:, :11], taxonomy=TAXONOMY)


def test_labels_that_always_come_together_are_siblings():
    rng = np.random.default_rng(1)
    pairs = rng.permutation(20).reshape(10, 2)
    drawn = rng.integers(0, 10, 300)
    Y = np.zeros((300, 20), np.float32)
    Y[np.arange(300)[:, None], pairs[drawn]] = 1
    Y[::7, pairs[0]] = 1  # a frequent pair that occurs with all others
    X = csr_matrix(rng.random((300, 8)), dtype=np.float32)
    for kind in ("complete", "iou", "average"):
        tree = build_tree(kind, X, csr_matrix(Y), leaf_size=2)
        sets = {frozenset(tree.labels_below(node).tolist()) for node in range(len(tree))}
        assert {frozenset(pair) for pair in pairs.tolist()} <= sets, kind


def test_no_label_at_all_and_one_alone():
    X = csr_matrix(np.eye(3, dtype=np.float32))
    for kind in ("kmeans", "complete", "average", "random"):
        assert len(build_tree(kind, X, csr_matrix((3, 4), dtype=np.float32))) == 1
        Y = csr_matrix(([1.0], ([0], [2])), shape=(3, 4), dtype=np.float32)
        tree = build_tree(kind, X, Y)
        assert tree.label_order.tolist() == [2]


def test_an_unknown_kind_is_named():
    with pytest.raises(ParameterError, match="kind='oak'"):
        build_tree("oak", *planted())
