"""Maximum inner product search over label vectors: building and restoring the right index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from labelspace._core.arrays import with_prefix
from labelspace._core.schema import Schema
from labelspace.errors import ParameterError
from labelspace.search.exact import BLOCK_BYTES, ExactIndex
from labelspace.search.faiss import has_faiss, load_faiss
from labelspace.search.index import (
    TUNED_K,
    InnerProductIndex,
    checked_rows,
    kind_of,
    unknown_kind,
)
from labelspace.search.product_codes import code_bytes, code_schema
from labelspace.search.projected import ProjectedIndex, leading_directions
from labelspace.search.quantised import QuantisedIndex
from labelspace.search.stored_vectors import StoredVectors, Vectors
from labelspace.search.tuning import (
    QUERIES,
    RERANK_SIZES,
    Sample,
    Tuner,
    checked_queries,
    from_least,
    sample_queries,
)

KINDS = ("auto", "exact", "projected", "quantised")

# Up to this number of multiplications a single exact query takes about 0.2 ms.
_EXACT_PRODUCTS = 2_000_000

# Above this number of labels scans of 4-bit codes are quicker, and worth their building.
_MOST_PROJECTED = 65_536
_LEAST_SPEEDUP = 2.0  # of projected over exact search, in multiplications
_DIRECTION_SHARES = (1 / 16, 1 / 8, 3 / 16, 1 / 4, 3 / 8)  # of the dimension
_PROJECTED_SIZES = RERANK_SIZES[:4]  # longer lists take as long as the scan
_SUBDIMS = (8, 4, 2)  # dimensions that share a code of 4 bits
_CODED_SIZES = RERANK_SIZES[:7]


def build_index(
    vectors: Any,
    *,
    kind: str = "auto",
    recall: float = 0.99,
    seed: int = 0,
    queries: Any = None,
    at_least: InnerProductIndex | None = None,
) -> InnerProductIndex:
    """Build an index over label vectors.

    Parameters
    ----------
    vectors : array-like or StoredVectors of shape (labels, dimension)
        The label vectors.
    kind : {"auto", "exact", "projected", "quantised"}
        "projected" finds candidates in fewer dimensions, "quantised" by 4-bit codes (needs faiss).
        "auto" is exact for few labels, projected for some ten thousand if that is quick enough,
        else quantised, and exact where that does not reach the recall or faiss is missing.
    recall : float
        Share of the true best 5 that approximate search has to find; the cheapest settings that
        reach it on sample queries are taken.
    seed : int
        Seed of the sample queries and of the codes.
    queries : array-like of shape (n, dimension), optional
        Typical queries to measure recall on. Label vectors with noise are taken if None, and
        beside them where they are few.
    at_least : InnerProductIndex, optional
        An index over these vectors before they changed a little, tuned on more typical queries
        than there are now: search takes no less effort than it did.

    Returns
    -------
    InnerProductIndex
        The index.

    Raises
    ------
    InputError
        If vectors or queries are not finite numbers, or no queries are in `queries`.
    ParameterError
        If `kind` or `recall` is out of range.
    MissingExtraError
        If `kind` needs faiss and it is not installed.
    """
    if not isinstance(vectors, StoredVectors):
        vectors = checked_rows(vectors, "label vectors")
    if kind not in KINDS:
        raise ParameterError(f"kind={kind!r}: expected one of {', '.join(KINDS)}")
    if not 0 < recall <= 1:
        raise ParameterError(f"recall={recall}: expected a number above 0 and at most 1")
    exact = ExactIndex(vectors)
    if kind == "exact" or len(vectors) == 0 or (kind == "auto" and not is_large(*vectors.shape)):
        return exact
    if isinstance(at_least, ExactIndex) and is_large(*at_least.vectors.shape):
        return exact  # nothing else reached the recall
    sample, others = _split_queries(vectors, queries, seed)
    tuner = Tuner.against(exact, sample, min(TUNED_K, len(vectors)), recall)
    few = len(vectors) <= _MOST_PROJECTED and not isinstance(at_least, QuantisedIndex)
    if kind == "projected" or (kind == "auto" and few):
        projected, reached = _choose_projection(vectors, tuner, others, at_least)
        if kind == "projected" or (reached and projected.products <= vectors.size / _LEAST_SPEEDUP):
            return projected
        if not has_faiss():
            return projected if reached else exact
    if kind == "auto" and not has_faiss():
        return exact
    quantised, reached = _choose_codes(vectors, tuner, seed, at_least)
    return exact if kind == "auto" and not reached else quantised


def restore_index(vectors: Vectors, arrays: Mapping[str, np.ndarray]) -> InnerProductIndex:
    """Return the index whose `state` the arrays are.

    Parameters
    ----------
    vectors : ndarray or StoredVectors of shape (labels, dimension)
        The vectors that it was built on, in any precision.
    arrays : mapping of str to ndarray
        What `state` returned.

    Raises
    ------
    StoreError
        If the arrays are of no known kind or do not fit the vectors.
    """
    if isinstance(vectors, np.ndarray):
        vectors = np.ascontiguousarray(vectors, np.float32)
    kind = kind_of(arrays)
    if kind == ExactIndex.kind:
        return ExactIndex(vectors)
    if kind == ProjectedIndex.kind:
        return ProjectedIndex.restore(vectors, arrays)
    if kind == QuantisedIndex.kind:
        return QuantisedIndex.restore(vectors, arrays)
    raise unknown_kind(kind)


def index_schema(arrays: Mapping[str, np.ndarray], prefix: str, rows: str, dim: str) -> Schema:
    """Declare the arrays of an index whose names have this prefix, over `rows` vectors of `dim`.

    The kind decides on the others; one that is unknown is refused by `restore_index`.
    """
    kind = kind_of(with_prefix(prefix, arrays))
    if kind == ExactIndex.kind:
        return []
    if kind == ProjectedIndex.kind:
        return ProjectedIndex.schema(arrays, prefix, rows, dim)
    if kind == QuantisedIndex.kind:
        return code_schema(kind, prefix)
    raise unknown_kind(kind)


def index_bytes(n_labels: int, dim: int) -> int:
    """Return the memory that "auto" takes at its peak beside the vectors, to build or to search."""
    return BLOCK_BYTES + (code_bytes(n_labels, dim) if is_large(n_labels, dim) else 0)


def is_large(n_labels: int, dim: int) -> bool:
    """Return whether "auto" tries what is quicker than exact search at this shape."""
    return n_labels * dim > _EXACT_PRODUCTS


def check_search(n_vectors: int, dim: int) -> None:
    """Raise MissingExtraError, before training, where "auto" will need faiss to be quick enough."""
    if n_vectors > _MOST_PROJECTED and is_large(n_vectors, dim):
        load_faiss()


class _Split(NamedTuple):
    sample: Sample
    others: np.ndarray  # that the index may be fitted to


def _split_queries(vectors: Vectors, queries: Any, seed: int) -> _Split:
    """Draw queries to measure recall on: at most half of those given, then labels with noise."""
    rng = np.random.default_rng(seed)
    given = checked_queries(queries, vectors.shape[1])
    source = vectors if given is None else given
    order = rng.permutation(len(source))
    count = min(max(1, len(source) // 2), QUERIES)
    chosen, others = source[np.sort(order[:count])], source[np.sort(order[count:])]
    if given is None:
        return _Split(Sample(_with_noise(chosen, rng), 0), others)

    def noisy_labels(missing: int) -> np.ndarray:
        return _with_noise(vectors[np.sort(rng.integers(0, len(vectors), missing))], rng)

    return _Split(sample_queries(chosen, rng, noisy_labels), others)


def _with_noise(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Add noise of each row's own length."""
    noise = rng.standard_normal(rows.shape, dtype=np.float32)
    noise *= np.linalg.norm(rows, axis=1, keepdims=True) / np.sqrt(rows.shape[1])
    noise += rows
    return noise


