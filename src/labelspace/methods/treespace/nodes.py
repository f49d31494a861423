"""The nodes that TreeSpace searches through: a taxonomy or a learned tree, as flat arrays.

Node 0 is a virtual root. A node may have several parents: search reaches it through any of them,
and its vector is computed from that of the deepest one, its main parent. Labels outside of the
taxonomy, such as brands beside categories, are children of one further node below the root.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix, identity

from labelspace._core.schema import Schema, Sizes, ints, once
from labelspace.data.taxonomy import Taxonomy, longest_depths
from labelspace.errors import InputError
from labelspace.labels.clustering import build_tree

MAX_SIBLINGS = 4096  # labels outside of the taxonomy above which they are clustered
FANOUT, LEAF_SIZE = 16, 64  # of the clustering: children per node, labels per leaf cluster


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes in the order of depth: parents have smaller numbers than their children.

    Attributes
    ----------
    edges : ndarray of shape (m, 2)
        int32 rows (child, parent), sorted.
    label : ndarray of shape (n_nodes,)
        int32 label of each node, -1 if it has none.
    outside : ndarray of shape (n_nodes,)
        True for labels outside of the taxonomy and for their clusters.
    """

    edges: np.ndarray
    label: np.ndarray
    outside: np.ndarray

    @classmethod
    def build(cls, X: csr_matrix, Y: csr_matrix, taxonomy: Taxonomy | None, seed: int) -> Nodes:
        """Return the nodes of a taxonomy over the columns of Y, or without one of a label tree by
        k-means of the labels' centroids."""
        used = np.bincount(Y.indices, minlength=Y.shape[1]) > 0
        if taxonomy is None:
            edges, label = _clustered(X, Y, np.flatnonzero(used), seed)
            return cls._sorted(edges, label, np.zeros(len(label), bool))
        if taxonomy.n_labels != Y.shape[1]:
            raise InputError(
                f"the taxonomy has {taxonomy.n_labels} labels and Y has {Y.shape[1]}: "
                "build the taxonomy from the names of the columns of Y"
            )
        edges, label = _from_taxonomy(taxonomy, Y, used)
        in_taxonomy = np.isin(np.arange(Y.shape[1]), label)
        rest = np.flatnonzero(used & ~in_taxonomy)
        outside = np.zeros(len(label), bool)
        if len(rest):
            below, labels = _group(X, Y, rest, seed)
            below = np.where(below > 0, below + len(label) - 1, 0)  # both share the root
            edges, label = np.concatenate([edges, below]), np.concatenate([label, labels[1:]])
            outside = np.concatenate([outside, np.ones(len(labels) - 1, bool)])
        return cls._sorted(edges, label, outside)

    @classmethod
    def _sorted(cls, edges: np.ndarray, label: np.ndarray, outside: np.ndarray) -> Nodes:
        """Number the nodes anew in the order of depth."""
        order = np.argsort(longest_depths(edges, len(label)), kind="stable")
        number = np.empty(len(order), np.int32)
        number[order] = np.arange(len(order), dtype=np.int32)
        rows = np.unique(number[edges].astype(np.int32).reshape(-1, 2), axis=0)
        return cls(rows, label[order].astype(np.int32), outside[order])

    def __len__(self) -> int:
        return len(self.label)

    @cached_property
    def parents(self) -> csr_matrix:
        """(n_nodes, n_nodes) matrix, 1 where the column is a parent of the row."""
        ones = np.ones(len(self.edges), np.float32)
        return csr_matrix((ones, (self.edges[:, 0], self.edges[:, 1])), (len(self), len(self)))

    @cached_property
    def children(self) -> csr_matrix:
        """(n_nodes, n_nodes) matrix, 1 where the column is a child of the row."""
        return self.parents.T.tocsr()

    @cached_property
    def depth(self) -> np.ndarray:
        """Length of the longest path from the root to each node."""
        return longest_depths(self.edges, len(self))

    @cached_property
    def main_parent(self) -> np.ndarray:
        """The deepest parent of each node, the first if there are several; -1 for the root."""
        children, parents = self.edges.T
        best_last = np.lexsort((-parents, self.depth[parents]))
        main = np.full(len(self), -1, np.int32)
        main[children[best_last]] = parents[best_last]
        return main

    @cached_property
    def ancestors(self) -> csr_matrix:
        """(n_nodes, n_nodes) matrix, 1 for each node's ancestors but the root, and for itself."""
        reached = (identity(len(self), np.float32, format="csr") + self.parents).tocsr()
        for _ in range(int(self.depth.max()).bit_length()):  # each round doubles the path length
            reached = reached @ reached
            reached.data[:] = 1.0
        reached.data[reached.indices == 0] = 0.0
        reached.eliminate_zeros()
        reached.sort_indices()
        return reached

    def indicator(self, Y: csr_matrix) -> csr_matrix:
        """Return the (examples, nodes) matrix, 1 for the root, an example's labels and their
        ancestors."""
        labelled = np.flatnonzero(self.label >= 0)
        ones = np.ones(len(labelled), np.float32)
        node_of = csr_matrix((ones, (self.label[labelled], labelled)), (Y.shape[1], len(self)))
        n = Y.shape[0]
        root = csr_matrix((np.ones(n, np.float32), np.zeros(n, np.int32), np.arange(n + 1)))
        root.resize(n, len(self))
        found = (Y @ (node_of @ self.ancestors) + root).tocsr()
        found.data[:] = 1.0
        found.sort_indices()
        return found

    def log_odds(self, counts: np.ndarray) -> np.ndarray:
        """Return the log odds of each node given its main parent, from numbers of examples."""
        parents = counts[np.maximum(self.main_parent, 0)]
        odds = (counts + 0.5) / (parents - counts + 0.5)
        return np.asarray(np.log(odds), np.float32)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays that `from_arrays` takes."""
        return {"edges": self.edges, "label": self.label, "outside": self.outside}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Nodes:
        """Rebuild nodes from what `arrays` returned."""
        return cls(arrays["edges"], arrays["label"], arrays["outside"])

    @staticmethod
    def schema(prefix: str) -> Schema:
        """Declare `arrays`; the size "nodes" is their number."""

        def go_down(edges: np.ndarray, _: Sizes) -> bool:
            return bool((edges[:, 0] > edges[:, 1]).all())  # so that there is no cycle

        return [
            ints(f"{prefix}label", "nodes", low=-1, limit="labels", rules=(once,)),
            ints(f"{prefix}edges", "edges", 2, limit="nodes", rules=(go_down,)),
            ints(f"{prefix}outside", "nodes", types="b1"),
        ]


def _clustered(
    X: csr_matrix, Y: csr_matrix, labels: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return edges and labels of the nodes of a k-means tree over these labels; the root is 0."""
    tree = build_tree("kmeans", X, Y[:, labels], fanout=FANOUT, leaf_size=LEAF_SIZE, seed=seed)
    children = np.arange(1, len(tree))
    edges = np.stack([children, tree.parent[1:]], axis=1)
    return edges, np.where(tree.label >= 0, labels[tree.label], -1)


