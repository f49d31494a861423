"""Training examples near a query, kept small: their labels' votes stand beside a model's scores.

Kept are the leading directions of the examples alone, in 8-bit integers, cluster by cluster: a
sixteenth of 512 floats or less. Fewer directions vote better, too: on validation cuts of three sets
128 of 512 were ahead of all, since what is left out is mostly what the model learned by heart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Self

import numpy as np
from numba import njit
from scipy.sparse import csr_matrix, vstack

from labelspace._core.checks import all_within
from labelspace._core.dense import unit_array
from labelspace._core.sparse import pack_csr, unpack_csr
from labelspace._core.threads import parallel_blocks, product
from labelspace._core.top_k import keep_best
from labelspace.errors import StoreError
from labelspace.search.codes import LARGEST_CODE, integer_dot, to_integers
from labelspace.search.index import dot
from labelspace.search.neighbours import assign, grouped, k_means
from labelspace.search.projected import leading_directions
from labelspace.search.tuning import QUERIES, tuning_queries

DIRECTIONS = 128
SHARPNESS = 20.0  # a vote weighs exp(SHARPNESS * cosine)
_PROBES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_RECALL = 0.92  # of the neighbours: a missed one is replaced by the next
_SAMPLE = 20_000  # of examples that directions are learned from
_EMBEDDED_AT_A_TIME = 8192


class Voters:
    """Training examples in clusters, and their labels.

    directions  (directions, dimension): what is kept of a vector
    centres     (clusters, directions), of length 1
    codes       (examples, directions) int8, cluster by cluster, of unit vectors
    members     which example each code is; those of cluster c are members[indptr[c]:indptr[c+1]]
    Y           (examples, labels) in the examples' own order
    """

    def __init__(
        self,
        directions: np.ndarray,
        centres: np.ndarray,
        cluster_of: np.ndarray,
        codes: np.ndarray,
        Y: csr_matrix,
        probes: int,
    ) -> None:
        """cluster_of and codes are in the examples' own order."""
        self.directions, self.centres, self.cluster_of = directions, centres, cluster_of
        self.Y, self.probes = Y, probes
        self.indptr, self.members = grouped(cluster_of, len(centres))
        self.codes = codes[self.members]
        self.places = np.argsort(self.members)  # where each example's code stands
        self.steps = np.full(len(directions), 1.0 / LARGEST_CODE, np.float32)

    @classmethod
    def build(
        cls,
        embed: Callable[[csr_matrix], np.ndarray],
        X: csr_matrix,
        Y: csr_matrix,
        seed: int,
        queries: np.ndarray | None = None,
    ) -> Self:
        """Examples and their labels, embedded block by block.

        queries  vectors on which it is chosen how many clusters are searched; examples if None,
                 and beside them where they are few
        """
        some = np.random.default_rng(seed).permutation(X.shape[0])
        sample = embed(X[np.sort(some[:_SAMPLE])])
        directions = leading_directions(sample, sample)[:DIRECTIONS].copy()
        points = _points(embed, X, directions)
        centres = k_means(points, max(1, round(np.sqrt(len(points)))), seed)
        cluster_of = assign(points, centres)
        voters = cls(directions, centres, cluster_of, _codes(points), Y, len(centres))
        rng = np.random.default_rng([seed, 1])
        voters._choose_probes(*tuning_queries(queries, QUERIES, rng, lambda count: sample[:count]))
        return voters

    def extended(
        self, embed: Callable[[csr_matrix], np.ndarray], X: csr_matrix, Y: csr_matrix
    ) -> Voters:
        """With more examples; Y may have more labels than before."""
        points = _points(embed, X, self.directions)
        known = csr_matrix((self.Y.data, self.Y.indices, self.Y.indptr), (len(self), Y.shape[1]))
        return Voters(
            self.directions,
            self.centres,
            np.concatenate([self.cluster_of, assign(points, self.centres)]),
            np.concatenate([self._codes_in_order(), _codes(points)]),
            vstack([known, Y], format="csr"),
            self.probes,
        )

    def renumbered(self, numbers: np.ndarray) -> Voters:
        """The same examples in another order: example i becomes numbers[i]."""
        order = np.argsort(numbers)
        return Voters(
            self.directions,
            self.centres,
            self.cluster_of[order],
            self._codes_in_order()[order],
            self.Y[order],
            self.probes,
        )

    def __len__(self) -> int:
        return len(self.members)

    def points(self, rows: np.ndarray) -> np.ndarray:
        """What is kept of these examples, as points of length 1 in the space, (n, dimension)."""
        points = self.codes[self.places[rows]].astype(np.float32) @ self.directions
        return unit_array(points)

    def nearest(self, vectors: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k nearest examples of each vector, best first, and their cosines; -1 pads."""
        rows = np.full((len(vectors), k), -1, np.int64)
        cosines = np.full((len(vectors), k), -np.inf, np.float32)

        def block(start: int, stop: int) -> None:
            _nearest(
                *(vectors[start:stop], self.directions, self.centres, self.probes),
                *(self.indptr, self.members, self.steps, self.codes),
                *(rows[start:stop], cosines[start:stop]),
            )

        parallel_blocks(len(vectors), block, block=32)
        return rows, cosines

    def blend(
        self,
        vectors: np.ndarray,
        neighbours: int,
        numbers: np.ndarray,
        queries: np.ndarray,
        label_vectors: np.ndarray,
        best: np.ndarray,
        k: int,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k labels with the largest blend of logit and votes, and their probabilities.

        vectors  (n, dimension), whose nearest examples vote, each exp(SHARPNESS * cosine)
        numbers  a, b, w, c, d of sigmoid(c log-odds((1 - w) sigmoid(a logit + b) + w votes) + d)
        queries  (n, d), whose inner products with label_vectors (labels, d) are the logits
        best     (n, k) the labels with the largest logits, -1 pads: with the voted ones they hold
                 the k best of all, since a label without votes ranks by its logit
        """
        rows, cosines = self.nearest(vectors, neighbours)
        labels = np.full((len(vectors), k), -1, np.int64)
        scores = np.zeros((len(vectors), k), np.float32)

        def block(start: int, stop: int) -> None:
            part = slice(start, stop)
            _blend(
                *(rows[part], cosines[part], self.Y.indptr, self.Y.indices, numbers),
                *(queries[part], label_vectors, best[part], labels[part], scores[part]),
            )

        parallel_blocks(len(vectors), block, block=64)
        return labels, scores

    def _choose_probes(self, queries: np.ndarray, given: int) -> None:
        """The fewest clusters that hold nearly all of the 10 nearest examples.

        given  so many of the queries, the first, are typical: it has to hold for them alone, too
        """
        everything, _ = self.nearest(queries, 10)
        # Rows without features have no neighbours, and few examples fewer than 10.
        there = (everything >= 0).sum(axis=1)
        for probes in _PROBES:
            if probes >= len(self.centres):
                break
            self.probes = probes
            pairs = zip(everything, self.nearest(queries, 10)[0], strict=True)
            hits = np.array([np.isin(a[a >= 0], b).sum() for a, b in pairs])
            parts = (slice(given), slice(None))
            if all(hits[part].sum() >= _RECALL * there[part].sum() for part in parts):
                return
        self.probes = len(self.centres)

    def _codes_in_order(self) -> np.ndarray:
        """The codes in the examples' own order."""
        return np.asarray(self.codes[self.places])

    def state(self) -> dict[str, np.ndarray]:
        return {
            "directions": self.directions,
            "centres": self.centres,
            "cluster_of": self.cluster_of.astype(np.int32),
            "codes": self._codes_in_order(),
            "probes": np.array([self.probes]),
            **pack_csr("labels", self.Y),
        }

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray], n_labels: int, dim: int) -> Self:
        """Take back what `state` gave, for a space of these labels and dimension."""
        cluster_of, centres, codes = arrays["cluster_of"], arrays["centres"], arrays["codes"]
        directions, probes = arrays["directions"], int(arrays["probes"][0])
        Y = unpack_csr("labels", arrays, (None, n_labels))
        # The loops below trust all of it: what does not fit would have them read anywhere.
        fits = (
            codes.dtype == np.int8
            and len(cluster_of) == len(codes) == Y.shape[0]
            and codes.shape[1] == centres.shape[1] == len(directions)
            and directions.shape[1] == dim
            and 1 <= probes <= len(centres)
            and all_within(cluster_of, 0, len(centres))
        )
        if not fits:
            raise StoreError("the examples that vote do not fit together")
        return cls(directions, centres, cluster_of, codes, Y, probes)