def _choose_projection(
    vectors: Vectors, tuner: Tuner, others: np.ndarray, at_least: InnerProductIndex | None
) -> tuple[ProjectedIndex, bool]:
    """Choose the fewest directions and candidates that reach the recall."""
    directions = leading_directions(vectors[:], others)
    fewest, shortest = 1, 1
    if isinstance(at_least, ProjectedIndex):
        fewest, shortest = len(at_least.directions), at_least.rerank_size
    counts = [max(1, round(share * len(directions))) for share in _DIRECTION_SHARES]
    for count in from_least(fewest, counts):
        index = ProjectedIndex(vectors, directions[:count], TUNED_K)
        if tuner.choose(index, from_least(shortest, _PROJECTED_SIZES), index.set_rerank_size):
            return index, True
    return index, False


def _choose_codes(
    vectors: Vectors, tuner: Tuner, seed: int, at_least: InnerProductIndex | None
) -> tuple[QuantisedIndex, bool]:
    """Choose the coarsest codes and the fewest candidates that reach the recall."""
    coarsest, shortest = _SUBDIMS[0], 1
    if isinstance(at_least, QuantisedIndex):
        coarsest, shortest = at_least.codes.subdim, at_least.rerank_size
    for subdim in [subdim for subdim in _SUBDIMS if subdim <= coarsest] or _SUBDIMS[-1:]:
        index = QuantisedIndex.build(vectors, subdim, seed)
        if tuner.choose(index, from_least(shortest, _CODED_SIZES), index.set_rerank_size):
            return index, True
    return index, False
