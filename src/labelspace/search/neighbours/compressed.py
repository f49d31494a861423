"""Training examples, compressed: their labels can vote beside a model's scores.

Only the leading principal components of the examples are stored, in 8-bit integers, cluster by
cluster: a sixteenth of 512 floats or less. Fewer components also vote better: on validation cuts of
three sets 128 of 512 were better than all, since the others mostly hold what the model overfitted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Self

import numpy as np
from scipy.sparse import csr_matrix, vstack

from labelspace._core.compiled import loop
from labelspace._core.dense import read_only, unit_array
from labelspace._core.schema import Schema, csr, floats, ints, numbering, offsets, optional
from labelspace._core.sparse import pack_csr, unpack_csr
from labelspace._core.threads import parallel_blocks, product
from labelspace._core.top_k import keep_best
from labelspace.search.codes import LARGEST_CODE, integer_dot, to_integers
from labelspace.search.neighbours.k_means import assign, grouped, k_means
from labelspace.search.projected import leading_directions
from labelspace.search.row_products import dot
from labelspace.search.tuning import Sample, Tuner, probe_counts, sample_queries

DIRECTIONS = 128  # principal components that are stored
_TUNED_K = 10  # neighbours at which recall is tuned
_RECALL = 0.92  # of the neighbours: a missed one is replaced by the next
_SAMPLE = 20_000  # examples that directions are fitted to
_EMBEDDED_AT_A_TIME = 8192  # examples; bounds memory


class CompressedExamples:
    """Training examples in clusters, and their labels.

    Attributes
    ----------
    directions : ndarray of shape (directions, dimension)
        The components of a vector that are stored.
    centres : ndarray of shape (clusters, directions)
        Of length 1.
    codes : ndarray of shape (examples, directions)
        int8, cluster by cluster, of unit vectors.
    members : ndarray of shape (examples,)
        The example of each code; those of cluster c are members[indptr[c]:indptr[c + 1]], in order.
    Y : csr_matrix of shape (examples, labels)
        The labels, in the examples' own order.
    probes : int
        Number of clusters searched per query.
    """

    def __init__(
        self,
        directions: np.ndarray,
        centres: np.ndarray,
        groups: tuple[np.ndarray, np.ndarray],
        codes: np.ndarray,
        Y: csr_matrix,
        probes: int,
    ) -> None:
        """Take codes that are grouped by cluster; `groups` are indptr and members."""
        self.directions, self.centres = read_only(directions), read_only(centres)
        self.Y, self.probes = Y, probes
        self.recall = 0.0  # measured when the probes are chosen; not stored
        self.indptr, self.members = read_only(groups[0]), read_only(groups[1])
        self.codes = read_only(codes)
        self.scales = np.full(len(directions), 1.0 / LARGEST_CODE, np.float32)

    @classmethod
    def of_codes(
        cls,
        directions: np.ndarray,
        centres: np.ndarray,
        cluster_of: np.ndarray,
        codes: np.ndarray,
        Y: csr_matrix,
        probes: int,
    ) -> Self:
        """Group the codes by cluster; cluster_of and codes are in the examples' own order."""
        groups = grouped(cluster_of, len(centres))
        return cls(directions, centres, groups, codes[groups[1]], Y, probes)

    @cached_property
    def places(self) -> np.ndarray:
        """The place of each example's code, made at the first access."""
        places = np.zeros(len(self.members), np.int64)
        places[self.members] = np.arange(len(places))
        return places

    @property
    def cluster_of(self) -> np.ndarray:
        """The cluster of each example."""
        clusters = np.repeat(np.arange(len(self.centres)), np.diff(self.indptr))
        return np.asarray(clusters[self.places])

    @classmethod
    def build(
        cls,
        embed: Callable[[csr_matrix], np.ndarray],
        X: csr_matrix,
        Y: csr_matrix,
        seed: int,
        queries: np.ndarray | None = None,
    ) -> Self:
        """Compress examples, embedded block by block.

        Parameters
        ----------
        embed : callable
            Return the vectors (n, dimension) of rows of X.
        X, Y : csr_matrix
            The examples and their labels.
        seed : int
            Seed of the clusters and samples.
        queries : ndarray of shape (n, dimension), optional
            Vectors on which the number of probes is chosen. Examples are taken if None, and
            beside them where they are few.
        """
        some = np.random.default_rng(seed).permutation(X.shape[0])
        sample = embed(X[np.sort(some[:_SAMPLE])])
        directions = leading_directions(sample, sample)[:DIRECTIONS].copy()
        points = _points(embed, X, directions)
        centres = k_means(points, max(1, round(np.sqrt(len(points)))), seed)
        cluster_of = assign(points, centres)
        examples = cls.of_codes(directions, centres, cluster_of, _codes(points), Y, len(centres))
        rng = np.random.default_rng([seed, 1])
        examples._choose_probes(sample_queries(queries, rng, lambda count: sample[:count]))
        return examples

    def extended(
        self, embed: Callable[[csr_matrix], np.ndarray], X: csr_matrix, Y: csr_matrix
    ) -> CompressedExamples:
        """Return these examples and more behind them; Y may have more labels than before."""
        points = _points(embed, X, self.directions)
        known = csr_matrix((self.Y.data, self.Y.indices, self.Y.indptr), (len(self), Y.shape[1]))
        return CompressedExamples.of_codes(
            self.directions,
            self.centres,
            np.concatenate([self.cluster_of, assign(points, self.centres)]),
            np.concatenate([self.codes_in_order(), _codes(points)]),
            vstack([known, Y], format="csr"),
            self.probes,
        )

    def renumbered(self, numbers: np.ndarray) -> CompressedExamples:
        """Return the same examples in another order: example i becomes numbers[i]."""
        order = np.argsort(numbers)
        return CompressedExamples.of_codes(
            self.directions,
            self.centres,
            self.cluster_of[order],
            self.codes_in_order()[order],
            self.Y[order],
            self.probes,
        )

    def __len__(self) -> int:
        return len(self.members)

    def points(self, rows: np.ndarray) -> np.ndarray:
        """Return these examples as they are stored: vectors (n, dimension) of length 1."""
        points = self.codes[self.places[rows]].astype(np.float32) @ self.directions
        return unit_array(points)

    def nearest(self, vectors: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the k nearest examples of each vector, best first, and their cosines; -1 pads."""
        rows = np.full((len(vectors), k), -1, np.int64)
        cosines = np.full((len(vectors), k), -np.inf, np.float32)

        def block(start: int, stop: int) -> None:
            _nearest(
                *(vectors[start:stop], self.directions, self.centres, self.probes),
                *(self.indptr, self.members, self.scales, self.codes),
                *(rows[start:stop], cosines[start:stop]),
            )

        parallel_blocks(len(vectors), block, block=32)
        return rows, cosines

    def _choose_probes(self, sample: Sample) -> None:
        """Choose the fewest clusters that hold nearly all of the nearest examples."""
        true, _ = self.nearest(sample.queries, _TUNED_K)
        # Rows without features have no neighbours, and few examples are fewer than _TUNED_K.
        known = np.asarray((true >= 0).any(axis=1))
        true, queries = true[known], sample.queries[known]

        def shares_found(examples: CompressedExamples) -> np.ndarray:
            pairs = zip(true, examples.nearest(queries, _TUNED_K)[0], strict=True)
            return np.array([np.isin(a[a >= 0], b).mean() for a, b in pairs])

        n_given = int(known[: sample.n_given].sum())
        # A missed neighbour is replaced by the next, so that the mean alone is good enough.
        tuner = Tuner(shares_found, n_given, _RECALL, with_error=False)
        tuner.choose(self, probe_counts(len(self.centres)), self.set_probes)

    def set_probes(self, probes: int) -> None:
        """Search this number of clusters per query."""
        self.probes = probes

    def codes_in_order(self) -> np.ndarray:
        """Return the codes in the examples' own order."""
        return np.asarray(self.codes[self.places])

    def state(self) -> dict[str, np.ndarray]:
        return {
            "directions": self.directions,
            "centres": self.centres,
            "indptr": self.indptr,
            "members": self.members,
            "grouped": self.codes,
            "probes": np.array([self.probes]),
            **pack_csr("labels", self.Y),
        }

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the examples whose `state` the arrays are.

        They may be read-only memory maps, and are not copied.
        """
        directions, centres = arrays["directions"], arrays["centres"]
        Y, probes = unpack_csr("labels", arrays), int(arrays["probes"][0])
        if "grouped" in arrays:
            groups = arrays["indptr"], arrays["members"]
            return cls(directions, centres, groups, arrays["grouped"], Y, probes)
        # Codes in the examples' own order, as models were stored before.
        cluster_of, codes = arrays["cluster_of"], arrays["codes"]
        return cls.of_codes(directions, centres, cluster_of, codes, Y, probes)

    @staticmethod
    def schema(arrays: Mapping[str, np.ndarray], prefix: str, dim: str | int) -> Schema:
        """Declare the arrays of `state` for vectors of this dimension, if there are any."""
        directions, clusters = f"{prefix}directions", f"{prefix}clusters"
        examples = f"{prefix}examples"
        found = [
            *csr(f"{prefix}labels", examples, "labels", sets=True),
            floats(f"{prefix}directions", directions, dim),
            floats(f"{prefix}centres", clusters, directions),
            ints(f"{prefix}probes", 1, low=1, limit=f"{clusters} + 1"),
        ]
        if f"{prefix}cluster_of" in arrays:  # as models were stored before
            found += [
                ints(f"{prefix}cluster_of", examples, limit=clusters, types="i4"),
                ints(f"{prefix}codes", examples, directions, low=-128, types="i1"),
            ]
        else:
            found += [
                offsets(f"{prefix}indptr", clusters, examples),
                numbering(f"{prefix}members", examples),
                ints(f"{prefix}grouped", examples, directions, low=-128, types="i1"),
            ]
        return optional(found, arrays)


def compressed_bytes(n_examples: int) -> int:
    """Return the memory that building takes at its peak."""
    return n_examples * DIRECTIONS * (4 + 4 + 1 + 1)


def _points(
    embed: Callable[[csr_matrix], np.ndarray], X: csr_matrix, directions: np.ndarray
) -> np.ndarray:
    """Return the examples within the directions, of length 1."""
    points = np.empty((X.shape[0], len(directions)), np.float32)
    for start in range(0, X.shape[0], _EMBEDDED_AT_A_TIME):
        rows = slice(start, start + _EMBEDDED_AT_A_TIME)
        points[rows] = unit_array(product(embed(X[rows]), directions.T))
    return points


def _codes(points: np.ndarray) -> np.ndarray:
    """Round unit vectors to 8 bits."""
    return np.asarray(np.rint(points * LARGEST_CODE), np.int8)


@loop
def _nearest(vectors, directions, centres, probes, indptr, members, scales, codes, rows, cosines):  # type: ignore[no-untyped-def]
    point = np.empty(len(directions), np.float32)
    query = np.empty(len(directions), np.int16)
    chosen = np.empty(probes, np.int64)
    closeness = np.empty(probes, np.float32)
    for row in range(len(vectors)):
        length = np.float32(0.0)
        for j in range(len(directions)):
            point[j] = dot(vectors[row], directions[j])
            length += point[j] * point[j]
        if length == 0.0:
            continue  # without features it has no neighbours
        point /= np.sqrt(length)
        to_integers(point, scales, query)
        # The cosine of one unit of the integers' inner product.
        strongest = np.argmax(np.abs(query))
        unit = point[strongest] * scales[strongest] / query[strongest]
        n_chosen = 0
        for centre in range(len(centres)):
            n_chosen = keep_best(dot(point, centres[centre]), centre, closeness, chosen, n_chosen)
        filled = 0
        for cluster in chosen[:n_chosen]:
            for place in range(indptr[cluster], indptr[cluster + 1]):
                cosine = np.float32(unit * integer_dot(query, codes, place))
                filled = keep_best(cosine, members[place], cosines[row], rows[row], filled)
