"""Search in clusters of labels, then exactly: the time grows with the root of the number of labels.

Vectors are grouped around centres. A query is compared with the centres, then, in the leading
directions and in 8-bit integers, with the labels of the clusters that promise most; the best of
these are scored in full. The codes lie in the order of the clusters, so that a query reads a few
pieces of them, which may be memory maps: nothing is copied at load.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np

from labelspace._core.checks import all_within, are_numbers, are_offsets, kept_count
from labelspace._core.compiled import loop
from labelspace._core.dense import unit_array
from labelspace._core.threads import parallel_blocks, product
from labelspace._core.top_k import keep_best, pop, push
from labelspace.errors import StoreError
from labelspace.search.codes import integer_dot, quantise, to_integers
from labelspace.search.index import MARGIN, TUNED_K, InnerProductIndex, stored_kind
from labelspace.search.neighbours.k_means import ROWS_PER_CLUSTER, assign, grouped, k_means
from labelspace.search.projected import leading_directions
from labelspace.search.row_products import dot
from labelspace.search.stored_vectors import Vectors

DIRECTIONS = 128  # leading directions that are coded, at most
_SAMPLE = 20_000  # vectors that directions are fitted to
_PROJECTED_AT_A_TIME = 16_384
_MORE_PER_LABEL = 8  # further candidates for each label above TUNED_K, as for 4-bit codes


class ClusteredIndex(InnerProductIndex):
    """Scores the labels of the `probes` best clusters by codes, and reranks `rerank_size` of them.

    Parameters
    ----------
    vectors : ndarray or StoredVectors of shape (labels, dimension)
    directions : ndarray of shape (directions, dimension)
        Those in which labels are coded.
    centres : ndarray of shape (clusters, directions)
        The mean of each cluster.
    scales : ndarray of shape (directions,)
        Of the codes.
    groups : pair of ndarray
        indptr and members: the labels of cluster c are members[indptr[c]:indptr[c + 1]].
    codes : ndarray of shape (labels, directions)
        int8, in the order of members.
    """

    kind: ClassVar[str] = "clustered"

    def __init__(
        self,
        vectors: Vectors,
        directions: np.ndarray,
        centres: np.ndarray,
        scales: np.ndarray,
        groups: tuple[np.ndarray, np.ndarray],
        codes: np.ndarray,
    ) -> None:
        super().__init__(vectors)
        self.directions, self.centres, self.scales = directions, centres, scales
        self.indptr, self.members = groups
        self.codes = codes
        self.recall = 0.0
        self.set_effort((1, MARGIN))

    @classmethod
    def build(cls, vectors: Vectors, queries: np.ndarray, seed: int) -> Self:
        """Group and encode the vectors; the directions fit them and typical queries."""
        n = len(vectors)
        rng = np.random.default_rng([seed, n])
        chosen = np.sort(rng.choice(n, min(n, _SAMPLE), replace=False))
        leading = leading_directions(vectors[chosen], queries)
        directions = np.ascontiguousarray(leading[:DIRECTIONS])
        points = np.empty((n, len(directions)), np.float32)
        for start in range(0, n, _PROJECTED_AT_A_TIME):
            rows = slice(start, start + _PROJECTED_AT_A_TIME)
            points[rows] = product(vectors[rows], directions.T)
        n_clusters = max(1, round(np.sqrt(n)))
        size = min(n, ROWS_PER_CLUSTER * n_clusters)
        sample = unit_array(points[np.sort(rng.choice(n, size, replace=False))])
        cluster_of = assign(points, k_means(sample, n_clusters, seed))
        groups = grouped(cluster_of, n_clusters)
        centres = np.zeros((n_clusters, len(directions)), np.float32)
        for cluster in range(n_clusters):
            own = groups[1][groups[0][cluster] : groups[0][cluster + 1]]
            if len(own):
                centres[cluster] = points[own].mean(axis=0)
        scales, codes = quantise(points)
        return cls(vectors, directions, centres, scales, groups, codes[groups[1]])

    @classmethod
    def restore(cls, vectors: Vectors, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the index whose `state` the arrays are; they are not copied."""
        names = ("directions", "centres", "scales", "indptr", "members", "codes")
        directions, centres, scales, indptr, members, codes = (arrays[name] for name in names)
        n, width = len(vectors), len(directions)
        fits = (
            are_numbers(directions, None, vectors.shape[1])
            and are_numbers(centres, None, width)
            and are_numbers(scales, width)
            and codes.dtype == np.int8
            and codes.shape == (n, width)
            and members.shape == (n,)
            and all_within(members, 0, n)
            and are_offsets(indptr, len(centres), n)
        )
        if not fits:
            raise StoreError("the search clusters do not fit the vectors: restore the model")
        index = cls(vectors, directions, centres, scales, (indptr, members), codes)
        index.set_effort((kept_count(arrays, "probes"), kept_count(arrays, "rerank_size")))
        index.recall = float(arrays["recall"][0])
        return index

    def set_effort(self, effort: tuple[int, int]) -> None:
        """Search so many clusters, and score so many labels exactly."""
        self.probes = min(effort[0], len(self.centres))
        self.rerank_size = min(effort[1], len(self.vectors))
        self.settings = {
            "clusters": len(self.centres),
            "probes": self.probes,
            "directions": len(self.directions),
            "rerank_size": self.rerank_size,
        }

    def state(self) -> dict[str, np.ndarray]:
        return {
            "kind": stored_kind(self.kind),
            "directions": self.directions,
            "centres": self.centres,
            "scales": self.scales,
            "indptr": self.indptr,
            "members": self.members,
            "codes": self.codes,
            "probes": np.array([self.probes]),
            "rerank_size": np.array([self.rerank_size]),
            "recall": np.array([self.recall]),
        }

    def _candidates(self, queries: np.ndarray, k: int) -> np.ndarray:
        more = _MORE_PER_LABEL * max(k - TUNED_K, 0)
        size = min(max(self.rerank_size + more, k + MARGIN), len(self.vectors))
        labels = np.full((len(queries), size), -1, np.int32)

        def block(start: int, stop: int) -> None:
            _best_of_clusters(
                *(queries[start:stop], self.directions, self.centres, self.probes),
                *(self.indptr, self.members, self.scales, self.codes),
                *(min(k + MARGIN, size), labels[start:stop]),
            )

        parallel_blocks(len(queries), block, block=16)
        return labels


