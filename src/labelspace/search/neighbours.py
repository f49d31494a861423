"""The nearest training examples of a query in a learned space, and what their labels say.

Vectors have length 1 (or are zeros), so that the largest inner product is the nearest. Few are
searched exactly; for many, a scan over 4-bit codes names a short list. k-means clusters, of which
the closest to a query are searched (Zhang et al. 2018, section 3.4, where one cluster is), can be
had too: they take minutes to make and looked at half of all examples for a recall of 0.99.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numba import njit
from scipy.sparse import csr_matrix

from labelspace._core.checks import kept_count
from labelspace._core.dense import unit_array
from labelspace._core.threads import parallel_blocks, product
from labelspace._core.top_k import keep_best
from labelspace.errors import InputError, ParameterError, StoreError
from labelspace.search.exact import BLOCK_BYTES, ExactIndex
from labelspace.search.faiss import has_faiss
from labelspace.search.graph import GraphIndex, graph_bytes
from labelspace.search.index import InnerProductIndex, checked_rows, dot
from labelspace.search.inner_product import is_large, restore_index
from labelspace.search.quantised import QuantisedIndex, quantised_bytes
from labelspace.search.tuning import QUERIES, measured, reaches, tuning_queries
from labelspace.search.votes import vote_rows

KINDS = ("auto", "exact", "clusters", "quantised", "hnsw")

_ROUNDS = 10  # of k-means
_ROWS_PER_CLUSTER = 64  # that k-means looks at
_ASSIGNED_AT_A_TIME = 8192
# Probes and beams that are tried: about a quarter more each time.
_PROBES = sorted({round(2 ** (step / 3)) for step in range(40)})
_BEAMS = [round(16 * 2 ** (step / 3)) for step in range(21)]
_SHORT_LISTS = [64 * 2**step for step in range(8)]
_Sample = tuple[np.ndarray, int]  # queries, and how many of them were given
_LONGEST = 1 / 8  # of all examples that a short list may hold
_PIECE = 4  # dimensions that share a code


class ClusterIndex(InnerProductIndex):
    """Scores the members of the `probes` clusters whose centres are closest to the query.

    centres  (clusters, dimension), of length 1
    members  example numbers, cluster by cluster; those of c are members[indptr[c]:indptr[c + 1]]
    """

    kind: ClassVar[str] = "clusters"

    def __init__(
        self, vectors: np.ndarray, centres: np.ndarray, indptr: np.ndarray, members: np.ndarray
    ) -> None:
        super().__init__(vectors)
        self.centres, self.indptr, self.members = centres, indptr, members
        self.set_probes(1, recall=0.0)

    @classmethod
    def build(cls, vectors: np.ndarray, n_clusters: int, seed: int) -> Self:
        centres = k_means(vectors, n_clusters, seed)
        return cls(vectors, centres, *grouped(assign(vectors, centres), len(centres)))

    @classmethod
    def restore(cls, vectors: np.ndarray, arrays: Mapping[str, np.ndarray]) -> Self:
        """Take back what `state` gave."""
        centres, indptr, members = arrays["centres"], arrays["indptr"], arrays["members"]
        fits = (
            indptr.dtype == np.int64
            and members.dtype == np.int32
            and centres.ndim == 2
            and centres.shape[1] == vectors.shape[1]
            and len(indptr) == len(centres) + 1
            and (indptr[0], indptr[-1]) == (0, len(vectors))
            and bool((np.diff(indptr) >= 0).all())
            and np.array_equal(np.sort(members), np.arange(len(vectors)))
        )
        if not fits:
            raise StoreError("the clusters do not fit the examples")
        index = cls(vectors, centres, indptr, members)
        index.set_probes(kept_count(arrays, "probes"), float(arrays["recall"][0]))
        return index

    def set_probes(self, probes: int, recall: float) -> None:
        """Search so many clusters, which was found to give this recall."""
        self.probes, self.recall = min(probes, len(self.centres)), recall
        self.settings = {"clusters": len(self.centres), "probes": self.probes}

    def state(self) -> dict[str, np.ndarray]:
        return {
            "centres": self.centres,
            "indptr": self.indptr,
            "members": self.members,
            "probes": np.array([self.probes]),
            "recall": np.array([self.recall]),
        }

    def extended(self, vectors: np.ndarray) -> Self:
        """The same clusters over more vectors, of which the first are those there already."""
        known = len(self.members)
        cluster_of = np.empty(len(vectors), np.int64)
        sizes = np.diff(self.indptr)
        cluster_of[self.members] = np.repeat(np.arange(len(sizes)), sizes)
        cluster_of[known:] = assign(vectors[known:], self.centres)
        index = type(self)(vectors, self.centres, *grouped(cluster_of, len(self.centres)))
        index.set_probes(self.probes, self.recall)
        return index

    def search(self, queries: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
        """As of every index, but in one go: what clusters hold is scored exactly already."""
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
        """The vectors in the order of `members`, laid out once: a cluster is read in one go."""
        if not hasattr(self, "_laid_out"):
            self._laid_out = np.ascontiguousarray(self.vectors[self.members])
        return self._laid_out

    def votes(
        self, queries: np.ndarray, neighbours: int, power: float, Y: csr_matrix, k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """`rank_votes` of what `search` finds, in one loop: single questions wait for each call."""
        labels = np.full((len(queries), k), -1, np.int64)
        shares = np.zeros((len(queries), k), np.float32)

        def block(start: int, stop: int) -> None:
            _ask_clusters(
                *(queries[start:stop], self.centres, self.indptr, self.members),
                *(
                    self._by_cluster(),
                    self.probes,
                    neighbours,
                    np.float32(power),
                    Y.indptr,
                    Y.indices,
                    Y.shape[1],
                ),
                *(labels[start:stop], shares[start:stop]),
            )

        parallel_blocks(len(queries), block, block=32)
        return labels, shares


def build_neighbours(
    vectors: Any,
    k: int,
    *,
    kind: str = "auto",
    recall: float = 0.99,
    clusters: int | None = None,
    probes: int | None = None,
    seed: int = 0,
    queries: Any = None,
) -> InnerProductIndex:
    """An index over vectors (examples, dimension) of length 1, for k neighbours a query.

    kind      "exact"; "clusters"; "quantised" (4-bit codes) or "hnsw" (a graph), which need faiss;
              or "auto": exact for few examples, else clusters where their number or probes are
              given, else quantised, and exact again where these do not reach the recall or faiss
              is missing
    recall    share of the true k nearest to find; the least work that does so on sample queries
    clusters  how many; None: twice the root of the number of examples
    probes    how many of them are searched; None: chosen by recall
    queries   (n, dimension) typical queries to measure recall on; examples with noise if None,
              and beside them where they are few
    """
    vectors = checked_rows(vectors, "vectors of examples")
    if kind not in KINDS:
        raise ParameterError(f"kind={kind!r}: expected one of {', '.join(KINDS)}")
    exact = ExactIndex(vectors)
    if len(vectors) == 0 or kind == "exact" or (kind == "auto" and not is_large(*vectors.shape)):
        return exact
    sample, k = _sample(vectors, queries, seed), min(k, len(vectors))
    if kind == "hnsw":
        graph = GraphIndex.build(vectors, seed, deterministic=True)
        _tune(graph, graph.set_beam, _BEAMS, exact, sample, k, recall)
        return graph
    if kind == "quantised" or (kind == "auto" and clusters is None and probes is None):
        if kind == "auto" and not has_faiss():
            return exact
        quantised, reached = _quantised(vectors, exact, sample, k, recall, seed)
        return quantised if reached or kind == "quantised" else exact
    count = min(clusters or round(2 * np.sqrt(len(vectors))), len(vectors))
    index = ClusterIndex.build(vectors, count, seed)
    tried = [probes] if probes else [p for p in _PROBES if p < count] + [count]
    _tune(index, index.set_probes, tried, exact, sample, k, recall)
    return index


def _quantised(
    vectors: np.ndarray, exact: ExactIndex, sample: _Sample, k: int, recall: float, seed: int
) -> tuple[QuantisedIndex, bool]:
    index = QuantisedIndex.build(vectors, _PIECE, seed)
    worthwhile = [short for short in _SHORT_LISTS if short <= _LONGEST * len(vectors)]
    tried = worthwhile or _SHORT_LISTS[:1]
    reached = _tune(index, index.set_short, tried, exact, sample, k, recall)
    return index, reached and bool(worthwhile)


def extend_neighbours(index: InnerProductIndex, vectors: np.ndarray, k: int) -> InnerProductIndex:
    """The index over more vectors, of which the first are its own: clusters take them in."""
    vectors = checked_rows(vectors, "vectors of examples", index.vectors.shape[1])
    if isinstance(index, ClusterIndex):
        return index.extended(vectors)
    if isinstance(index, QuantisedIndex):
        return index.extended(vectors)
    if isinstance(index, GraphIndex):
        return build_neighbours(vectors, k, kind="hnsw", recall=min(index.recall, 0.99))
    return ExactIndex(vectors)


def restore_neighbours(vectors: np.ndarray, arrays: Mapping[str, np.ndarray]) -> InnerProductIndex:
    """The index whose `state` the arrays are, over the vectors that it was built on."""
    if "centres" in arrays:
        return ClusterIndex.restore(np.ascontiguousarray(vectors, np.float32), arrays)
    return restore_index(vectors, arrays)


def neighbour_bytes(n_examples: int, dim: int, kind: str = "auto") -> int:
    """Memory that building takes at its peak beside the vectors."""
    if kind == "exact" or (kind == "auto" and not is_large(n_examples, dim)):
        return BLOCK_BYTES
    if kind == "hnsw":
        return BLOCK_BYTES + graph_bytes(n_examples, dim)
    if kind in ("auto", "quantised"):
        return BLOCK_BYTES + quantised_bytes(n_examples, dim)
    count = 2 * int(np.sqrt(n_examples)) + 1
    trained = min(n_examples, _ROWS_PER_CLUSTER * count) * dim
    return BLOCK_BYTES + 4 * (trained + count * (dim + _ASSIGNED_AT_A_TIME)) + 20 * n_examples


def rank_votes(
    neighbours: np.ndarray,
    similarities: np.ndarray,
    power: float | np.ndarray,
    Y: csr_matrix,
    k: int,
    says: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Labels (n, k) int64 by the share of votes that they get, and the shares, best first.

    neighbours    (n, learners, m) example numbers, nearest first, -1 pads
    similarities  of the same shape; a vote weighs (similarity / that of the nearest) ** power, so
                  that 0 counts heads; each learner may have a power of its own
    says          how much each learner has to say; all the same if None
    Y             CSR (examples, labels); -1 and 0 pad rows with fewer than k labels voted for
    """
    labels = np.full((len(neighbours), k), -1, np.int64)
    shares = np.zeros((len(neighbours), k), np.float32)
    n_learners = neighbours.shape[1]
    powers = np.empty(n_learners, np.float32)
    powers[:] = power
    says = np.ones(n_learners, np.float32) if says is None else says.astype(np.float32)

    def block(start: int, stop: int) -> None:
        rows = slice(start, stop)
        vote_rows(
            *(neighbours[rows], similarities[rows], powers, says),
            *(Y.indptr, Y.indices, Y.shape[1], labels[rows], shares[rows]),
        )

    parallel_blocks(len(neighbours), block, block=64)
    return labels, shares


