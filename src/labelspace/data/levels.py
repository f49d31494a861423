"""On which level a label stands: its depth in the taxonomy, or its kind if it is outside of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix, identity

from labelspace.data.columns import KIND_JOINT
from labelspace.data.taxonomy import Taxonomy

MOST_KINDS = 16


@dataclass(frozen=True)
class Levels:
    """The levels of a taxonomy, L0 at the top, and behind them the kinds of all other labels.

    names   ("L0", "L1", ..., "brand", ...)
    of      (labels,) the level of each label, a place in `names`
    depth   how many of the names are levels of the taxonomy
    edges   (nodes, nodes) CSR, a one where the row is a child of the column; labels come first
    """

    names: tuple[str, ...]
    of: np.ndarray
    depth: int
    edges: csr_matrix

    @classmethod
    def build(cls, taxonomy: Taxonomy, label_names: Sequence[str]) -> Levels:
        """Depth is the longest way from a root; a label without edges and kind stands on L0."""
        depths = taxonomy.depths()
        n_levels = int(depths.max(initial=0)) + 1
        of = depths[: len(label_names)].copy()
        connected = np.zeros(len(taxonomy), dtype=bool)
        connected[taxonomy.edges.ravel()] = True
        lone = np.flatnonzero(~connected[: len(label_names)]).tolist()
        kinds = _kinds([label_names[label] for label in lone])
        for label in lone:
            kind, joint, _ = label_names[label].partition(KIND_JOINT)
            if joint and kind in kinds:
                of[label] = n_levels + kinds[kind]
        names = (*(f"L{level}" for level in range(n_levels)), *kinds)
        return cls(names, of, n_levels, _edge_matrix(taxonomy))

    @property
    def on_path(self) -> np.ndarray:
        """(labels,) True for labels of the taxonomy, False for those of other kinds."""
        return np.asarray(self.of < self.depth)

    def ancestors(self) -> csr_matrix:
        """(labels, nodes): a one for each label's ancestors and for itself."""
        return self._ancestors

    @cached_property
    def _ancestors(self) -> csr_matrix:
        n_nodes = self.edges.shape[0]
        reached = identity(n_nodes, np.float32, format="csr")
        step = (reached + self.edges).tocsr()
        for _ in range(self.depth):
            reached = reached @ step
            reached.data[:] = 1.0
        return reached[: len(self.of)].tocsr()

    def one_label_each(self, Y: csr_matrix) -> bool:
        """Whether no example has two labels on one level: its labels are one path."""
        rows = np.repeat(np.arange(Y.shape[0], dtype=np.int64), np.diff(Y.indptr))
        places = rows * len(self.names) + self.of[Y.indices]
        return len(np.unique(places)) == len(places)


def _kinds(names: Sequence[str]) -> dict[str, int]:
    """Number the kinds that stand before names, in order of appearance.

    Not every colon marks a kind: of many prefixes only those that many names share do.
    """
    split = (name.partition(KIND_JOINT) for name in names)
    counts = Counter(kind for kind, joint, _ in split if joint)
    if len(counts) > MOST_KINDS:
        least = counts.total() / MOST_KINDS
        counts = Counter({kind: count for kind, count in counts.items() if count > least})
    return {kind: place for place, kind in enumerate(counts)}


def _edge_matrix(taxonomy: Taxonomy) -> csr_matrix:
    children, parents = taxonomy.edges.T
    ones = np.ones(len(taxonomy.edges), np.float32)
    return csr_matrix((ones, (children, parents)), shape=(len(taxonomy), len(taxonomy)))