def cluster_bytes(n_vectors: int, dim: int) -> int:
    """Return the memory of building: vectors in the leading directions, and codes twice."""
    return 6 * n_vectors * min(dim, DIRECTIONS)


@loop
def _best_of_clusters(  # type: ignore[no-untyped-def]
    queries, directions, centres, probes, indptr, members, scales, codes, least, labels
):
    """Write the labels with the largest products of codes, in any order.

    The clusters with the largest products of their centres are read, and others, in their order,
    only if these have fewer labels than `least`.
    """
    size, longest = labels.shape[1], np.int64(0)
    for cluster in range(len(centres)):
        longest = max(longest, indptr[cluster + 1] - indptr[cluster])
    point, query = np.empty(len(directions), np.float32), np.empty(len(directions), np.int16)
    products, lowest = np.empty(longest, np.int32), np.empty(size, np.int32)
    chosen, closeness = np.empty(probes, np.int64), np.empty(probes, np.float32)
    is_read = np.zeros(len(centres), np.bool_)
    for row in range(len(queries)):
        for j in range(len(directions)):
            point[j] = dot(queries[row], directions[j])
        to_integers(point, scales, query)
        n_chosen = 0
        for cluster in range(len(centres)):
            near = dot(point, centres[cluster])
            n_chosen = keep_best(near, cluster, closeness, chosen, n_chosen)
        filled = np.int64(0)
        for turn in range(n_chosen + len(centres)):
            if turn < n_chosen:
                cluster = chosen[turn]
                is_read[cluster] = True
            else:
                cluster = turn - n_chosen
                if filled >= least:
                    break
                if is_read[cluster]:
                    continue
            first, last = indptr[cluster], indptr[cluster + 1]
            for place in range(first, last):
                products[place - first] = -integer_dot(query, codes, place)
            for place in range(first, last):
                value = products[place - first]
                if filled < size:
                    filled = push(value, members[place], lowest, labels[row], filled)
                elif value < lowest[0]:
                    filled = pop(lowest, labels[row], filled)
                    filled = push(value, members[place], lowest, labels[row], filled)
        for place in range(n_chosen):
            is_read[chosen[place]] = False
