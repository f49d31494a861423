"""Maximum inner product search over label vectors: which index to use, built and brought back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from labelspace.errors import InputError, ParameterError
from labelspace.search.exact import BLOCK_BYTES, ExactIndex
from labelspace.search.graph import TUNED_K, GraphIndex, graph_bytes
from labelspace.search.index import InnerProductIndex, checked_rows
from labelspace.search.projected import ProjectedIndex, leading_directions

KINDS = ("auto", "exact", "projected", "hnsw")

# Up to so many multiplications a single exact query takes about 0.2 ms.
_EXACT_PRODUCTS = 2_000_000

_TUNING_QUERIES = 512

# Above so many labels a graph is quicker to ask, and worth its building.
_MOST_PROJECTED = 65_536
_WORTH_IT = 2.0
_DIRECTION_SHARES = (1 / 16, 1 / 8, 3 / 16, 1 / 4, 3 / 8)
_SHORT_LISTS = (64, 128, 256, 512)
_BEAMS = tuple(round(16 * 2 ** (step / 4)) for step in range(25))  # 16, 19, 23, 27, 32, ... 1024


def build_index(
    vectors: Any,
    *,
    kind: str = "auto",
    recall: float = 0.99,
    seed: int = 0,
    queries: Any = None,
    deterministic: bool = True,
) -> InnerProductIndex:
    """An index over vectors (labels, dimension).

    kind           "exact"; "projected" (short list in fewer dimensions); "hnsw" (a graph, needs
                   faiss); or "auto": exact for few labels, projected for some ten thousand if
                   that is quick enough, else hnsw, and exact where nothing reaches the recall
    recall         share of the true best 5 that approximate search has to find; it takes the
                   smallest beam that does so on sample queries
    seed           of the sample queries and of where walks begin
    queries        (n, dimension) typical queries to measure recall on; label vectors with noise
                   if None
    deterministic  builds the graph on one thread, for the same bits every time (100,000 vectors of
                   256: about 40 s); if False, all cores share the work
    """
    vectors = checked_rows(vectors, "label vectors")
    if kind not in KINDS:
        raise ParameterError(f"kind={kind!r}: expected one of {', '.join(KINDS)}")
    if not 0 < recall <= 1:
        raise ParameterError(f"recall={recall}: expected a number above 0 and at most 1")
    exact = ExactIndex(vectors)
    if kind == "exact" or len(vectors) == 0 or (kind == "auto" and not needs_graph(*vectors.shape)):
        return exact
    sample, others = _sample(vectors, queries, seed)
    if kind == "projected" or (kind == "auto" and len(vectors) <= _MOST_PROJECTED):
        projected, reached = _choose_projection(exact, sample, others, recall)
        if kind == "projected" or (reached and projected.products <= vectors.size / _WORTH_IT):
            return projected
    graph = GraphIndex.build(vectors, seed, deterministic)
    reached = _choose_beam(graph, exact, sample, recall)
    return exact if kind == "auto" and not reached else graph


def restore_index(vectors: np.ndarray, arrays: Mapping[str, np.ndarray]) -> InnerProductIndex:
    """The index whose `state` the arrays are, over the vectors that it was built on."""
    vectors = np.ascontiguousarray(vectors, np.float32)  # they may be kept in half precision
    if "directions" in arrays:
        return ProjectedIndex.restore(vectors, arrays)
    return GraphIndex.restore(vectors, arrays) if arrays else ExactIndex(vectors)


def index_bytes(n_labels: int, dim: int) -> int:
    """Memory that "auto" takes at its peak, to build or to search, beside the vectors."""
    return BLOCK_BYTES + (graph_bytes(n_labels, dim) if needs_graph(n_labels, dim) else 0)


def needs_graph(n_labels: int, dim: int) -> bool:
    """Whether "auto" builds a graph for vectors of this shape."""
    return n_labels * dim > _EXACT_PRODUCTS


def _sample(vectors: np.ndarray, queries: Any, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Queries to measure recall on, and others to learn directions from.

    At most half of those given are measured on, or labels with noise of their length.
    """
    rng = np.random.default_rng(seed)
    source = vectors if queries is None else checked_rows(queries, "queries", vectors.shape[1])
    if len(source) == 0:
        raise InputError("queries to measure recall on were given, but none are in them")
    count = min(max(1, len(source) // 2), _TUNING_QUERIES)
    order = rng.permutation(len(source))
    chosen, others = source[np.sort(order[:count])], source[np.sort(order[count:])]
    if queries is not None:
        return chosen, others
    noise = rng.standard_normal(chosen.shape, dtype=np.float32)
    noise *= np.linalg.norm(chosen, axis=1, keepdims=True) / np.sqrt(vectors.shape[1])
    noise += chosen
    return noise, others


def _choose_projection(
    exact: ExactIndex, queries: np.ndarray, others: np.ndarray, recall: float
) -> tuple[ProjectedIndex, bool]:
    """The cheapest number of directions and length of the short list that reach the recall."""
    vectors = exact.vectors
    directions = leading_directions(vectors, others)
    k = min(TUNED_K, len(vectors))
    wanted = exact.search(queries, k)[1][:, -1:]
    for share in _DIRECTION_SHARES:
        index = ProjectedIndex(vectors, directions[: max(1, round(share * len(directions)))], k)
        for short in _SHORT_LISTS:
            index.short = index.settings["short"] = min(short, len(vectors))
            found = (index.search(queries, k)[1] >= wanted).mean(axis=1)
            index.recall = float(found.mean())
            if index.recall >= recall + found.std() / np.sqrt(len(found)):
                return index, True
    return index, False


def _choose_beam(graph: GraphIndex, exact: ExactIndex, queries: np.ndarray, recall: float) -> bool:
    """Set the smallest beam that reaches the recall; False if even the widest does not."""
    k = min(TUNED_K, len(graph.vectors))
    # By score, not by id: of labels with equal scores any will do.
    wanted = exact.search(queries, k)[1][:, -1:]
    for beam in _BEAMS:
        graph.set_beam(beam, recall=0.0)
        found = (graph.search(queries, k)[1] >= wanted).mean(axis=1)
        graph.set_beam(beam, recall=float(found.mean()))
        # One standard error on top, or half of all indexes would fall short on other queries.
        if graph.recall >= recall + found.std() / np.sqrt(len(found)):
            return True
    return False
