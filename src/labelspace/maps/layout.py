"""The layout of a label map: a tree of the labels, drawn from the centre of the disk outwards.

General labels lie near the centre and specific ones outside; relatives lie side by side. The tree
is the taxonomy, where there is one; small trees of it lie beside the nearest label of a large one.
Otherwise labels are clustered by their vectors, clusters are clustered again, and a frequent label
near the mean of a cluster is the parent of its other labels.

Every label has a sector of the disk, which its children share by their weights. A sector of the
angle w is equally wide for all labels at the hyperbolic distance asinh(1 / w) from the centre: the
circumference of hyperbolic circles grows as fast as the number of nodes of a tree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.dense import unit_array
from labelspace.maps.disk import polar

MOST_GROUPS = 24  # that are named
_FEWEST_GROUPS = 6
_LARGEST_GROUP, _SMALLEST_GROUP = 0.22, 0.005  # shares of all weights between which groups lie
_MOST_ROOTS, _MOST_TREES = 24, 200  # labels, trees of a taxonomy around the centre: not clustered
_MOST_PARTS, _PARTS = 12, 7  # clusters of all labels, of a cluster
_STAR = 9  # labels around their parent that are not clustered further
_MANY = 1000  # labels from which on a cluster is divided as all labels are
_RUNS, _ROUNDS = 4, 10  # of k-means
_NEAREST, _FARTHEST = 0.55, 3.1  # hyperbolic distances from the centre that are filled
_STEP = 0.25  # least distance of a label from its parent, before distances are scaled
_SHARE = 0.75  # exponent of the weights by which children share a sector: small ones stay visible
_GAP = 0.1  # share of a sector that stays free, between its children and the next sector
_FEW = 60  # siblings that are ordered by all their similarities


@dataclass(frozen=True)
class Layout:
    """Where labels are drawn.

    Attributes
    ----------
    points : complex array
        A point of the disk per label.
    parent : int array
        The parent of each label in the tree that is drawn; -1 without one.
    group : int array
        The group of each label, from 0; -1 for labels that are in none.
    heads : int array
        The label that a group is named after.
    """

    points: np.ndarray
    parent: np.ndarray
    group: np.ndarray
    heads: np.ndarray


def layout(
    vectors: np.ndarray,
    counts: np.ndarray,
    edges: np.ndarray,
    near: np.ndarray,
    alike: np.ndarray | None = None,
) -> Layout:
    """Compute the layout; the same input gives the same layout.

    Parameters
    ----------
    vectors : (labels, dimensions) array
        Label vectors, compared by their cosine.
    counts : (labels,) array
        Training examples per label.
    edges : (m, 2) array
        Label and parent of a taxonomy, without cycles; empty without one.
    near : (labels, k) array
        The nearest labels of each; -1 pads a row.
    alike : (labels,) array, optional
        For a label without a vector, one that it lies beside, without a line; -1 for the others.
    """
    weight = np.sqrt(1.0 + counts)
    given = _one_parent(edges, counts)
    nested = _with_nearest(given, near, weight) if len(edges) else given.copy()
    beside = np.zeros(len(counts), bool) if alike is None else (alike >= 0) & (nested < 0)
    if alike is not None:
        nested[beside] = alike[beside]
    tree = _Tree(nested, _centred(vectors, weight), weight)
    tree.cluster_roots(_MOST_TREES if len(edges) else _MOST_ROOTS)
    tree.order_siblings()
    group, heads = tree.groups()
    lines = given if len(edges) else np.where(beside, -1, tree.parent)
    return Layout(tree.points(), lines, group, heads)


def _centred(vectors: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return directions from the mean of all labels: what all share tells none apart."""
    unit = unit_array(np.asarray(vectors, np.float32))
    mean = (weight @ unit / weight.sum()).astype(np.float32)
    has_vector = np.asarray(unit.any(axis=1), bool)
    return unit_array(np.where(has_vector[:, None], unit - mean, 0.0))


