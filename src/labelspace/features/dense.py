"""What dense text features share: rows of length 1, their cache, and tables of token vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar, Self

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.checks import are_numbers, expect
from labelspace._core.dense import unit_array
from labelspace._core.sparse import digest
from labelspace.errors import ParameterError
from labelspace.features.cache import kept
from labelspace.features.ngrams import checked_texts

_LARGEST_CODE = 127


class DenseFeatures(ABC):
    """A few hundred numbers a text, as CSR rows of length 1; a text without tokens is empty."""

    kind: ClassVar[str]

    @property
    @abstractmethod
    def n_features(self) -> int: ...

    @abstractmethod
    def fit(self, texts: Iterable[str]) -> Self: ...

    def fit_transform(self, texts: Iterable[str]) -> csr_matrix:
        """`fit` and `transform` of the same texts."""
        listed = checked_texts(texts)
        return self.fit(listed).transform(listed)

    def transform(self, texts: Iterable[str]) -> csr_matrix:
        """(n, n_features) float32, from the cache where a whole file of texts was seen before."""
        listed = checked_texts(texts)
        found = kept(
            listed,
            lambda: digest(self.kind, self._identity()),
            lambda: {"vectors": self._vectors(listed)},
        )
        return csr_matrix(unit_array(found["vectors"]))

    def feature_names(self) -> list[str]:
        """A column has no meaning of its own: its number stands in."""
        return [f"{self.kind} {column}" for column in range(self.n_features)]

    @abstractmethod
    def _vectors(self, texts: Sequence[str]) -> np.ndarray:
        """(n, n_features) float32 of any length."""

    @abstractmethod
    def _identity(self) -> str:
        """A fingerprint of all that the vectors depend on beside the texts."""


@dataclass(frozen=True, eq=False)
class TokenTable:
    """A vector for each token, a byte a number, so that it adds little to a saved model.

    codes   (tokens, dim) int8
    scales  (tokens,) float32, by which a token's codes are multiplied
    """

    codes: np.ndarray
    scales: np.ndarray

    @classmethod
    def of(cls, vectors: np.ndarray) -> TokenTable:
        """Each vector to the nearest code: off by less than half a percent of its largest part."""
        largest = np.abs(vectors).max(axis=1, initial=0.0)
        scales = (np.where(largest > 0, largest, 1.0) / _LARGEST_CODE).astype(np.float32)
        codes = np.rint(vectors / scales[:, None]).astype(np.int8)
        return cls(codes, scales)

    @classmethod
    def restored(cls, arrays: Mapping[str, np.ndarray], n_tokens: int) -> TokenTable:
        """From `arrays`, checked, for at least so many tokens."""
        codes, scales = arrays["codes"], arrays["scales"]
        fits = codes.ndim == 2 and codes.dtype == np.int8 and are_numbers(scales, len(codes))
        expect(fits and n_tokens <= len(codes), "the vectors do not fit the tokens")
        return cls(codes, scales)

    def sums(self, tokens: Sequence[Sequence[int]]) -> np.ndarray:
        """(n, dim) float32: the sum of the vectors of each text's tokens, alike in any batch."""
        ends = np.cumsum([0, *map(len, tokens)])
        ids = np.fromiter(chain.from_iterable(tokens), np.int64, int(ends[-1]))
        used, places = np.unique(ids, return_inverse=True)
        counts = csr_matrix((np.ones(len(ids), np.float32), places, ends), (len(tokens), len(used)))
        counts.sum_duplicates()  # in the order of tokens: a row adds up alike wherever it stands
        vectors = self.codes[used].astype(np.float32) * self.scales[used, None]
        return np.asarray(counts @ vectors)

    def arrays(self) -> dict[str, np.ndarray]:
        return {"codes": self.codes, "scales": self.scales}


def check_dim(dim: int | None) -> None:
    """Raise ParameterError unless `dim` is None or a number of columns."""
    if dim is not None and (type(dim) is not int or dim < 1):
        raise ParameterError(f"dim={dim!r}: expected an integer of at least 1")
