"""Hashed word counts: vectors of texts without a vocabulary, for streams and very large corpora."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.schema import check_arrays
from labelspace.errors import ParameterError
from labelspace.features.base import TextTransformer, check_count
from labelspace.features.ngrams import (
    Ngrams,
    check_ngrams,
    checked_texts,
    make_analyzer,
    with_pairs,
)

_MOST_FEATURES = 2**31 - 1


@dataclass(kw_only=True, eq=False, repr=False)
class Hashing(TextTransformer):
    """Count words in columns given by a hash of the word (scikit-learn's HashingVectorizer).

    There is nothing to fit, and a column has no name; two words may share one.

    Parameters
    ----------
    n_features : int, default 2**18
        The number of columns.
    word_ngrams : (int, int), default (1, 1)
        The shortest and the longest run of words.
    lowercase : bool, default True
        Whether to convert texts to lower case first.
    norm : {"l2", None}, default "l2"
        "l2" scales every row to length 1.

    Examples
    --------
    >>> from labelspace.features import Hashing
    >>> Hashing(n_features=1024).transform(["red running shoes"]).shape
    (1, 1024)
    """

    kind: ClassVar[str] = "hashing"

    n_features: int = 2**18
    word_ngrams: Ngrams = (1, 1)
    lowercase: bool = True
    norm: Literal["l2"] | None = "l2"

    def _check_parameters(self) -> None:
        check_count("n_features", self.n_features, high=_MOST_FEATURES)
        if self.word_ngrams is None:
            raise ParameterError("word_ngrams=None: expected a pair such as (1, 2)")
        check_ngrams("word_ngrams", self.word_ngrams)
        if self.norm not in ("l2", None):
            raise ParameterError(f"norm={self.norm!r}: expected 'l2' or None")

    def fit(self, texts: Iterable[str], y: Any = None) -> Self:  # noqa: ARG002
        """Check the parameters and the texts; there is nothing to fit."""
        self._check_parameters()
        checked_texts(texts)
        return self

    def transform(self, texts: Iterable[str]) -> csr_matrix:
        """Return (n, n_features) float32; the sign of a value comes from the hash as well."""
        listed = checked_texts(texts)
        vectorizer = _vectorizer(self.n_features, self.word_ngrams, self.lowercase, self.norm)
        # scikit-learn refuses an empty list: give it one text and keep no row of it.
        vectors: csr_matrix = vectorizer.transform(listed or [""])[: len(listed)]
        return vectors

    def feature_names(self) -> list[str]:
        """Return the number of each column, which has no word of its own."""
        return [f"hash {column}" for column in range(self.n_features)]

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the parameters for JSON, and no arrays."""
        return {"parameters": self._parameters()}, {}

    @classmethod
    def from_state(cls, params: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the features whose `state` this is."""
        check_arrays([], arrays)
        return cls(**with_pairs(params["parameters"]))


@lru_cache(maxsize=8)
def _vectorizer(n_features: int, ngrams: Ngrams, lowercase: bool, norm: str | None) -> Any:
    """Return scikit-learn's vectorizer, cached: making it takes longer than transforming a text."""
    from sklearn.feature_extraction.text import HashingVectorizer

    return HashingVectorizer(
        n_features=n_features,
        analyzer=make_analyzer("word", ngrams, lowercase),
        norm=norm,
        dtype=np.float32,
    )
