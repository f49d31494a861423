"""Product quantisation in 4 bits: codebooks, codes and the scan over them, by faiss.

A vector is cut into subvectors of `subdim` dimensions, and each is replaced by the nearest of 16
centroids of its codebook. A query's products with (or distances to) the centroids are looked up in
registers, 32 codes at a time.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from labelspace._core.schema import Schema, floats, ints
from labelspace.errors import StoreError
from labelspace.search.faiss import faiss_threads, load_faiss
from labelspace.search.index import kind_schema, stored_kind
from labelspace.search.stored_vectors import Vectors

N_CENTROIDS = 16  # of a subvector: what 4 bits can number
_TRAINING_ROWS = 256 * N_CENTROIDS
_ENCODED_ROWS = 65_536  # encoded at a time, which bounds memory
_BLOCK_SIZE = 64  # codes per block of the scan; a seventh quicker than faiss's default of 32


class ProductCodes:
    """Codes of vectors in an index of faiss that scans all of them.

    Parameters
    ----------
    vectors : ndarray or StoredVectors of shape (n, dimension)
        What is encoded.
    codebook : ndarray of shape (n_subquantisers, 16, subdim)
        The centroids.
    by_distance : bool
        Whether candidates are the nearest by Euclidean distance instead of inner product.
    known : ndarray, optional
        The `packed` codes of the first `n_known` vectors, which are not encoded again.
    n_known : int, default 0
    """

    def __init__(
        self,
        vectors: Vectors,
        codebook: np.ndarray,
        *,
        by_distance: bool = False,
        known: np.ndarray | None = None,
        n_known: int = 0,
    ) -> None:
        faiss = load_faiss()
        self.codebook = np.ascontiguousarray(codebook, np.float32)
        self.n_subquantisers, _, self.subdim = codebook.shape
        metric = faiss.METRIC_L2 if by_distance else faiss.METRIC_INNER_PRODUCT
        dim = self.n_subquantisers * self.subdim
        self._index = faiss.IndexPQFastScan(dim, self.n_subquantisers, 4, metric, _BLOCK_SIZE)
        faiss.copy_array_to_vector(self.codebook.ravel(), self._index.pq.centroids)
        self._index.is_trained = True
        if known is not None and n_known:
            self._take(known, n_known)
        for start in range(self._index.ntotal, len(vectors), _ENCODED_ROWS):
            self._index.add(_padded(vectors[start : start + _ENCODED_ROWS], self.subdim))

    @property
    def packed(self) -> np.ndarray:
        """The codes of all vectors as faiss keeps them, uint8."""
        return np.asarray(load_faiss().AlignedTable_to_array(self._index.codes))

    def _take(self, packed: np.ndarray, count: int) -> None:
        """Copy the codes of `count` vectors; raise StoreError if there are not as many."""
        blocks = -(-count // _BLOCK_SIZE)
        size = blocks * _BLOCK_SIZE * (self._index.M2 // 2)
        if packed.dtype != np.uint8 or packed.shape != (size,):
            raise StoreError("the search codes do not fit the vectors: restore the model")
        self._index.codes.resize(size)
        load_faiss().copy_array_to_AlignedTable(packed, self._index.codes)
        self._index.ntotal, self._index.ntotal2 = count, blocks * _BLOCK_SIZE

    def candidates(self, queries: np.ndarray, size: int) -> np.ndarray:
        """Return (n, size) int32 ids of the vectors that are best by their codes.

        `size` is at most the number of vectors.
        """
        ids = np.asarray(self._index.search(_padded(queries, self.subdim), size)[1], np.int32)
        for row in np.flatnonzero(ids[:, -1] < 0):  # faiss leaves out the worst codes of all
            missing = np.flatnonzero(ids[row] < 0)
            unused = np.setdiff1d(np.arange(2 * size), ids[row])
            ids[row, missing] = unused[: len(missing)]
        return ids


def train_codebook(vectors: Vectors, subdim: int, seed: int) -> np.ndarray:
    """Fit centroids to a sample of the vectors, (n_subquantisers, 16, subdim) float32."""
    faiss = load_faiss()
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(vectors), min(len(vectors), _TRAINING_ROWS), replace=False)
    sample = _padded(vectors[np.sort(chosen)], subdim)
    quantiser = faiss.ProductQuantizer(sample.shape[1], sample.shape[1] // subdim, 4)
    quantiser.cp.seed = seed
    quantiser.cp.min_points_per_centroid = 1  # few vectors are no reason to warn
    with faiss_threads(1):  # sums in one order, for the same bits every time
        quantiser.train(np.resize(sample, (max(len(sample), N_CENTROIDS), sample.shape[1])))
    centroids: np.ndarray = faiss.vector_to_array(quantiser.centroids)
    return centroids.reshape(-1, N_CENTROIDS, subdim)


def code_schema(kind: str, prefix: str) -> Schema:
    """Declare what `code_state` returns."""
    return [
        *kind_schema(prefix, kind),
        floats(f"{prefix}codebook", f"{prefix}subvectors", N_CENTROIDS, f"{prefix}subdim"),
        ints(f"{prefix}codes", f"{prefix}codes", types="u1", required=False),
        ints(f"{prefix}rerank_size", 1, low=1),
    ]


def stored_codebook(arrays: Mapping[str, np.ndarray], dim: int) -> np.ndarray:
    """Return the codebook among stored arrays; raise StoreError if it is not one for `dim`."""
    codebook = arrays["codebook"]
    subvectors, _, subdim = codebook.shape
    if subdim < 1 or subvectors != -(-dim // subdim):
        raise StoreError("the search codes do not fit the vectors: restore the model from a copy")
    return codebook


def code_state(
    kind: str, codes: ProductCodes, rerank_size: int, recall: float
) -> dict[str, np.ndarray]:
    """Return the arrays of an index over codes."""
    return {
        "kind": stored_kind(kind),
        "codebook": codes.codebook,
        "codes": codes.packed,
        "rerank_size": np.array([rerank_size]),
        "recall": np.array([recall]),
    }


def code_bytes(n_vectors: int, dim: int) -> int:
    """Return the memory of the finest codes and of the block that is being encoded."""
    return n_vectors * (dim // 4 + 1) + _ENCODED_ROWS * 4 * (dim + 4)


def _padded(rows: np.ndarray, subdim: int) -> np.ndarray:
    """Append zeros until the dimension is a multiple of `subdim`."""
    missing = -rows.shape[1] % subdim
    return np.pad(rows, ((0, 0), (0, missing))) if missing else np.ascontiguousarray(rows)
