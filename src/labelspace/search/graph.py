"""Approximate search: a walk over a graph of label vectors, from label to better label.

faiss builds the graph (HNSW by inner product); the walk is our own, over its base layer and on
vectors of 8-bit integers. Against searching with faiss this keeps one copy of the float vectors
instead of two, saves links alone (a sixth of the size of 256-dimensional vectors; the integers are
made anew on loading), needs no faiss once built, and reads a quarter of the bytes, which is where
the time goes.

Vectors of unequal length need no care: a graph built on inner products found more than one built
on the usual lift to equal lengths, by far, for every distribution of lengths we tried.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np
from numba import njit

from labelspace._core.checks import kept_count
from labelspace._core.threads import cores, parallel_blocks
from labelspace.errors import StoreError
from labelspace.search.codes import quantise
from labelspace.search.faiss import faiss_threads, load_faiss
from labelspace.search.index import TUNED_K, InnerProductIndex
from labelspace.search.walk import MOST_LINKS, walk

_BUILD_BEAM = 64  # 40 builds in two thirds of the time, but walks get caught in far clusters


class GraphIndex(InnerProductIndex):
    """Best-first walk that keeps the `beam` best labels met and stops when all were followed.

    The links are CSR: those of label i are indices[indptr[i]:indptr[i + 1]]. Every walk begins at
    the labels `entries`.
    """

    kind: ClassVar[str] = "hnsw"

    def __init__(
        self, vectors: np.ndarray, indptr: np.ndarray, indices: np.ndarray, entries: np.ndarray
    ) -> None:
        super().__init__(vectors)
        self.indptr, self.indices, self.entries = indptr, indices, entries
        self.steps, self.codes = quantise(vectors)
        self.set_beam(_BUILD_BEAM, recall=0.0)

    @classmethod
    def build(cls, vectors: np.ndarray, seed: int, deterministic: bool) -> Self:
        """Link the labels; walks begin at a random sample of about the root of their number."""
        indptr, indices = _link(vectors, threads=1 if deterministic else cores())
        n_entries = int(np.ceil(np.sqrt(len(vectors))))
        entries = np.random.default_rng(seed).choice(len(vectors), n_entries, replace=False)
        return cls(vectors, indptr, indices, np.sort(entries).astype(np.int32))

    @classmethod
    def restore(cls, vectors: np.ndarray, arrays: Mapping[str, np.ndarray]) -> Self:
        """Take back what `state` gave."""
        missing = {"indptr", "indices", "entries", "beam", "recall"} - set(arrays)
        if missing:
            raise StoreError(f"the search graph lacks {', '.join(sorted(missing))}")
        indptr, indices, entries = arrays["indptr"], arrays["indices"], arrays["entries"]
        if not _is_graph(len(vectors), indptr, indices, entries):
            raise StoreError("the search graph does not fit the label vectors")
        index = cls(vectors, indptr, indices, entries)
        index.set_beam(kept_count(arrays, "beam"), float(arrays["recall"][0]))
        return index

    def set_beam(self, beam: int, recall: float) -> None:
        """Walk with this beam, which was found to give this recall."""
        self.beam, self.recall = beam, recall
        self.settings = {"beam": beam, "links": len(self.indices), "entries": len(self.entries)}

    def state(self) -> dict[str, np.ndarray]:
        return {
            "indptr": self.indptr,
            "indices": self.indices,
            "entries": self.entries,
            "beam": np.array([self.beam]),
            "recall": np.array([self.recall]),
        }

    def _candidates(self, queries: np.ndarray, k: int) -> np.ndarray:
        # Found by trial: four more places for each further label keep recall about as it is.
        beam = min(self.beam + 4 * max(k - TUNED_K, 0), len(self.vectors))
        met = np.full((len(queries), beam), -1, np.int32)

        def block(start: int, stop: int) -> None:
            walk(
                *(queries[start:stop], self.steps, self.codes),
                *(self.indptr, self.indices, self.entries, met[start:stop]),
            )

        parallel_blocks(len(queries), block, block=32)
        return met


def graph_bytes(n_labels: int, dim: int) -> int:
    """Memory that building takes at its peak beside the vectors."""
    padded = 4 * (dim + _padding(dim)) if _padding(dim) else 0
    codes_and_links = dim + 2 * 4 * (MOST_LINKS + 2)
    return n_labels * (padded + 2 * codes_and_links)


def _padding(dim: int) -> int:
    """Zeros to append, since faiss's loops over codes are several times slower without them."""
    return -dim % 16


def _link(vectors: np.ndarray, threads: int) -> tuple[np.ndarray, np.ndarray]:
    """Links of the base layer of faiss's HNSW graph over 8-bit codes, as CSR."""
    faiss = load_faiss()
    n_labels, dim = vectors.shape
    rows = np.pad(vectors, ((0, 0), (0, _padding(dim)))) if _padding(dim) else vectors
    quantiser, metric = faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
    graph = faiss.IndexHNSWSQ(rows.shape[1], quantiser, MOST_LINKS // 2, metric)
    graph.hnsw.efConstruction = _BUILD_BEAM
    with faiss_threads(threads):
        graph.train(rows)
        graph.add(rows)
    offsets = faiss.vector_to_array(graph.hnsw.offsets).astype(np.int64)
    slots = faiss.vector_to_array(graph.hnsw.neighbors)
    indptr = np.zeros(n_labels + 1, np.int64)
    indices = np.empty(n_labels * MOST_LINKS, np.int32)
    _base_layer(offsets, slots, indptr, indices)
    return indptr, indices[: indptr[-1]].copy()


def _is_graph(n_labels: int, indptr: np.ndarray, indices: np.ndarray, entries: np.ndarray) -> bool:
    """Whether a walk would stay inside the arrays: it does not look where it steps."""
    return (
        (indptr.dtype == np.int64 and indices.dtype == entries.dtype == np.int32)
        and len(indptr) == n_labels + 1
        and (indptr[0], indptr[-1]) == (0, len(indices))
        and _all_below(MOST_LINKS + 1, np.diff(indptr))
        and _all_below(n_labels, indices)
        and _all_below(n_labels, entries)
    )


def _all_below(limit: int, values: np.ndarray) -> bool:
    return len(values) == 0 or bool(values.min() >= 0 and values.max() < limit)


@njit(cache=True, nogil=True)
def _base_layer(offsets, slots, indptr, indices):  # type: ignore[no-untyped-def]
    """The first MOST_LINKS slots of a label are its base layer; -1 ends the used ones."""
    filled = 0
    for label in range(len(indptr) - 1):
        for slot in range(offsets[label], offsets[label] + MOST_LINKS):
            if slots[slot] < 0:
                break
            indices[filled] = slots[slot]
            filled += 1
        indptr[label + 1] = filled
