"""Inverted lists: k-means clusters of unit vectors, of which those closest to a query are searched.

Zhang et al. 2018, section 3.4, search one cluster. They take minutes to fit, and half of all
examples were searched for a recall of 0.99: the default is a scan over 4-bit codes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.compiled import loop
from labelspace._core.schema import Schema, floats, ints, numbering, offsets
from labelspace._core.threads import parallel_blocks
from labelspace._core.top_k import keep_best
from labelspace.errors import ParameterError
from labelspace.search.index import InnerProductIndex, checked_rows, kind_schema, stored_kind
from labelspace.search.neighbours.k_means import assign, grouped, k_means
from labelspace.search.neighbours.voting import vote_of_one
from labelspace.search.row_products import dot


class ClusterIndex(InnerProductIndex):
    """Scores the members of the `probes` clusters whose centres are closest to the query.

    Attributes
    ----------
    centres : ndarray of shape (clusters, dimension)
        Of length 1.
    indptr, members : ndarray
        Example numbers, cluster by cluster; those of c are members[indptr[c]:indptr[c + 1]].
    probes : int
        Number of clusters that are searched.
    """

    kind: ClassVar[str] = "clusters"

    def __init__(
        self, vectors: np.ndarray, centres: np.ndarray, indptr: np.ndarray, members: np.ndarray
    ) -> None:
        super().__init__(vectors)
        self.centres, self.indptr, self.members = centres, indptr, members
        self.recall = 0.0
        self.set_probes(1)

    @classmethod
    def build(cls, vectors: np.ndarray, n_clusters: int, seed: int) -> Self:
        """Fit clusters to the vectors."""
        centres = k_means(vectors, n_clusters, seed)
        return cls(vectors, centres, *grouped(assign(vectors, centres), len(centres)))

    @classmethod
    def schema(cls, prefix: str, examples: str, dim: str) -> Schema:
        """Declare the arrays of `state`, for so many examples of this dimension."""
        return [
            *kind_schema(prefix, cls.kind),
            floats(f"{prefix}centres", f"{prefix}clusters", dim),
            numbering(f"{prefix}members", examples),
            offsets(f"{prefix}indptr", f"{prefix}clusters", examples),
            ints(f"{prefix}probes", 1, low=1),
        ]

    @classmethod
    def restore(cls, vectors: np.ndarray, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the index whose `state` the arrays are."""
        # A copy, since a read-only map is another type to compile loops for.
        indptr = np.array(arrays["indptr"])
        index = cls(vectors, arrays["centres"], indptr, arrays["members"])
        index.set_probes(int(arrays["probes"][0]))
        index.recall = float(arrays["recall"][0])
        return index

    def set_probes(self, probes: int) -> None:
        """Search this number of clusters per query."""
        self.probes = min(probes, len(self.centres))
        self.settings = {"clusters": len(self.centres), "probes": self.probes}

    def state(self) -> dict[str, np.ndarray]:
        return {
            "kind": stored_kind(self.kind),
            "centres": self.centres,
            "indptr": self.indptr,
            "members": self.members,
            "probes": np.array([self.probes]),
            "recall": np.array([self.recall]),
        }

    def extended(self, vectors: np.ndarray) -> Self:
        """Return the same clusters over more vectors, of which the first are those of this one."""
        known = len(self.members)
        cluster_of = np.empty(len(vectors), np.int64)
        sizes = np.diff(self.indptr)
        cluster_of[self.members] = np.repeat(np.arange(len(sizes)), sizes)
        cluster_of[known:] = assign(vectors[known:], self.centres)
        index = type(self)(vectors, self.centres, *grouped(cluster_of, len(self.centres)))
        index.set_probes(self.probes)
        index.recall = self.recall
        return index

    def search(self, queries: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Search as every index does, in one loop: members of clusters are scored exactly."""
        if k < 1:
            raise ParameterError(f"k={k}: expected an integer of at least 1")
        queries = checked_rows(queries, "queries", self.vectors.shape[1])
        found = np.full((len(queries), k), -1, np.int64)
        scores = np.full((len(queries), k), -np.inf, np.float32)

        def block(start: int, stop: int) -> None:
            _search_clusters(
                *(queries[start:stop], self.centres, self.indptr, self.members),
                *(self._by_cluster(), self.probes, found[start:stop], scores[start:stop]),
            )

        parallel_blocks(len(queries), block, block=32)
        return found, scores

    def _candidates(self, queries: np.ndarray, k: int) -> np.ndarray:
        return self.search(queries, k)[0].astype(np.int32)

    def _by_cluster(self) -> np.ndarray:
        """Return the vectors in the order of `members`, copied once: a cluster is contiguous."""
        if not hasattr(self, "_laid_out"):
            self._laid_out = np.ascontiguousarray(self.vectors[self.members])
        return self._laid_out

    def votes(
        self, queries: np.ndarray, neighbours: int, power: float, Y: csr_matrix, k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return `rank_votes` of what `search` finds, in blocks: quicker for single queries."""
        labels = np.full((len(queries), k), -1, np.int64)
        shares = np.zeros((len(queries), k), np.float32)

        def block(start: int, stop: int) -> None:
            rows = slice(start, stop)
            found = np.full((stop - start, neighbours), -1, np.int64)
            scores = np.full(found.shape, -np.inf, np.float32)
            _search_clusters(
                *(queries[rows], self.centres, self.indptr, self.members),
                *(self._by_cluster(), self.probes, found, scores),
            )
            vote_of_one(found, scores, power, Y, labels[rows], shares[rows])

        parallel_blocks(len(queries), block, block=32)
        return labels, shares


@loop
def _search_clusters(queries, centres, indptr, members, vectors, probes, found, scores):  # type: ignore[no-untyped-def]
    """Score the members of the closest clusters; vectors are in the order of `members`."""
    chosen = np.empty(probes, np.int64)
    closeness = np.empty(probes, np.float32)
    for row in range(len(queries)):
        query = queries[row]
        n_chosen = np.int64(0)  # a literal 0 would be a second type to compile
        for centre in range(len(centres)):
            score = dot(query, centres[centre])
            n_chosen = keep_best(score, centre, closeness, chosen, n_chosen)
        filled = np.int64(0)
        for cluster in chosen[:n_chosen]:
            for place in range(indptr[cluster], indptr[cluster + 1]):
                score = dot(query, vectors[place])
                member = np.int64(members[place])
                filled = keep_best(score, member, scores[row], found[row], filled)
