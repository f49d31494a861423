"""Common parts of dense text features: rows of length 1, a cache, and tables of token vectors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.checks import expect
from labelspace._core.dense import unit_array
from labelspace._core.schema import Schema, floats, ints
from labelspace._core.sparse import digest
from labelspace.features.base import TextTransformer
from labelspace.features.cache import cached_vectors
from labelspace.features.ngrams import checked_texts

_LARGEST_CODE = 127  # of int8


class DenseFeatures(TextTransformer):
    """A few hundred numbers per text, as CSR rows of length 1; a text without tokens is empty."""

    def transform(self, texts: Iterable[str]) -> csr_matrix:
        """Return (n, n_features) float32, from the cache for a file of texts that it has."""
        listed = checked_texts(texts)
        found = cached_vectors(
            listed,
            lambda: digest(self.kind, self._identity()),
            lambda: {"vectors": self._vectors(listed)},
        )
        return csr_matrix(unit_array(found["vectors"]))

    def feature_names(self) -> list[str]:
        """Return the number of each column, which has no meaning of its own."""
        return [f"{self.kind} {column}" for column in range(self.n_features)]

    @abstractmethod
    def _vectors(self, texts: Sequence[str]) -> np.ndarray:
        """Return (n, n_features) float32, rows of any length."""

    @abstractmethod
    def _identity(self) -> str:
        """Return a fingerprint of all that the vectors depend on beside the texts."""


@dataclass(frozen=True, eq=False)
class TokenTable:
    """A vector per token, quantised to a byte per number, so that a saved model stays small.

    Attributes
    ----------
    codes : ndarray of shape (tokens, dim), int8
        The quantised vectors.
    scales : ndarray of shape (tokens,), float32
        The factor of each token's codes.
    """

    codes: np.ndarray
    scales: np.ndarray

    @classmethod
    def of(cls, vectors: np.ndarray) -> TokenTable:
        """Quantise each vector: the error is below half a percent of its largest component."""
        largest = np.abs(vectors).max(axis=1, initial=0.0)
        scales = (np.where(largest > 0, largest, 1.0) / _LARGEST_CODE).astype(np.float32)
        codes = np.rint(vectors / scales[:, None]).astype(np.int8)
        return cls(codes, scales)

    @classmethod
    def restored(cls, arrays: Mapping[str, np.ndarray], n_tokens: int) -> TokenTable:
        """Return the table of arrays of the schema, for at least `n_tokens` tokens."""
        expect(n_tokens <= len(arrays["codes"]), "the vectors do not fit the tokens")
        return cls(arrays["codes"], arrays["scales"])

    @staticmethod
    def schema() -> Schema:
        """Declare `arrays`."""
        return [
            ints("codes", "tokens", "columns", low=-128, types="i1"),
            floats("scales", "tokens"),
        ]

    def sums(self, tokens: Sequence[Sequence[int]]) -> np.ndarray:
        """Return (n, dim) float32: the sum of the vectors of each text's tokens.

        A row has the same bits in any batch.
        """
        ends = np.cumsum([0, *map(len, tokens)])
        ids = np.fromiter(chain.from_iterable(tokens), np.int64, int(ends[-1]))
        used, places = np.unique(ids, return_inverse=True)
        counts = csr_matrix((np.ones(len(ids), np.float32), places, ends), (len(tokens), len(used)))
        counts.sum_duplicates()  # in the order of tokens: the same sum in any batch
        vectors = self.codes[used].astype(np.float32) * self.scales[used, None]
        return np.asarray(counts @ vectors)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what `restored` takes."""
        return {"codes": self.codes, "scales": self.scales}
