"""Label trees as arrays: every view of them against walks written another way."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelspace.data.taxonomy import Taxonomy
from labelspace.errors import InputError
from labelspace.labels.tree import LabelTree, taxonomy_tree


def random_parents(rng, n):
    """Draw parents of nodes in an order that is neither by level nor by parent."""
    parent = np.array([-1, *(rng.integers(0, node) for node in range(1, n))])
    shuffled = rng.permutation(n)
    mixed = np.empty(n, np.int64)
    mixed[shuffled] = np.where(parent < 0, -1, shuffled[parent])
    return mixed


@st.composite
def trees(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    parent = random_parents(rng, draw(st.integers(1, 40)))
    label = np.full(len(parent), -1)
    carrying = rng.permutation(len(parent))[: rng.integers(0, len(parent) + 1)]
    label[carrying] = rng.permutation(len(carrying) + 3)[: len(carrying)]
    return LabelTree.from_parents(parent, label, len(carrying) + 3)


def below(tree, node):
    """Return the nodes of a subtree, depth first, by plain recursion."""
    found = [node]
    for child in np.flatnonzero(tree.parent == node):
        found += below(tree, int(child))
    return found


@settings(max_examples=60, deadline=None)
@given(trees())
def test_every_view_agrees_with_recursion(tree):
    assert tree.parent[0] == -1
    assert (tree.parent[1:] < np.arange(1, len(tree))).all()
    assert (np.diff(tree.parent[1:]) >= 0).all()  # level by level, siblings together
    assert tree.depth_first.tolist() == below(tree, 0)
    for node in range(len(tree)):
        inside = below(tree, node)
        assert list(tree.children(node)) == np.flatnonzero(tree.parent == node).tolist()
        assert tree.is_leaf[node] == (len(inside) == 1)
        labels = [tree.label[n] for n in inside if tree.label[n] >= 0]
        assert tree.labels_below(node).tolist() == labels
        assert tree.label_counts[node] == len(labels)
        path = tree.path(node)
        assert path[0] == 0
        assert path[-1] == node
        assert all(tree.parent[b] == a for a, b in pairwise(path))
        assert tree.depth[node] == len(path) - 1
        assert tree.levels[tree.depth[node]] <= node < tree.levels[tree.depth[node] + 1]
    for label, node in enumerate(tree.node_of):
        assert (tree.label == label).sum() == (node >= 0)
        assert node < 0 or tree.label[node] == label


@settings(max_examples=60, deadline=None)
@given(trees())
def test_labels_move_to_leaves_below_their_node(tree):
    moved = tree.with_labels_on_leaves()
    assert moved.is_leaf[moved.label >= 0].all()
    assert sorted(moved.label_order) == sorted(tree.label_order)
    sets = {frozenset(tree.labels_below(node).tolist()) for node in range(len(tree))}
    assert sets <= {frozenset(moved.labels_below(node).tolist()) for node in range(len(moved))}


@settings(max_examples=60, deadline=None)
@given(trees(), st.integers(1, 6))
def test_collapsed_trees_keep_large_clusters_and_flatten_small_ones(tree, most):
    flat = tree.collapsed(most)
    assert sorted(flat.label_order) == sorted(tree.label_order)

    def clusters(of):
        found = (of.labels_below(node) for node in range(len(of)))
        return {frozenset(labels.tolist()) for labels in found if len(labels) > most}

    assert clusters(flat) == clusters(tree)
    for node in range(1, len(flat)):
        assert flat.label_counts[node] > 0
        if flat.label_counts[flat.parent[node]] <= most:
            assert flat.is_leaf[node]
            assert flat.label[node] >= 0


@settings(max_examples=60, deadline=None)
@given(trees(), st.integers(2, 6))
def test_widened_trees_keep_some_clusters_and_are_as_wide_as_they_may_be(tree, fanout):
    wide = tree.trimmed().with_labels_on_leaves().widened(fanout)
    narrow = tree.trimmed().with_labels_on_leaves()
    sets = {frozenset(narrow.labels_below(node).tolist()) for node in range(len(narrow))}
    assert {frozenset(wide.labels_below(node).tolist()) for node in range(len(wide))} <= sets
    assert sorted(wide.label_order) == sorted(narrow.label_order)
    widths = np.diff(wide.first_child)
    assert widths.max() <= max(fanout, np.diff(narrow.first_child).max())
    for node in range(1, len(wide)):
        assert widths[node] == 0 or widths[wide.parent[node]] + widths[node] - 1 > fanout


def test_a_widened_chain_is_shallower_by_the_fanout():
    n = 60
    chain = LabelTree.from_parents(np.arange(-1, n - 1), np.arange(n), n).with_labels_on_leaves()
    assert chain.depth.max() == n - 1
    assert chain.widened(4).depth.max() == 20


def test_trimmed_trees_lose_what_carries_no_label():
    tree = LabelTree.from_parents(np.array([-1, 0, 0, 1, 2]), np.array([-1, -1, -1, 1, -1]), 3)
    trimmed = tree.trimmed()
    assert trimmed.parent.tolist() == [-1, 0, 1]
    assert trimmed.label.tolist() == [-1, -1, 1]


@settings(max_examples=20, deadline=None)
@given(trees())
def test_there_and_back_by_arrays(tree):
    again = LabelTree.from_arrays(tree.arrays())
    assert np.array_equal(again.parent, tree.parent)
    assert np.array_equal(again.label, tree.label)
    assert again.n_labels == tree.n_labels


def test_a_chain_of_five_thousand_nodes():
    n = 5000
    tree = LabelTree.from_parents(np.arange(-1, n - 1), np.arange(n), n)
    assert tree.depth[-1] == n - 1
    assert len(tree.levels) == n + 1
    assert tree.labels_below(n - 3).tolist() == [n - 3, n - 2, n - 1]
    assert len(tree.path(n - 1)) == n
    assert len(tree.with_labels_on_leaves()) == 2 * n - 1
    assert tree.collapsed(10).depth.max() == n - 9  # ten leaves below the node of depth n - 10


@pytest.mark.parametrize(
    ("parent", "label", "message"),
    [
        ([-1, -1], [-1, 0], "one root"),
        ([1, 0], [-1, 0], "one root"),
        ([-1, 2, 1], [-1, 0, 1], "cycle"),
        ([-1, 7], [-1, 0], "2 nodes"),
        ([-1, 0, 0], [-1, 0, 0], "one node only"),
        ([-1, 0], [-1, 5], "one node only"),
    ],
)
def test_what_is_no_tree_is_refused(parent, label, message):
    with pytest.raises(InputError, match=message):
        LabelTree.from_parents(np.array(parent), np.array(label), 2)


def test_a_taxonomy_with_two_parents_keeps_the_deepest():
    pairs = [("cat", "pet"), ("cat", "feline"), ("feline", "animal"), ("pet", "thing")]
    taxonomy = Taxonomy.from_names(
        [*pairs, ("animal", "thing"), ("dog", "pet")], ["cat", "dog", "animal"]
    )
    tree, nodes = taxonomy_tree(taxonomy)
    names = ["(root)" if n < 0 else taxonomy.node_names[n] for n in nodes]
    path = [names[node] for node in tree.path(int(tree.node_of[0]))]
    assert path == ["(root)", "thing", "animal", "feline", "cat"]
    assert [names[node] for node in tree.path(int(tree.node_of[1]))][2:] == ["pet", "dog"]
    assert len(tree) == len(taxonomy) + 1
    assert tree.labels_below(names.index("animal")).tolist() == [2, 0]
