"""Search over 4-bit codes, then exactly: for label sets from some ten thousand to some million.

faiss cuts a vector into pieces of a few dimensions and keeps for each the nearest of 16 typical
pieces. A query's products with those are looked up in registers, 32 labels at a time, so that a
scan over all labels costs a twentieth of exact search or less; the labels with the largest sums
are scored in full.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from labelspace._core.checks import kept_count
from labelspace.errors import StoreError
from labelspace.search.faiss import faiss_threads, load_faiss
from labelspace.search.index import TUNED_K, InnerProductIndex

N_TYPICAL = 16  # what 4 bits tell apart
_MARGIN = 8
_WIDER = 8  # more places on the short list for each label above TUNED_K, found by trial
_TRAINING_ROWS = 256 * N_TYPICAL
_ADD_BLOCK = 65_536
_SCANNED_TOGETHER = 64  # codes; a seventh quicker than faiss's 32


class QuantisedIndex(InnerProductIndex):
    """Scores all labels by codes, and the `short` best of them in full.

    typical  (pieces, 16, dimensions of a piece): what the codes stand for
    """

    kind: ClassVar[str] = "quantised"

    def __init__(self, vectors: np.ndarray, typical: np.ndarray, short: int) -> None:
        super().__init__(vectors)
        self.typical = np.ascontiguousarray(typical, np.float32)
        self._codes = coded(vectors, self.typical)
        self.set_short(short, recall=0.0)

    @classmethod
    def build(cls, vectors: np.ndarray, piece: int, seed: int) -> Self:
        """Learn typical pieces of `piece` dimensions from a sample of the vectors."""
        return cls(vectors, learn_typical(vectors, piece, seed), _MARGIN)

    @classmethod
    def restore(cls, vectors: np.ndarray, arrays: Mapping[str, np.ndarray]) -> Self:
        typical = arrays["typical"]
        if typical.ndim != 3 or typical.shape[1] != N_TYPICAL or typical.shape[2] < 1:
            raise StoreError(f"the search codes have shape {typical.shape}: the file is damaged")
        if typical.shape[0] != -(-vectors.shape[1] // typical.shape[2]):
            raise StoreError("the search codes do not fit the label vectors")
        index = cls(vectors, typical, kept_count(arrays, "short"))
        index.set_short(index.short, float(arrays["recall"][0]))
        return index

    def set_short(self, short: int, recall: float) -> None:
        """Score so many labels in full, which was found to give this recall."""
        self.short, self.recall = min(short, len(self.vectors)), recall
        pieces, _, piece = self.typical.shape
        self.settings = {"pieces": pieces, "piece": piece, "short": self.short}

    def extended(self, vectors: np.ndarray) -> Self:
        """The same codes over more vectors, of which the first are those there already."""
        index = type(self)(vectors, self.typical, self.short)
        index.set_short(self.short, self.recall)
        return index

    def state(self) -> dict[str, np.ndarray]:
        return {
            "typical": self.typical,
            "short": np.array([self.short]),
            "recall": np.array([self.recall]),
        }

    def _candidates(self, queries: np.ndarray, k: int) -> np.ndarray:
        wider = _WIDER * max(k - TUNED_K, 0)
        size = min(max(self.short + wider, k + _MARGIN), len(self.vectors))
        found = self._codes.search(padded(queries, self.typical.shape[2]), size)[1]
        labels = np.asarray(found, np.int32)
        for row in np.flatnonzero(labels[:, -1] < 0):  # faiss leaves out the worst codes of all
            missing = np.flatnonzero(labels[row] < 0)
            unused = np.setdiff1d(np.arange(2 * size), labels[row])
            labels[row, missing] = unused[: len(missing)]
        return labels


def learn_typical(vectors: np.ndarray, piece: int, seed: int) -> np.ndarray:
    """(pieces, 16, piece) float32 typical pieces of a sample of the vectors."""
    faiss = load_faiss()
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(vectors), min(len(vectors), _TRAINING_ROWS), replace=False)
    sample = padded(vectors[np.sort(chosen)], piece)
    quantiser = faiss.ProductQuantizer(sample.shape[1], sample.shape[1] // piece, 4)
    quantiser.cp.seed = seed
    quantiser.cp.min_points_per_centroid = 1  # few vectors are no reason to warn
    with faiss_threads(1):  # sums in one order, for the same bits every time
        quantiser.train(np.resize(sample, (max(len(sample), N_TYPICAL), sample.shape[1])))
    typical: np.ndarray = faiss.vector_to_array(quantiser.centroids)
    return typical.reshape(-1, N_TYPICAL, piece)


def quantised_bytes(n_labels: int, dim: int) -> int:
    """Memory of the finest codes, and of the block that is being encoded."""
    return n_labels * (dim // 4 + 1) + _ADD_BLOCK * 4 * (dim + 4)


def coded(vectors: np.ndarray, typical: np.ndarray, *, by_distance: bool = False) -> Any:
    """faiss's index over the codes of all vectors, by inner product or by flat distance."""
    faiss = load_faiss()
    pieces, _, piece = typical.shape
    metric = faiss.METRIC_L2 if by_distance else faiss.METRIC_INNER_PRODUCT
    codes = faiss.IndexPQFastScan(pieces * piece, pieces, 4, metric, _SCANNED_TOGETHER)
    faiss.copy_array_to_vector(typical.ravel(), codes.pq.centroids)
    codes.is_trained = True
    for start in range(0, len(vectors), _ADD_BLOCK):
        codes.add(padded(vectors[start : start + _ADD_BLOCK], piece))
    return codes


def padded(rows: np.ndarray, piece: int) -> np.ndarray:
    """Rows with zeros appended until pieces divide them."""
    missing = -rows.shape[1] % piece
    return np.pad(rows, ((0, 0), (0, missing))) if missing else np.ascontiguousarray(rows)