def _group(
    X: csr_matrix, Y: csr_matrix, labels: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return edges and labels of the labels below node 1, itself below the root, node 0.

    More than MAX_SIBLINGS labels are clustered.
    """
    if len(labels) <= MAX_SIBLINGS:
        parents = np.concatenate([[0], np.ones(len(labels), np.int64)])
        edges = np.stack([np.arange(1, len(labels) + 2), parents], axis=1)
        return edges, np.concatenate([[-1, -1], labels])
    edges, label = _clustered(X, Y, labels, seed)
    top = np.array([[1, 0]])
    return np.concatenate([top, edges + 1]), np.concatenate([[-1], label])


def _from_taxonomy(
    taxonomy: Taxonomy, Y: csr_matrix, used: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return edges and labels of the nodes that examples have; node 0 is the root.

    A label that some examples of its descendants lack is moved to a leaf below its node.
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
    """Return edges and labels without unused nodes, and with labels on leaves where needed."""
    examples = np.bincount(whole.indicator(Y).indices, minlength=len(whole))
    own = np.zeros(len(whole), np.int64)
    labelled = np.flatnonzero(whole.label >= 0)
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    own[labelled] = counts[whole.label[labelled]]
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
    labels = np.concatenate([label[kept], whole.label[lowered]])
    return np.concatenate([renumbered, below]), labels
