"""The nodes that TreeSpace searches through: a taxonomy or a learned tree, as flat arrays.

Node 0 is a virtual root. A node may have several parents; it is reached through any of them, while
its vector is built on its deepest one. Labels that the taxonomy does not mention, such as brands
beside categories, hang under a node of their own below the root.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix, identity

from labelspace._core.checks import all_within, expect
from labelspace.data.taxonomy import Taxonomy, longest_depths
from labelspace.errors import InputError
from labelspace.labels.clustering import build_tree

MANY_SIBLINGS = 4096  # labels of one group above which they are clustered
FANOUT, LEAF_SIZE = 16, 64  # of clusters


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes by depth, the root first: parents have smaller numbers than their children.

    edges    (m, 2) int32 rows (child, parent), sorted, all but the root's children included
    label    (nodes,) int32 the label that a node carries, -1 where it carries none
    grouped  (nodes,) bool, True for labels outside of the taxonomy and for their clusters
    """

    edges: np.ndarray
    label: np.ndarray
    grouped: np.ndarray

    @classmethod
    def build(cls, X: csr_matrix, Y: csr_matrix, taxonomy: Taxonomy | None, seed: int) -> Nodes:
        """From a taxonomy over the columns of Y, or learned from the labels' centroids."""
        used = np.bincount(Y.indices, minlength=Y.shape[1]) > 0
        if taxonomy is None:
            edges, label = _learned(X, Y, np.flatnonzero(used), seed)
            return cls._sorted(edges, label, np.zeros(len(label), bool))
        if taxonomy.n_labels != Y.shape[1]:
            raise InputError(
                f"the taxonomy is about {taxonomy.n_labels} labels and Y has {Y.shape[1]}"
            )
        edges, label = _from_taxonomy(taxonomy, Y, used)
        in_taxonomy = np.isin(np.arange(Y.shape[1]), label)
        rest = np.flatnonzero(used & ~in_taxonomy)
        grouped = np.zeros(len(label), bool)
        if len(rest):
            below, names = _group(X, Y, rest, seed)
            below = np.where(below > 0, below + len(label) - 1, 0)  # both share the root
            edges, label = np.concatenate([edges, below]), np.concatenate([label, names[1:]])
            grouped = np.concatenate([grouped, np.ones(len(names) - 1, bool)])
        return cls._sorted(edges, label, grouped)

    @classmethod
    def _sorted(cls, edges: np.ndarray, label: np.ndarray, grouped: np.ndarray) -> Nodes:
        order = np.argsort(longest_depths(edges, len(label)), kind="stable")
        number = np.empty(len(order), np.int32)
        number[order] = np.arange(len(order), dtype=np.int32)
        rows = np.unique(number[edges].astype(np.int32).reshape(-1, 2), axis=0)
        return cls(rows, label[order].astype(np.int32), grouped[order])

    def __len__(self) -> int:
        return len(self.label)

    @cached_property
    def up(self) -> csr_matrix:
        """(nodes, nodes) a one where the column is a parent of the row."""
        ones = np.ones(len(self.edges), np.float32)
        return csr_matrix((ones, (self.edges[:, 0], self.edges[:, 1])), (len(self), len(self)))

    @cached_property
    def down(self) -> csr_matrix:
        """(nodes, nodes) a one where the column is a child of the row."""
        return self.up.T.tocsr()

    @cached_property
    def depth(self) -> np.ndarray:
        """Longest way from the root."""
        return longest_depths(self.edges, len(self))

    @cached_property
    def main(self) -> np.ndarray:
        """The deepest parent of each node, the first of equals; -1 for the root."""
        children, parents = self.edges.T
        best_last = np.lexsort((-parents, self.depth[parents]))
        main = np.full(len(self), -1, np.int32)
        main[children[best_last]] = parents[best_last]
        return main

    @cached_property
    def ancestors(self) -> csr_matrix:
        """(nodes, nodes) a one for each node's ancestors, the root apart, and for itself."""
        reached = (identity(len(self), np.float32, format="csr") + self.up).tocsr()
        for _ in range(int(self.depth.max()).bit_length()):  # each round doubles the way
            reached = reached @ reached
            reached.data[:] = 1.0
        reached.data[reached.indices == 0] = 0.0
        reached.eliminate_zeros()
        reached.sort_indices()
        return reached

    def on_nodes(self, Y: csr_matrix) -> csr_matrix:
        """(examples, nodes) a one for the root, and for an example's labels and all above them."""
        carriers = np.flatnonzero(self.label >= 0)
        ones = np.ones(len(carriers), np.float32)
        places = csr_matrix((ones, (self.label[carriers], carriers)), (Y.shape[1], len(self)))
        n = Y.shape[0]
        root = csr_matrix((np.ones(n, np.float32), np.zeros(n, np.int32), np.arange(n + 1)))
        root.resize(n, len(self))
        found = (Y @ (places @ self.ancestors) + root).tocsr()
        found.data[:] = 1.0
        found.sort_indices()
        return found

    def arrays(self) -> dict[str, np.ndarray]:
        return {"edges": self.edges, "label": self.label, "grouped": self.grouped}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], n_labels: int) -> Nodes:
        edges, label, grouped = arrays["edges"], arrays["label"], arrays["grouped"]
        holds = (
            edges.ndim == 2
            and edges.shape[1] == 2
            and label.ndim == 1
            and len(label) > 0
            and all_within(edges, 0, len(label))
            and bool((edges[:, 0] > edges[:, 1]).all())  # so that there is no cycle
            and all_within(label, -1, n_labels)
            and grouped.shape == label.shape
            and grouped.dtype == np.bool_
        )
        expect(holds, "the nodes of the taxonomy do not fit")
        return cls(edges, label, grouped)