def voter_bytes(n_examples: int) -> int:
    """Memory that building takes at its peak."""
    return n_examples * DIRECTIONS * (4 + 4 + 1 + 1)


def _points(
    embed: Callable[[csr_matrix], np.ndarray], X: csr_matrix, directions: np.ndarray
) -> np.ndarray:
    """The examples within the directions, of length 1."""
    points = np.empty((X.shape[0], len(directions)), np.float32)
    for start in range(0, X.shape[0], _EMBEDDED_AT_A_TIME):
        rows = slice(start, start + _EMBEDDED_AT_A_TIME)
        points[rows] = unit_array(product(embed(X[rows]), directions.T))
    return points


def _codes(points: np.ndarray) -> np.ndarray:
    return np.asarray(np.rint(points * LARGEST_CODE), np.int8)


@njit(cache=True, nogil=True)
def _nearest(vectors, directions, centres, probes, indptr, members, steps, codes, rows, cosines):  # type: ignore[no-untyped-def]
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
            continue  # nothing is known of it: nobody votes
        point /= np.sqrt(length)
        to_integers(point, steps, query)
        # What one unit of the integers' inner product is in cosine.
        strongest = np.argmax(np.abs(query))
        unit = point[strongest] * steps[strongest] / query[strongest]
        n_chosen = 0
        for centre in range(len(centres)):
            n_chosen = keep_best(dot(point, centres[centre]), centre, closeness, chosen, n_chosen)
        filled = 0
        for cluster in chosen[:n_chosen]:
            for place in range(indptr[cluster], indptr[cluster + 1]):
                cosine = np.float32(unit * integer_dot(query, codes, place))
                filled = keep_best(cosine, members[place], cosines[row], rows[row], filled)


