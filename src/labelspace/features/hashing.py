"""Hashed word counts: vectors of texts without a vocabulary, for streams and very large corpora."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy.sparse import csr_matrix

from labelspace.errors import ParameterError
from labelspace.features.ngrams import Ngrams, check_ngrams, checked_texts, cutter, with_pairs

_MOST_FEATURES = 2**31 - 1


@dataclass(kw_only=True, eq=False)
class Hashing:
    """Counts words in columns given by a hash of the word (scikit-learn's HashingVectorizer).

    There is nothing to fit and no name to a column; two words may share one.

    n_features   number of columns
    word_ngrams  shortest and longest run of words
    lowercase    fold case first
    norm         "l2" gives every row length 1
    """

    kind: ClassVar[str] = "hashing"

    n_features: int = 2**18
    word_ngrams: Ngrams = (1, 1)
    lowercase: bool = True
    norm: Literal["l2"] | None = "l2"

    def __post_init__(self) -> None:
        if type(self.n_features) is not int or not 1 <= self.n_features <= _MOST_FEATURES:
            raise ParameterError(
                f"n_features={self.n_features!r}: expected an integer from 1 to {_MOST_FEATURES}"
            )
        if self.word_ngrams is None:
            raise ParameterError("word_ngrams=None: expected a pair such as (1, 2)")
        check_ngrams("word_ngrams", self.word_ngrams)
        if self.norm not in ("l2", None):
            raise ParameterError(f"norm={self.norm!r}: expected 'l2' or None")

    def fit(self, texts: Iterable[str]) -> Self:
        """Only checks the texts."""
        checked_texts(texts)
        return self

    def fit_transform(self, texts: Iterable[str]) -> csr_matrix:
        """The same as `transform`."""
        return self.transform(texts)

    def transform(self, texts: Iterable[str]) -> csr_matrix:
        """(n, n_features) float32; the sign of a value comes from the hash as well."""
        listed = checked_texts(texts)
        # scikit-learn stumbles over an empty list: give it one text and keep no row of it.
        vectors: csr_matrix = self._vectorizer.transform(listed or [""])[: len(listed)]
        return vectors

    def feature_names(self) -> list[str]:
        """A column has no word of its own: its number stands in."""
        return [f"hash {column}" for column in range(self.n_features)]

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """All that `from_state` needs: what goes into JSON, and no arrays."""
        return {"parameters": asdict(self)}, {}

    @classmethod
    def from_state(cls, params: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Self:  # noqa: ARG003
        """The inverse of `state`; JSON may have turned pairs into lists."""
        return cls(**with_pairs(params["parameters"]))

    @cached_property
    def _vectorizer(self) -> Any:
        from sklearn.feature_extraction.text import HashingVectorizer

        return HashingVectorizer(
            n_features=self.n_features,
            analyzer=cutter("word", self.word_ngrams, self.lowercase),
            norm=self.norm,
            dtype=np.float32,
        )