def _one_parent(edges: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return one parent per label, or -1: of several, the one with the fewest examples."""
    parent = np.full(len(counts), -1, np.int64)
    frequent_first = edges[np.lexsort((edges[:, 1], -counts[edges[:, 1]]))]
    parent[frequent_first[:, 0]] = frequent_first[:, 1]  # the last assignment stays
    return parent


def _with_nearest(parent: np.ndarray, near: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return parents where a small tree, or a single label, is below its root's nearest label.

    That is the nearest in a tree that is not small.
    """
    root = np.arange(len(parent))
    while (parent[root] >= 0).any():
        root = np.where(parent[root] >= 0, parent[root], root)
    total = np.bincount(root, weight, len(parent))
    roots, sizes = np.unique(root, return_counts=True)
    trees = roots[sizes > 1]
    large = (
        trees[total[trees] >= _SMALLEST_GROUP * total.sum()] if len(trees) > _MOST_ROOTS else trees
    )
    inside, found = np.isin(root, large), parent.copy()
    outside = np.flatnonzero(~inside & (parent < 0))
    while len(outside):
        listed = (near[outside] >= 0) & inside[near[outside]]
        reached = listed.any(axis=1)
        if not reached.any():
            break
        joined = outside[reached]
        found[joined] = near[joined, listed[reached].argmax(axis=1)]
        inside[joined] = True  # others may be near to these alone
        outside = outside[~reached]
    return found


class _Tree:
    """A forest of labels that is joined, ordered and placed."""

    def __init__(self, parent: np.ndarray, unit: np.ndarray, weight: np.ndarray) -> None:
        self.parent, self.unit, self.weight = parent, unit, weight
        self.random = np.random.default_rng(len(parent))
        self._sum()

    def _sum(self) -> None:
        """Set children, an order of parents before children, and sums over descendants."""
        self.children: list[list[int]] = [[] for _ in range(len(self.parent) + 1)]
        for label, above in enumerate(self.parent.tolist()):
            self.children[above].append(label)  # the last list is that of the centre, -1
        self.order: list[int] = []
        waiting = list(self.children[-1])
        while waiting:
            label = waiting.pop()
            self.order.append(label)
            waiting.extend(self.children[label])
        self.total, sums = self.weight.copy(), self.unit * self.weight[:, None]
        for label in reversed(self.order):
            above = self.parent[label]
            if above >= 0:
                self.total[above] += self.total[label]
                sums[above] += sums[label]
        self.mean = unit_array(sums)

    def cluster_roots(self, most: int) -> None:
        """Join the roots by clusters, if they are more than this."""
        roots = np.array(self.children[-1])
        waiting = [(roots, -1)] if len(roots) > most else []
        while waiting:
            labels, above = waiting.pop()
            if len(labels) <= _STAR:
                self.parent[labels] = above
                continue
            for part in self._parts(labels):
                head = self._head(part)
                self.parent[head] = above
                if len(part) > 1:
                    waiting.append((part[part != head], head))
        self._sum()

    def _parts(self, labels: np.ndarray) -> list[np.ndarray]:
        """Return clusters of labels: of several runs of k-means, that with the nearest centres."""
        n_parts = min(_MOST_PARTS if len(labels) > _MANY else _PARTS, len(labels) // 4 + 1)
        runs = [self._k_means(labels, n_parts) for _ in range(_RUNS)]
        nearest = max(runs, key=lambda run: run[0])[1]
        found = [labels[nearest == part] for part in range(n_parts)]
        found = [part for part in found if len(part)]
        return found if len(found) > 1 else np.array_split(labels, n_parts)  # of equal vectors

    def _k_means(self, labels: np.ndarray, n_parts: int) -> tuple[float, np.ndarray]:
        """Return the sum of the cosines to the centres, and the nearest centre of each label.

        Spherical k-means from centres of k-means++, where frequent labels weigh more.
        """
        own, weight = self.mean[labels], self.total[labels].astype(np.float32)
        centres = own[[self._drawn(weight)]]
        gaps = np.full(len(own), 2.0)
        while len(centres) < n_parts:
            gaps = np.minimum(gaps, np.maximum(1.0 - own @ centres[-1], 1e-6))
            centres = np.concatenate([centres, own[[self._drawn(gaps * weight)]]])
        for _ in range(_ROUNDS):
            nearest = (own @ centres.T).argmax(axis=1)
            members = csr_matrix((weight, (nearest, np.arange(len(own)))), (n_parts, len(own)))
            centres = unit_array(members @ own)
        return float((weight * (own * centres[nearest]).sum(axis=1)).sum()), nearest

    def _drawn(self, chances: np.ndarray) -> int:
        """Draw a place by its chance."""
        place = np.searchsorted(np.cumsum(chances), self.random.random() * chances.sum())
        return min(int(place), len(chances) - 1)

    def _head(self, labels: np.ndarray) -> int:
        """Return the label that a cluster is named after: frequent, and near to its mean."""
        own, weight = self.mean[labels], self.weight[labels]
        cosine = own @ unit_array((weight @ own)[None])[0]
        return int(labels[np.argmax(weight * np.maximum(cosine, 0.05) ** 3)])

    def order_siblings(self) -> None:
        """Order siblings so that neighbours are similar, also those in adjacent sectors."""
        around = self._ordered(self.children[-1], circular=True)
        self.children[-1] = around
        waiting = [
            (label, around[place - 1], around[(place + 1) % len(around)])
            for place, label in enumerate(around)
        ]
        while waiting:
            label, left, right = waiting.pop()
            own = self._ordered(self.children[label])
            towards = self.mean[own] @ (self.mean[right] - self.mean[left])
            half = len(own) // 2
            if half and towards[half:].mean() < towards[:half].mean():
                own.reverse()
            self.children[label] = own
            beside = [left, *own, right]
            waiting += [
                (child, before, after)
                for before, child, after in zip(beside, own, beside[2:], strict=False)
                if self.children[child]
            ]

    def _ordered(self, labels: list[int], circular: bool = False) -> list[int]:
        """Return labels such that neighbours are similar: by eigenvectors of similarities."""
        if len(labels) <= 2:
            return labels
        own = self.mean[labels].astype(np.float64)
        if len(labels) <= _FEW:
            similar = np.maximum(own @ own.T, 0.0)
            _, vectors = np.linalg.eigh(np.diag(similar.sum(axis=1)) - similar)
            first, second = vectors[:, 1], vectors[:, 2]
        else:
            centred = own - own.mean(axis=0)
            _, leading = np.linalg.eigh(centred.T @ centred)
            first, second = centred @ leading[:, -1], centred @ leading[:, -min(2, own.shape[1])]
        place = np.arctan2(second, first) if circular else first
        return [labels[at] for at in np.argsort(place, kind="stable")]

    def points(self) -> np.ndarray:
        """Return the point of each label: sectors from the centre outwards."""
        n = len(self.parent)
        angle, width, distance = np.zeros(n), np.zeros(n), np.zeros(n)
        self._share(self.children[-1], 0.0, 2 * np.pi, angle, width)
        for label in self.order:
            above = self.parent[label]
            free = width[label] * (1.0 - _GAP)
            self._share(self.children[label], angle[label] - free / 2, free, angle, width)
            least = distance[above] + _STEP if above >= 0 else 0.0
            distance[label] = max(np.arcsinh(1.0 / width[label]), least)
        first = 0.0 if len(self.children[-1]) == 1 else _NEAREST
        low, high = distance.min(), np.quantile(distance, 0.98)
        share = (distance - low) / max(high - low, 1e-9)
        return polar(first + np.minimum(share, 1.15) * (_FARTHEST - first), angle)

    def _share(
        self, labels: list[int], start: float, free: float, angle: np.ndarray, width: np.ndarray
    ) -> None:
        """Divide a sector among labels by their weights."""
        parts = self.total[labels] ** _SHARE
        parts *= free / max(parts.sum(), 1e-300)
        angle[labels], width[labels] = start + np.cumsum(parts) - parts / 2, parts

    def groups(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the group of each label, and the groups' heads, the largest first."""
        heads = list(self.children[-1])
        everything = self.total[heads].sum()
        most, least = _LARGEST_GROUP * everything, _SMALLEST_GROUP * everything
        while True:
            heads.sort(key=lambda label: (-self.total[label], label))
            large = [head for head in heads if len(self.children[head]) > 0]
            if not large or (self.total[large[0]] <= most and len(heads) >= _FEWEST_GROUPS):
                break
            heads.remove(large[0])
            heads += self.children[large[0]]
        heads = [head for head in heads if self.total[head] >= least][:MOST_GROUPS]
        group = np.full(len(self.parent), -1, np.int64)
        group[heads] = np.arange(len(heads))
        for label in self.order:
            if group[label] < 0 and self.parent[label] >= 0:
                group[label] = group[self.parent[label]]
        return group, np.array(heads, np.int64)