@njit(cache=True, nogil=True)
def _blend(  # type: ignore[no-untyped-def]
    rows, cosines, indptr, indices, numbers, queries, vectors, best, labels, scores
):
    slope, offset, share, last_slope, last_offset = numbers
    for row in range(len(rows)):
        total, most = 0.0, best.shape[1]
        for n in range(rows.shape[1]):
            if rows[row, n] >= 0:
                total += np.exp(SHARPNESS * (cosines[row, n] - cosines[row, 0]))
                most += indptr[rows[row, n] + 1] - indptr[rows[row, n]]
        # All ballots, those of a label side by side; the best labels cast an empty one.
        voted, weights = np.empty(most, np.int64), np.zeros(most)
        count = 0
        for n in range(rows.shape[1]):
            if rows[row, n] >= 0:
                weight = np.exp(SHARPNESS * (cosines[row, n] - cosines[row, 0])) / total
                for cell in range(indptr[rows[row, n]], indptr[rows[row, n] + 1]):
                    voted[count], weights[count] = indices[cell], weight
                    count += 1
        for label in best[row]:
            if label >= 0:
                voted[count] = label
                count += 1
        order = np.argsort(voted[:count], kind="mergesort")
        filled = place = 0
        while place < count:
            label, votes = voted[order[place]], 0.0
            while place < count and voted[order[place]] == label:
                votes += weights[order[place]]
                place += 1
            own = 1.0 / (1.0 + np.exp(-(slope * dot(queries[row], vectors[label]) + offset)))
            odds = min(max((1.0 - share) * own + share * votes, 1e-9), 1.0 - 1e-9)
            logit = last_slope * np.log(odds / (1.0 - odds)) + last_offset
            score = np.float32(1.0 / (1.0 + np.exp(-logit)))
            filled = keep_best(score, label, scores[row], labels[row], filled)
