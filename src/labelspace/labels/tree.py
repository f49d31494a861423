"""A tree over labels as flat arrays: one shape for every method, plot and file that needs a tree.

Nodes are numbered level by level from the root, 0, siblings side by side. So a parent's number is
below those of its children, and loops over nodes need neither recursion nor a stack. Leaves and
inner nodes may have a label, each label at most one node; other nodes have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from labelspace._core.compiled import loop
from labelspace._core.schema import Schema, ints, once, parents, sizes_of
from labelspace.errors import InputError

if TYPE_CHECKING:
    from labelspace.data.taxonomy import Taxonomy


@dataclass(frozen=True, eq=False)
class LabelTree:
    """Parents and labels of nodes that are numbered level by level; all else follows from them.

    Attributes
    ----------
    parent : ndarray of shape (nodes,), int32
        -1 for the root.
    label : ndarray of shape (nodes,), int32
        -1 for a node without a label.
    n_labels : int
        The number of labels, those on no node included.
    """

    parent: np.ndarray
    label: np.ndarray
    n_labels: int

    @classmethod
    def from_parents(cls, parent: np.ndarray, label: np.ndarray, n_labels: int) -> LabelTree:
        """Build a tree from nodes in any order; siblings keep theirs."""
        return cls.in_order(parent, label, n_labels, level_order(parent))

    @classmethod
    def in_order(
        cls, parent: np.ndarray, label: np.ndarray, n_labels: int, order: np.ndarray
    ) -> LabelTree:
        """Build a tree from nodes in any order and their `level_order`."""
        carried = label[label >= 0]
        if len(carried) and (carried.max() >= n_labels or np.bincount(carried).max() > 1):
            raise InputError(f"each label from 0 to {n_labels - 1} may be on one node only")
        number = np.empty(len(order), np.int32)
        number[order] = np.arange(len(order), dtype=np.int32)
        above = parent[order]
        renumbered = np.where(above < 0, -1, number[np.maximum(above, 0)])
        return cls(renumbered.astype(np.int32), label[order].astype(np.int32), n_labels)

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.parent)

    @cached_property
    def first_child(self) -> np.ndarray:
        """Return offsets: the children of node i are first_child[i] to first_child[i + 1] - 1."""
        counts = np.bincount(self.parent[1:], minlength=len(self))
        return np.concatenate([[1], 1 + counts.cumsum()]).astype(np.int32)

    def children(self, node: int) -> range:
        """Return the children of a node."""
        return range(int(self.first_child[node]), int(self.first_child[node + 1]))

    @cached_property
    def is_leaf(self) -> np.ndarray:
        """Return True for each node without children."""
        return np.asarray(np.diff(self.first_child) == 0)

    @cached_property
    def leaves(self) -> np.ndarray:
        """Return the nodes without children."""
        return np.flatnonzero(self.is_leaf)

    @cached_property
    def depth(self) -> np.ndarray:
        """Return the number of edges between the root and each node."""
        depth = np.zeros(len(self), np.int32)
        _add_to_children(self.parent, depth)
        return depth

    @cached_property
    def levels(self) -> np.ndarray:
        """Return offsets: the nodes of depth d are levels[d] to levels[d + 1] - 1."""
        return np.searchsorted(self.depth, np.arange(int(self.depth[-1]) + 2))

    @cached_property
    def node_of(self) -> np.ndarray:
        """Return the node of each label, -1 for a label on no node."""
        nodes = np.full(self.n_labels, -1, np.int32)
        carrying = np.flatnonzero(self.label >= 0)
        nodes[self.label[carrying]] = carrying
        return nodes

    @cached_property
    def sizes(self) -> np.ndarray:
        """Return the number of nodes in the subtree of each node, itself included."""
        sizes = np.ones(len(self), np.int64)
        _add_to_parents(self.parent, sizes)
        return sizes

    @cached_property
    def place(self) -> np.ndarray:
        """Return each node's position in depth-first order; `sizes` positions are its subtree."""
        place = np.zeros(len(self), np.int64)
        _depth_first(self.parent, self.sizes, place)
        return place

    @cached_property
    def depth_first(self) -> np.ndarray:
        """Return the nodes in depth-first order: each subtree as a whole, its root first."""
        return np.argsort(self.place)

    @cached_property
    def label_order(self) -> np.ndarray:
        """Return the labels in depth-first order, in which those of a subtree are a range."""
        labels = self.label[self.depth_first]
        return np.asarray(labels[labels >= 0])

    @cached_property
    def label_ranges(self) -> np.ndarray:
        """Return (nodes, 2) offsets: the labels below a node are label_order[start:stop]."""
        before = np.concatenate([[0], (self.label[self.depth_first] >= 0).cumsum()])
        return np.stack([before[self.place], before[self.place + self.sizes]], axis=1)

    @cached_property
    def label_counts(self) -> np.ndarray:
        """Return the number of labels in the subtree of each node."""
        return np.asarray(np.diff(self.label_ranges, axis=1)[:, 0])

    def labels_below(self, node: int) -> np.ndarray:
        """Return the labels in the subtree of a node, its own included."""
        start, stop = self.label_ranges[node]
        return np.asarray(self.label_order[start:stop])

    def path(self, node: int) -> list[int]:
        """Return the nodes from the root down to this one."""
        up = [node]
        while self.parent[up[-1]] >= 0:
            up.append(int(self.parent[up[-1]]))
        return up[::-1]

    def with_labels_on_leaves(self) -> LabelTree:
        """Return the tree with each label of an inner node moved to a new leaf below that node."""
        inner = np.flatnonzero((self.label >= 0) & ~self.is_leaf)
        kept = self.label.copy()
        kept[inner] = -1
        label = np.concatenate([kept, self.label[inner]])
        return self.from_parents(np.concatenate([self.parent, inner]), label, self.n_labels)

    def trimmed(self) -> LabelTree:
        """Return the tree without nodes that have no label in their subtree; the root stays."""
        keep = self.label_counts > 0
        keep[0] = True
        number = keep.cumsum() - 1
        parent = np.where(self.parent < 0, -1, number[self.parent])[keep]
        return LabelTree(parent.astype(np.int32), self.label[keep], self.n_labels)

    def collapsed(self, most: int) -> LabelTree:
        """Return the tree with subtrees of at most `most` labels replaced by one node.

        These labels are the leaves of that node.
        """
        tree = self.trimmed()
        counts, parent = tree.label_counts, tree.parent
        small = counts <= most
        top = small & np.concatenate([[True], ~small[parent[1:]]])
        # Subtrees are ranges of places, so the last top at or before a node is the one above it.
        tops = np.flatnonzero(top)[np.argsort(tree.place[top])]
        if not len(tops):
            return tree
        above = tops[np.searchsorted(tree.place[tops], tree.place, side="right") - 1]
        bare = top & (counts == 1) & (np.arange(len(tree)) > 0)  # replaced by its one label
        parent = np.where(small & ~top, np.where(bare[above], parent[above], above), parent)
        label = np.where(top & ~bare, -1, tree.label)
        keep = ~small | (top & ~bare) | (small & (tree.label >= 0))
        # A label of the top node itself goes to a leaf below it.
        own = np.flatnonzero(top & ~bare & (tree.label >= 0))
        number = keep.cumsum() - 1
        parent = np.where(parent < 0, -1, number[parent])[keep]
        return self.from_parents(
            np.concatenate([parent, number[own]]),
            np.concatenate([label[keep], tree.label[own]]),
            self.n_labels,
        )

    def widened(self, fanout: int) -> LabelTree:
        """Return a flatter tree, in which nodes have up to `fanout` children.

        A node replaces its largest child by that child's children as long as it then has at most
        `fanout`. The clusters that remain are clusters of the original tree.
        """
        parent = self.parent.astype(np.int64)
        kept = _take_over(self.first_child, self.label_counts, fanout, parent)
        number = kept.cumsum() - 1
        above = np.where(parent < 0, -1, number[parent])[kept]
        return self.from_parents(above, self.label[kept], self.n_labels)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays that `from_arrays` needs, for a method's state."""
        return {
            "parent": self.parent,
            "label": self.label,
            "n_labels": np.array([self.n_labels], np.int64),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> LabelTree:
        """Restore a tree from `arrays`, which are of its schema; memory maps are not copied."""
        return cls(arrays["parent"], arrays["label"], int(arrays["n_labels"][0]))

    @staticmethod
    def schema(prefix: str, nodes: str, widest: str) -> Schema:
        """Declare `arrays`; names of sizes: `widest` is the largest number of children."""
        return [
            parents(f"{prefix}parent", nodes, widest),
            ints(f"{prefix}label", nodes, low=-1, limit="labels", types="i4", rules=(once,)),
            sizes_of(f"{prefix}n_labels", "labels"),
        ]


def taxonomy_forest(taxonomy: Taxonomy) -> tuple[np.ndarray, np.ndarray]:
    """Return (parent, label) of a taxonomy's nodes in its own numbering; roots have parent -1.

    Of several parents a node keeps the deepest, which is the most specific, and of equally deep
    ones the first. So each label has one node, and the tree has as many nodes as the taxonomy.
    """
    child, parent = taxonomy.edges.T
    depths = taxonomy.depths()
    best_last = np.lexsort((-parent, depths[parent]))
    parents = np.full(len(taxonomy), -1, np.int64)
    parents[child[best_last]] = parent[best_last]
    labels = np.arange(len(taxonomy))
    return parents, np.where(labels < taxonomy.n_labels, labels, -1)


def taxonomy_tree(taxonomy: Taxonomy) -> tuple[LabelTree, np.ndarray]:
    """Return a taxonomy as a tree (see `taxonomy_forest`) under a new root.

    The second value is the number in the taxonomy of each node of the tree, -1 for the root.
    """
    parents, labels = taxonomy_forest(taxonomy)
    parents = np.concatenate([[-1], parents + 1])  # roots, -1, are now children of node 0
    labels = np.concatenate([[-1], labels])
    order = level_order(parents)
    return LabelTree.in_order(parents, labels, taxonomy.n_labels, order), order - 1


def level_order(parent: np.ndarray) -> np.ndarray:
    """Return the nodes of a tree level by level, children in the order of their parents."""
    roots = np.flatnonzero(parent < 0)
    if len(roots) != 1:
        raise InputError(f"a tree has one root, that is one parent of -1: found {len(roots)}")
    if parent.max() >= len(parent):
        raise InputError(f"a parent is {parent.max()}, but there are {len(parent)} nodes")
    by_parent = np.argsort(parent, kind="stable")
    starts = np.searchsorted(parent[by_parent], np.arange(len(parent) + 1))
    order = np.empty(len(parent), np.int64)
    if _walk_levels(roots[0], by_parent, starts, order) < len(parent):
        raise InputError("the nodes form no tree: they have a cycle")
    return order


@loop
def _walk_levels(root, by_parent, starts, order):  # type: ignore[no-untyped-def]
    order[0] = root
    done, found = 0, 1
    while done < found:
        node = order[done]
        done += 1
        for place in range(starts[node], starts[node + 1]):
            order[found] = by_parent[place]
            found += 1
    return found


@loop
def _add_to_children(parent, depth):  # type: ignore[no-untyped-def]
    for node in range(1, len(parent)):
        depth[node] = depth[parent[node]] + 1


@loop
def _add_to_parents(parent, sums):  # type: ignore[no-untyped-def]
    for node in range(len(parent) - 1, 0, -1):
        sums[parent[node]] += sums[node]


@loop
def _depth_first(parent, sizes, place):  # type: ignore[no-untyped-def]
    """Set each node's position: after its parent and the subtrees of earlier siblings."""
    following = np.ones(len(parent), np.int64)  # where a node's next child goes, from its own place
    for node in range(1, len(parent)):
        above = parent[node]
        place[node] = place[above] + following[above]
        following[above] += sizes[node]


@loop
def _take_over(first_child, label_counts, fanout, parent):  # type: ignore[no-untyped-def]
    """Set the parents of the nodes that stay; return which do."""
    kept = np.ones(len(parent), np.bool_)
    children = np.empty(max(fanout, np.diff(first_child).max()), np.int64)
    for node in range(len(parent)):
        if not kept[node]:
            continue
        size = first_child[node + 1] - first_child[node]
        children[:size] = np.arange(first_child[node], first_child[node + 1])
        while True:
            largest = -1
            for place in range(size):
                child = children[place]
                width = first_child[child + 1] - first_child[child]
                if 0 < width <= fanout - size + 1 and (
                    largest < 0 or label_counts[child] > label_counts[children[largest]]
                ):
                    largest = place
            if largest < 0:
                break
            child = children[largest]
            kept[child] = False
            first, width = first_child[child], first_child[child + 1] - first_child[child]
            children[largest] = first
            children[size : size + width - 1] = np.arange(first + 1, first + width)
            size += width - 1
        parent[children[:size]] = node
    return kept
