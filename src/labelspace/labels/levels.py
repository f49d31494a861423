"""The level of each label: its depth in the taxonomy, or its kind if it is not part of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix, identity

from labelspace._core.sparse import rows_of
from labelspace.data.kinds import label_kinds
from labelspace.data.taxonomy import Taxonomy


@dataclass(frozen=True)
class Levels:
    """The levels of a taxonomy, L0 at the top, followed by the kinds of all other labels.

    Attributes
    ----------
    names : tuple of str
        ("L0", "L1", ..., "brand", ...).
    of : ndarray of shape (n_labels,)
        The level of each label, as a position in `names`.
    depth : int
        The number of names that are levels of the taxonomy.
    edges : csr_matrix of shape (n_nodes, n_nodes)
        1 where the row is a child of the column; labels come first.

    Examples
    --------
    >>> from labelspace.data import Taxonomy
    >>> names = ["Shoes", "Shoes > Boots", "brand: Nike"]
    >>> taxonomy = Taxonomy.from_names([("Shoes > Boots", "Shoes")], names)
    >>> levels = Levels.build(taxonomy, names)
    >>> levels.names, levels.of.tolist()
    (('L0', 'L1', 'brand'), [0, 1, 2])
    """

    names: tuple[str, ...]
    of: np.ndarray
    depth: int
    edges: csr_matrix

    @classmethod
    def build(cls, taxonomy: Taxonomy, label_names: Sequence[str]) -> Levels:
        """Return the levels of these labels.

        The depth of a label is its longest distance from a root; a label without edges and
        without a kind is on L0.
        """
        depths = taxonomy.depths()
        n_levels = int(depths.max(initial=0)) + 1
        of = depths[: len(label_names)]
        kinds, kind_of = label_kinds(taxonomy, label_names)
        of = np.where(kind_of >= 0, n_levels + kind_of, of)
        names = (*(f"L{level}" for level in range(n_levels)), *kinds)
        return cls(names, of, n_levels, _edge_matrix(taxonomy))

    @property
    def on_path(self) -> np.ndarray:
        """Return True for each label of the taxonomy, False for labels of other kinds."""
        return np.asarray(self.of < self.depth)

    def ancestors(self) -> csr_matrix:
        """Return a (labels, nodes) matrix with 1 for each label's ancestors and itself."""
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
        """Return whether no example has two labels on a level, so that its labels are one path."""
        rows = rows_of(Y)
        places = rows * len(self.names) + self.of[Y.indices]
        return len(np.unique(places)) == len(places)


def _edge_matrix(taxonomy: Taxonomy) -> csr_matrix:
    children, parents = taxonomy.edges.T
    ones = np.ones(len(taxonomy.edges), np.float32)
    return csr_matrix((ones, (children, parents)), shape=(len(taxonomy), len(taxonomy)))