def _learned(
    X: csr_matrix, Y: csr_matrix, labels: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Edges and labels of nodes for clusters of these labels, node 0 the root."""
    tree = build_tree("kmeans", X, Y[:, labels], fanout=FANOUT, leaf_size=LEAF_SIZE, seed=seed)
    children = np.arange(1, len(tree))
    edges = np.stack([children, tree.parent[1:]], axis=1)
    return edges, np.where(tree.label >= 0, labels[tree.label], -1)


def _group(
    X: csr_matrix, Y: csr_matrix, labels: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Labels side by side under one node, 1, below the root, 0; clustered if they are many."""
    if len(labels) <= MANY_SIBLINGS:
        parents = np.concatenate([[0], np.ones(len(labels), np.int64)])
        edges = np.stack([np.arange(1, len(labels) + 2), parents], axis=1)
        return edges, np.concatenate([[-1, -1], labels])
    edges, label = _learned(X, Y, labels, seed)
    top = np.array([[1, 0]])
    return np.concatenate([top, edges + 1]), np.concatenate([[-1], label])


def _from_taxonomy(
    taxonomy: Taxonomy, Y: csr_matrix, used: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Edges and labels of the nodes that examples have, node 0 the root.

    A label whose children come without it hangs on a leaf of its own below its node.
    """
    n, n_labels = len(taxonomy), taxonomy.n_labels
    label = np.concatenate([np.where(used, np.arange(n_labels), -1), np.full(n - n_labels, -1)])
    connected = np.zeros(n, bool)
    connected[taxonomy.edges.ravel()] = True
    label[~connected] = -1
    roots = np.setdiff1d(np.flatnonzero(connected), taxonomy.edges[:, 0])
    under_root = np.stack([roots + 1, np.zeros_like(roots)], axis=1)
    edges = np.concatenate([taxonomy.edges + 1, under_root])
    whole = Nodes(edges, np.concatenate([[-1], label]), np.zeros(n + 1, bool))
    return _trimmed(whole, Y)


def _trimmed(whole: Nodes, Y: csr_matrix) -> tuple[np.ndarray, np.ndarray]:
    """Without nodes that no example has, and with labels on leaves where that is needed."""
    examples = np.bincount(whole.on_nodes(Y).indices, minlength=len(whole))
    own = np.zeros(len(whole), np.int64)
    carriers = np.flatnonzero(whole.label >= 0)
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    own[carriers] = counts[whole.label[carriers]]
    lowered = np.flatnonzero((own > 0) & (own < examples))
    kept = np.concatenate([[0], 1 + np.flatnonzero(examples[1:] > 0)])
    number = np.full(len(whole), -1, np.int64)
    number[kept] = np.arange(len(kept))
    label = whole.label.copy()
    label[lowered] = -1
    renumbered = number[whole.edges]
    renumbered = renumbered[(renumbered >= 0).all(axis=1)]
    leaves = len(kept) + np.arange(len(lowered))
    below = np.stack([leaves, number[lowered]], axis=1)
    names = np.concatenate([label[kept], whole.label[lowered]])
    return np.concatenate([renumbered, below]), names
