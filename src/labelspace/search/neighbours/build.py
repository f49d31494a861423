"""Nearest training examples in a learned space: which index to use, building and restoring it.

Vectors have length 1 (or are zeros), so that the largest inner product is the nearest. Few are
searched exactly; for many, a scan over 4-bit codes finds candidates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from labelspace._core.arrays import with_prefix
from labelspace._core.schema import Schema
from labelspace.errors import ParameterError
from labelspace.search.build import index_schema, is_large, restore_index
from labelspace.search.exact import BLOCK_BYTES, ExactIndex
from labelspace.search.faiss import has_faiss
from labelspace.search.index import InnerProductIndex, checked_rows, kind_of
from labelspace.search.neighbours.clusters import ClusterIndex
from labelspace.search.neighbours.k_means import ASSIGNED_AT_A_TIME, ROWS_PER_CLUSTER
from labelspace.search.product_codes import code_bytes
from labelspace.search.quantised import QuantisedIndex
from labelspace.search.tuning import (
    RERANK_SIZES,
    Sample,
    Tuner,
    checked_queries,
    probe_counts,
    sample_queries,
)

KINDS = ("auto", "exact", "clusters", "quantised")

_LARGEST_SHARE = 1 / 8  # of all examples that may be reranked; with more, exact search is as quick
_SUBDIM = 4  # dimensions that share a code of 4 bits


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
    """Build an index over the vectors of examples.

    Parameters
    ----------
    vectors : array-like of shape (examples, dimension)
        Vectors of length 1.
    k : int
        Number of neighbours per query; recall is measured at k.
    kind : {"auto", "exact", "clusters", "quantised"}
        "quantised" finds candidates by 4-bit codes (needs faiss). "auto" is exact for few
        examples, else clusters where their number or probes are given, else quantised, and exact
        where that does not reach the recall or faiss is missing.
    recall : float
        Share of the true k nearest to find; the cheapest settings that reach it are taken.
    clusters : int, optional
        Number of clusters; twice the root of the number of examples if None.
    probes : int, optional
        Number of clusters searched; chosen by recall if None.
    seed : int
        Seed of the sample queries, the clusters and the codes.
    queries : array-like of shape (n, dimension), optional
        Typical queries to measure recall on. Examples with noise are taken if None, and beside
        them where they are few.

    Returns
    -------
    InnerProductIndex
        The index.

    Raises
    ------
    InputError
        If vectors or queries are not finite numbers, or no queries are in `queries`.
    ParameterError
        If `kind` is unknown.
    MissingExtraError
        If `kind` needs faiss and it is not installed.
    """
    vectors = checked_rows(vectors, "vectors of examples")
    if kind not in KINDS:
        raise ParameterError(f"kind={kind!r}: expected one of {', '.join(KINDS)}")
    exact = ExactIndex(vectors)
    if len(vectors) == 0 or kind == "exact" or (kind == "auto" and not is_large(*vectors.shape)):
        return exact
    sample = _sample(vectors, queries, seed)
    by_codes = kind == "quantised" or (kind == "auto" and clusters is None and probes is None)
    if by_codes and kind == "auto" and not has_faiss():
        return exact
    tuner = Tuner.against(exact, sample, min(k, len(vectors)), recall)
    if by_codes:
        quantised, reached = _choose_codes(vectors, tuner, seed)
        return quantised if reached or kind == "quantised" else exact
    count = min(clusters or round(2 * np.sqrt(len(vectors))), len(vectors))
    index = ClusterIndex.build(vectors, count, seed)
    tuner.choose(index, [probes] if probes else probe_counts(count), index.set_probes)
    return index


def extend_neighbours(index: InnerProductIndex, vectors: np.ndarray) -> InnerProductIndex:
    """Return the index over more vectors, of which the first are its own, with its settings."""
    vectors = checked_rows(vectors, "vectors of examples", index.vectors.shape[1])
    if isinstance(index, ClusterIndex | QuantisedIndex):
        return index.extended(vectors)
    return ExactIndex(vectors)


def restore_neighbours(vectors: np.ndarray, arrays: Mapping[str, np.ndarray]) -> InnerProductIndex:
    """Return the index whose `state` the arrays are, over the vectors that it was built on."""
    if kind_of(arrays) == ClusterIndex.kind:
        return ClusterIndex.restore(np.ascontiguousarray(vectors, np.float32), arrays)
    return restore_index(vectors, arrays)


def neighbour_schema(
    arrays: Mapping[str, np.ndarray], prefix: str, examples: str, dim: str
) -> Schema:
    """Declare the arrays of an index whose names have this prefix, over so many examples."""
    if kind_of(with_prefix(prefix, arrays)) == ClusterIndex.kind:
        return ClusterIndex.schema(prefix, examples, dim)
    return index_schema(arrays, prefix, examples, dim)


def neighbour_bytes(n_examples: int, dim: int, kind: str = "auto") -> int:
    """Return the memory that building takes at its peak beside the vectors."""
    if kind == "exact" or (kind == "auto" and not is_large(n_examples, dim)):
        return BLOCK_BYTES
    if kind in ("auto", "quantised"):
        return BLOCK_BYTES + code_bytes(n_examples, dim)
    count = 2 * int(np.sqrt(n_examples)) + 1
    trained = min(n_examples, ROWS_PER_CLUSTER * count) * dim
    return BLOCK_BYTES + 4 * (trained + count * (dim + ASSIGNED_AT_A_TIME)) + 20 * n_examples


def _choose_codes(vectors: np.ndarray, tuner: Tuner, seed: int) -> tuple[QuantisedIndex, bool]:
    """Choose the fewest candidates that reach the recall and are quicker than exact search."""
    index = QuantisedIndex.build(vectors, _SUBDIM, seed)
    worthwhile = [size for size in RERANK_SIZES if size <= _LARGEST_SHARE * len(vectors)]
    reached = tuner.choose(index, worthwhile or RERANK_SIZES[:1], index.set_rerank_size)
    return index, reached and bool(worthwhile)


def _sample(vectors: np.ndarray, queries: Any, seed: int) -> Sample:
    """Draw queries to measure recall on: of those given, then examples with half as much noise."""
    rng = np.random.default_rng(seed)
    given = checked_queries(queries, vectors.shape[1])

    def with_noise(count: int) -> np.ndarray:
        chosen = vectors[rng.permutation(len(vectors))[:count]]
        noise = rng.standard_normal(chosen.shape, dtype=np.float32)
        return np.asarray(chosen + noise * np.float32(0.5 / np.sqrt(vectors.shape[1])))

    return sample_queries(given, rng, with_noise)
