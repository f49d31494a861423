"""Maximum inner product search over label vectors: which index to use, built and brought back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from labelspace.errors import InputError, ParameterError
from labelspace.search.exact import BLOCK_BYTES, ExactIndex
from labelspace.search.faiss import has_faiss, load_faiss
from labelspace.search.index import TUNED_K, InnerProductIndex, checked_rows
from labelspace.search.projected import ProjectedIndex, leading_directions
from labelspace.search.quantised import QuantisedIndex, quantised_bytes
from labelspace.search.tuning import QUERIES, measured, reaches, tuning_queries

KINDS = ("auto", "exact", "projected", "quantised")

# Up to so many multiplications a single exact query takes about 0.2 ms.
_EXACT_PRODUCTS = 2_000_000

# Above so many labels scans of codes are quicker, and codes worth their building.
_MOST_PROJECTED = 65_536
_PIECES = (8, 4, 2)  # dimensions that share a code of 4 bits
_WORTH_IT = 2.0
_DIRECTION_SHARES = (1 / 16, 1 / 8, 3 / 16, 1 / 4, 3 / 8)
_SHORT_LISTS = (64, 128, 256, 512)
_LONGER_LISTS = (1024, 2048, 4096)  # worth it beside a million labels


def build_index(
    vectors: Any,
    *,
    kind: str = "auto",
    recall: float = 0.99,
    seed: int = 0,
    queries: Any = None,
    at_least: InnerProductIndex | None = None,
) -> InnerProductIndex:
    """An index over vectors (labels, dimension).

    kind           "exact"; "projected" (short list in fewer dimensions); "quantised" (short list
                   by 4-bit codes, needs faiss); or "auto": exact for few labels, projected for
                   some ten thousand if that is quick enough, else quantised, and exact where
                   that does not reach the recall or faiss is missing
    recall         share of the true best 5 that approximate search has to find; it takes the
                   least effort that does so on sample queries
    seed           of the sample queries and of the codes
    queries        (n, dimension) typical queries to measure recall on; label vectors with noise
                   if None, and beside them where they are few
    at_least       an index over these vectors before they changed a little, tuned on more typical
                   queries than there are now: search takes no less effort than it did
    """
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
    sample, given, others = _sample(vectors, queries, seed)
    measure = _Measure(exact, sample, given, recall)
    few = len(vectors) <= _MOST_PROJECTED and not isinstance(at_least, QuantisedIndex)
    if kind == "projected" or (kind == "auto" and few):
        projected, reached = _choose_projection(measure, others, at_least)
        if kind == "projected" or (reached and projected.products <= vectors.size / _WORTH_IT):
            return projected
        if kind == "auto" and not has_faiss():
            return projected if reached else exact
    if kind == "auto" and not has_faiss():
        return exact
    quantised, reached = _choose_codes(measure, seed, at_least)
    return exact if kind == "auto" and not reached else quantised


def restore_index(vectors: np.ndarray, arrays: Mapping[str, np.ndarray]) -> InnerProductIndex:
    """The index whose `state` the arrays are, over the vectors that it was built on."""
    vectors = np.ascontiguousarray(vectors, np.float32)  # they may be kept in half precision
    if "directions" in arrays:
        return ProjectedIndex.restore(vectors, arrays)
    if "typical" in arrays:
        return QuantisedIndex.restore(vectors, arrays)
    return ExactIndex(vectors)


def index_bytes(n_labels: int, dim: int) -> int:
    """Memory that "auto" takes at its peak, to build or to search, beside the vectors."""
    return BLOCK_BYTES + (quantised_bytes(n_labels, dim) if is_large(n_labels, dim) else 0)


def is_large(n_labels: int, dim: int) -> bool:
    """Whether "auto" looks for something quicker than exact search at this shape."""
    return n_labels * dim > _EXACT_PRODUCTS


def check_search(n_vectors: int, dim: int) -> None:
    """Raise MissingExtraError, before training, where "auto" will need faiss to be quick enough."""
    if n_vectors > _MOST_PROJECTED and is_large(n_vectors, dim):
        load_faiss()


def _sample(vectors: np.ndarray, queries: Any, seed: int) -> tuple[np.ndarray, int, np.ndarray]:
    """Queries to measure recall on, how many are of those given, and others to learn from.

    At most half of those given are measured on; labels with noise of their length fill up.
    """
    rng = np.random.default_rng(seed)
    given = None if queries is None else checked_rows(queries, "queries", vectors.shape[1])
    if given is not None and len(given) == 0:
        raise InputError("queries to measure recall on were given, but none are in them")
    source = vectors if given is None else given
    order = rng.permutation(len(source))
    count = min(max(1, len(source) // 2), QUERIES)
    chosen, others = source[np.sort(order[:count])], source[np.sort(order[count:])]
    if given is None:
        return _with_noise(chosen, rng), 0, others

    def noisy_labels(missing: int) -> np.ndarray:
        return _with_noise(vectors[np.sort(rng.integers(0, len(vectors), missing))], rng)

    return *tuning_queries(chosen, QUERIES, rng, noisy_labels), others


def _with_noise(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    noise = rng.standard_normal(rows.shape, dtype=np.float32)
    noise *= np.linalg.norm(rows, axis=1, keepdims=True) / np.sqrt(rows.shape[1])
    noise += rows
    return noise


def _choose_projection(
    measure: _Measure,
    others: np.ndarray,
    at_least: InnerProductIndex | None,
) -> tuple[ProjectedIndex, bool]:
    """The cheapest number of directions and length of the short list that reach the recall."""
    vectors = measure.exact.vectors
    directions = leading_directions(vectors, others)
    k = min(TUNED_K, len(vectors))
    least, shortest = 1, 1
    if isinstance(at_least, ProjectedIndex):
        least, shortest = len(at_least.directions), at_least.short
    sizes = [max(1, round(share * len(directions))) for share in _DIRECTION_SHARES]
    for size in [size for size in sizes if size >= least] or sizes[-1:]:
        index = ProjectedIndex(vectors, directions[:size], k)
        for short in _at_least(shortest, _SHORT_LISTS):
            index.short = index.settings["short"] = min(short, len(vectors))
            index.recall, reached = measure(index)
            if reached:
                return index, True
    return index, False


def _choose_codes(
    measure: _Measure, seed: int, at_least: InnerProductIndex | None
) -> tuple[QuantisedIndex, bool]:
    """The coarsest codes and the shortest short list that reach the recall."""
    coarsest, shortest = _PIECES[0], 1
    if isinstance(at_least, QuantisedIndex):
        coarsest, shortest = at_least.typical.shape[2], at_least.short
    for piece in [piece for piece in _PIECES if piece <= coarsest] or _PIECES[-1:]:
        index = QuantisedIndex.build(measure.exact.vectors, piece, seed)
        for short in _at_least(shortest, (*_SHORT_LISTS, *_LONGER_LISTS)):
            index.set_short(short, recall=0.0)
            found, reached = measure(index)
            index.set_short(short, recall=found)
            if reached:
                return index, True
    return index, False


def _at_least(least: int, settings: Sequence[int]) -> Sequence[int]:
    """Those of the rising settings that are no smaller; the last if there are none."""
    return [setting for setting in settings if setting >= least] or settings[-1:]


class _Measure:
    """Measures an index: the recall found, and whether it is what is wanted on other queries too.

    By score, not by id: of labels with equal scores any will do.
    """

    def __init__(self, exact: ExactIndex, queries: np.ndarray, given: int, recall: float) -> None:
        self.exact, self.queries, self.given, self.recall = exact, queries, given, recall
        self.k = min(TUNED_K, len(exact.vectors))
        self.wanted = exact.search(queries, self.k)[1][:, -1:]  # the last of the true best scores

    def __call__(self, index: InnerProductIndex) -> tuple[float, bool]:
        found = (index.search(self.queries, self.k)[1] >= self.wanted).mean(axis=1)
        return measured(found, self.given), reaches(found, self.recall, self.given)
