"""Trees over labels: by shared examples, by where examples lie, by a taxonomy, or by chance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.sparse import rows_of, unit_rows
from labelspace.errors import InputError, ParameterError
from labelspace.labels.agglomerative import agglomerate
from labelspace.labels.balanced import label_centroids, split_balanced
from labelspace.labels.graph import cooccurrence_graph
from labelspace.labels.tree import LabelTree, taxonomy_forest

if TYPE_CHECKING:
    from labelspace.data.taxonomy import Taxonomy

TreeKind = Literal["kmeans", "complete", "iou", "average", "taxonomy", "random"]
TREE_KINDS: tuple[str, ...] = get_args(TreeKind)
Join = Literal["centroids", "order"]
JOINS: tuple[str, ...] = get_args(Join)


def build_tree(
    kind: TreeKind,
    X: csr_matrix,
    Y: csr_matrix,
    *,
    fanout: int = 2,
    leaf_size: int = 100,
    seed: int = 0,
    taxonomy: Taxonomy | None = None,
    join: Join = "centroids",
) -> LabelTree:
    """Build a tree whose leaves are the labels that have examples; other labels are on no node.

    Labels that share no example cannot be compared by link clustering: the clusters that it leaves
    are joined by `join`, the roots of a taxonomy by balanced splits of their centroids.

    Parameters
    ----------
    kind : {"kmeans", "complete", "iou", "average", "taxonomy", "random"}
        "kmeans": balanced splits of the labels' centroids. "complete": complete linkage on the
        number of examples that two labels share (Srinivasan et al., section 4.1). "iou": complete
        linkage on the Jaccard index of their examples. "average": average linkage on the Jaccard
        index, since by plain counts all labels would join the most frequent one in turn.
        "taxonomy": the given taxonomy, with labels of inner nodes on leaves of their own.
        "random": balanced splits at random.
    X : csr_matrix of shape (examples, features)
    Y : csr_matrix of shape (examples, labels)
    fanout : int
        Parts per balanced split. Linkage merges two clusters at a time; its trees are widened to
        this number (see `LabelTree.widened`).
    leaf_size : int
        A part of at most this many labels is not split further: they are its leaves. With 2 and
        a fanout of 2, trees are binary, as in the paper.
    seed : int
    taxonomy : Taxonomy, optional
        Needed for "taxonomy".
    join : {"centroids", "order"}
        How clusters that link clustering leaves are joined: by balanced splits of their centroids,
        or one after another by their last labels, as dense link clustering does where all
        distances are equal.

    Raises
    ------
    ParameterError
        If the kind is unknown.
    InputError
        If the taxonomy is missing or has another number of labels than Y.
    """
    if kind not in TREE_KINDS:
        raise ParameterError(f"kind={kind!r}: expected one of {', '.join(TREE_KINDS)}")
    centroids = label_centroids(X, Y)
    tree = _below_one_root(*_forest(kind, Y, taxonomy, seed), Y.shape[1]).trimmed()
    if kind in ("kmeans", "random", "taxonomy"):
        tree = tree.with_labels_on_leaves()
        return _joined(tree, centroids, fanout, leaf_size, seed, at_random=kind == "random")
    joined = _chained(tree) if join == "order" else _joined(tree, centroids, 2, 2, seed)
    return joined.collapsed(leaf_size).widened(fanout)


def _forest(
    kind: TreeKind, Y: csr_matrix, taxonomy: Taxonomy | None, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return (parent, label) of the nodes before roots are joined; unused labels are -1."""
    used = np.bincount(Y.indices, minlength=Y.shape[1]) > 0
    own = np.where(used, np.arange(Y.shape[1]), -1)
    if kind in ("kmeans", "random"):
        return np.full(Y.shape[1], -1), own
    if kind == "taxonomy":
        if taxonomy is None:
            raise InputError("tree='taxonomy' needs a taxonomy: none came with the data")
        if taxonomy.n_labels != Y.shape[1]:
            raise InputError(
                f"the taxonomy is about {taxonomy.n_labels} labels and Y has {Y.shape[1]}"
            )
        parent, label = taxonomy_forest(taxonomy)
        return parent, np.concatenate([own, label[Y.shape[1] :]])
    similarity = cooccurrence_graph(Y, weights="jaccard", seed=seed)
    if kind == "complete":
        similarity.data = _shared_examples(similarity, Y)
    parent = agglomerate(similarity, "average" if kind == "average" else "complete")
    return parent, np.concatenate([own, np.full(len(parent) - len(own), -1)])


def _shared_examples(jaccard: csr_matrix, Y: csr_matrix) -> np.ndarray:
    """Return the number of examples that two labels share, computed from their Jaccard index."""
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    row_of = rows_of(jaccard)
    either = counts[row_of] + counts[jaccard.indices]
    share = jaccard.data.astype(np.float64)
    return np.asarray(np.maximum(np.rint(either * share / (1.0 + share)), 1.0))


def _below_one_root(parent: np.ndarray, label: np.ndarray, n_labels: int) -> LabelTree:
    return LabelTree.from_parents(
        np.concatenate([[-1], parent + 1]), np.concatenate([[-1], label]), n_labels
    )


def _joined(
    tree: LabelTree,
    centroids: csr_matrix,
    fanout: int,
    most: int,
    seed: int,
    at_random: bool = False,
) -> LabelTree:
    """Return the tree with balanced splits between the root and its children, if these are many."""
    top = np.array(tree.children(0))
    if len(top) <= most:
        return tree
    members = np.concatenate([[0], tree.label_counts[top].cumsum()])
    ones = np.ones(len(tree.label_order), np.float32)
    # The labels of siblings are adjacent in depth-first order, as the siblings are.
    sums = csr_matrix((ones, tree.label_order, members), shape=(len(top), tree.n_labels))
    vectors = unit_rows(sums @ centroids)
    above, part_of = split_balanced(
        vectors, fanout=fanout, most=most, seed=seed, at_random=at_random
    )
    # Part 0 is the root; the others are numbered on behind the tree's nodes.
    number = np.concatenate([[0], len(tree) + np.arange(len(above) - 1)])
    parent = tree.parent.astype(np.int64)
    parent[top] = number[part_of]
    parent = np.concatenate([parent, number[above[1:]]])
    label = np.concatenate([tree.label, np.full(len(above) - 1, -1)])
    return LabelTree.from_parents(parent, label, tree.n_labels)


def _chained(tree: LabelTree) -> LabelTree:
    """Return the tree with the root's children merged two at a time, in order of their last label.

    The order is that of nearest-neighbour chains (scipy's `linkage`): a merged cluster takes the
    place of its last member, and of equal distances the first one is taken.
    """
    top = np.array(tree.children(0))
    if len(top) <= 2:
        return tree
    last = np.maximum.reduceat(tree.label_order, tree.label_ranges[top, 0])
    ordered = top[np.argsort(last)]
    # Nodes of the chain: the root, then from the top downwards, numbered behind the tree's nodes.
    chain = np.concatenate([[0], len(tree) + np.arange(len(top) - 2)])
    parent = tree.parent.astype(np.int64)
    parent[ordered[:0:-1]] = chain  # the last one is a child of the root
    parent[ordered[0]] = chain[-1]
    parent = np.concatenate([parent, chain[:-1]])
    label = np.concatenate([tree.label, np.full(len(chain) - 1, -1)])
    return LabelTree.from_parents(parent, label, tree.n_labels)