def k_means(vectors: np.ndarray, n_clusters: int, seed: int) -> np.ndarray:
    """Centres (clusters, dimension) of length 1, by k-means on directions and a sample of rows."""
    rng = np.random.default_rng([seed, len(vectors), n_clusters])
    size = min(len(vectors), _ROWS_PER_CLUSTER * n_clusters)
    rows = vectors[np.sort(rng.choice(len(vectors), size, replace=False))]
    centres = rows[np.sort(rng.choice(size, n_clusters, replace=False))]
    for _ in range(_ROUNDS):
        cluster_of = assign(rows, centres)
        ones = np.ones(size, np.float32)
        one_hot = csr_matrix((ones, cluster_of, np.arange(size + 1)), shape=(size, n_clusters))
        sums = np.asarray(one_hot.T @ rows)
        # A centre that lost all its rows begins anew at one of them.
        lost = np.flatnonzero(np.bincount(cluster_of, minlength=n_clusters) == 0)
        sums[lost] = rows[rng.choice(size, len(lost), replace=False)]
        centres = unit_array(sums)
    return centres


def assign(vectors: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """The closest centre of each vector."""
    starts = [*range(0, len(vectors), _ASSIGNED_AT_A_TIME), len(vectors)]
    found = np.empty(len(vectors), np.int64)
    for start, stop in pairwise(starts):
        found[start:stop] = product(vectors[start:stop], centres.T).argmax(axis=1)
    return found


def grouped(cluster_of: np.ndarray, n_clusters: int) -> tuple[np.ndarray, np.ndarray]:
    """(indptr, members) of each cluster's examples in rising order."""
    indptr = np.zeros(n_clusters + 1, np.int64)
    np.cumsum(np.bincount(cluster_of, minlength=n_clusters), out=indptr[1:])
    return indptr, np.argsort(cluster_of, kind="stable").astype(np.int32)


def _sample(vectors: np.ndarray, queries: Any, seed: int) -> tuple[np.ndarray, int]:
    """Queries to measure recall on: of those given, filled up by examples moved by half."""
    rng = np.random.default_rng(seed)
    given = None if queries is None else checked_rows(queries, "queries", vectors.shape[1])
    if given is not None and len(given) == 0:
        raise InputError("queries to measure recall on were given, but none are in them")

    def moved(count: int) -> np.ndarray:
        chosen = vectors[rng.permutation(len(vectors))[:count]]
        noise = rng.standard_normal(chosen.shape, dtype=np.float32)
        return np.asarray(chosen + noise * np.float32(0.5 / np.sqrt(vectors.shape[1])))

    return tuning_queries(given, QUERIES, rng, moved)


def _tune(
    index: InnerProductIndex,
    use: Callable[[int, float], None],
    settings: Iterable[int],
    exact: ExactIndex,
    sample: _Sample,
    k: int,
    recall: float,
) -> bool:
    """`use` the first setting that reaches the recall; False, and the last one, if none does."""
    queries, given = sample
    # By score, not by number: of examples equally near any will do.
    wanted = exact.search(queries, k)[1][:, -1:]
    for setting in settings:
        use(setting, 0.0)
        found = (index.search(queries, k)[1] >= wanted).mean(axis=1)
        use(setting, measured(found, given))
        if reaches(found, recall, given):
            return True
    return False


@njit(cache=True, nogil=True)
def _search_clusters(queries, centres, indptr, members, vectors, probes, found, scores):  # type: ignore[no-untyped-def]
    """vectors: in the order of `members`."""
    chosen = np.empty(probes, np.int32)
    closeness = np.empty(probes, np.float32)
    for row in range(len(queries)):
        query = queries[row]
        n_chosen = 0
        for centre in range(len(centres)):
            score = dot(query, centres[centre])
            n_chosen = keep_best(score, centre, closeness, chosen, n_chosen)
        filled = 0
        for cluster in chosen[:n_chosen]:
            for place in range(indptr[cluster], indptr[cluster + 1]):
                score = dot(query, vectors[place])
                filled = keep_best(score, members[place], scores[row], found[row], filled)


@njit(cache=True, nogil=True)
def _ask_clusters(  # type: ignore[no-untyped-def]
    queries, centres, indptr, members, vectors, probes, neighbours, power,
    y_indptr, y_indices, n_labels, labels, shares,
):  # fmt: skip
    found = np.full((len(queries), neighbours), -1)
    scores = np.full((len(queries), neighbours), np.float32(-np.inf))
    _search_clusters(queries, centres, indptr, members, vectors, probes, found, scores)
    one, alone = (len(queries), 1, neighbours), np.ones(1, np.float32)
    vote_rows(
        *(found.reshape(one), scores.reshape(one), power * alone, alone),
        *(y_indptr, y_indices, n_labels, labels, shares),
    )
