"""Tf-idf vectors of texts: the columns and values of scikit-learn's TfidfVectorizer, but faster.

One text costs a regular expression, a dictionary lookup per word and a few small array operations,
so that a single request is not slowed by its features.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy.sparse import csr_matrix, hstack

from labelspace._core.checks import are_numbers, expect
from labelspace._core.not_fitted import NotFittedError
from labelspace.errors import InputError, ParameterError
from labelspace.features.base import TextTransformer, check_count
from labelspace.features.ngrams import (
    Kind,
    Ngrams,
    check_ngrams,
    checked_texts,
    make_analyzer,
    with_pairs,
)

_BLOCK = 8192  # texts counted at a time, to bound memory
_FEW_TEXTS = 1000  # below this, min_df="auto" keeps every term
_COLUMN_BITS = 32  # a key is a row above this many bits of column


@dataclass(kw_only=True, eq=False, repr=False)
class Tfidf(TextTransformer):
    """Weight words, and optionally character n-grams, by how rare they are in the training texts.

    A scikit-learn transformer: a step of a `Pipeline` before any method, with the columns and
    values of `TfidfVectorizer`.

    Parameters
    ----------
    word_ngrams : (int, int) or None, default (1, 1)
        The shortest and the longest run of words; None for no words.
    char_ngrams : (int, int) or None, default None
        The same for characters within words, such as (3, 5); None for no characters.
    sublinear : bool, default True
        Whether to replace the count of a term in a text by 1 + log(count).
    min_df : int or "auto", default "auto"
        Drop terms that occur in fewer training texts. "auto" is 2, or 1 for fewer than 1,000
        texts, where most words occur once.
    max_features : int or None, default None
        Keep only so many terms of each kind, the most frequent ones.
    lowercase : bool, default True
        Whether to convert texts to lower case first.
    norm : {"l2", None}, default "l2"
        "l2" scales every row to length 1, with the same weight for words and characters.

    Examples
    --------
    >>> from labelspace.features import Tfidf
    >>> tfidf = Tfidf().fit(["red shoes", "blue shoes"])
    >>> tfidf.get_feature_names_out().tolist()
    ['blue', 'red', 'shoes']
    >>> print(tfidf.transform(["red red shoes"]).toarray().round(2))
    [[0.   0.92 0.39]]
    """

    kind: ClassVar[str] = "tfidf"

    word_ngrams: Ngrams | None = (1, 1)
    char_ngrams: Ngrams | None = None
    sublinear: bool = True
    min_df: int | Literal["auto"] = "auto"
    max_features: int | None = None
    lowercase: bool = True
    norm: Literal["l2"] | None = "l2"
    _vocabularies: list[_Vocabulary] = field(init=False, repr=False)  # set by fit

    def _check_parameters(self) -> None:
        check_ngrams("word_ngrams", self.word_ngrams)
        check_ngrams("char_ngrams", self.char_ngrams)
        if self.word_ngrams is None and self.char_ngrams is None:
            raise ParameterError("word_ngrams=None and char_ngrams=None: one of them is needed")
        if self.min_df != "auto":
            check_count("min_df", self.min_df)
        if self.max_features is not None:
            check_count("max_features", self.max_features)
        if self.norm not in ("l2", None):
            raise ParameterError(f"norm={self.norm!r}: expected 'l2' or None")

    def fit(self, texts: Iterable[str], y: Any = None) -> Self:  # noqa: ARG002
        """Learn the terms and their inverse document frequencies."""
        self._learn(checked_texts(texts))
        return self

    def fit_transform(self, texts: Iterable[str], y: Any = None) -> csr_matrix:  # noqa: ARG002
        """Fit to the texts and return their rows, reading the texts once."""
        counts = self._learn(checked_texts(texts))
        return self._weight(counts)

    def transform(self, texts: Iterable[str]) -> csr_matrix:
        """Return (n, n_features) float32; terms that are not in the training texts are dropped."""
        listed = checked_texts(texts)
        return self._weight([vocabulary.count(listed) for vocabulary in self._fitted()])

    @property
    def n_features(self) -> int:
        return sum(len(vocabulary.terms) for vocabulary in self._fitted())

    def feature_names(self) -> list[str]:
        """Return the term of each column: words first, then character n-grams, each sorted."""
        return [term for vocabulary in self._fitted() for term in vocabulary.terms]

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return all that `from_state` needs: parameters and terms for JSON, and the idf arrays."""
        fitted = self._fitted()
        vocabulary = {part.kind: part.terms for part in fitted}
        arrays = {f"idf.{part.kind}": part.idf for part in fitted}
        return {"parameters": self._parameters(), "vocabulary": vocabulary}, arrays

    @classmethod
    def from_state(cls, params: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the features whose `state` this is."""
        tfidf = cls(**with_pairs(params["parameters"]))
        tfidf._vocabularies = []
        for kind, analyze in tfidf._analyzers().items():
            terms, idf = params["vocabulary"][kind], arrays[f"idf.{kind}"]
            holds = isinstance(terms, list) and all(isinstance(term, str) for term in terms)
            expect(holds and are_numbers(idf, len(terms)), "the terms do not fit their weights")
            tfidf._vocabularies.append(_Vocabulary(kind, analyze, terms, idf))
        return tfidf

    def _fitted(self) -> list[_Vocabulary]:
        try:
            return self._vocabularies
        except AttributeError:
            raise NotFittedError("Tfidf is not fitted yet: call fit first") from None

    def _analyzers(self) -> dict[Kind, Callable[[str], list[str]]]:
        ngrams: dict[Kind, Ngrams | None] = {"word": self.word_ngrams, "char": self.char_ngrams}
        return {
            kind: make_analyzer(kind, lengths, self.lowercase)
            for kind, lengths in ngrams.items()
            if lengths is not None
        }

    def _learn(self, texts: list[str]) -> list[csr_matrix]:
        """Build the vocabularies and return the counts of their terms in the texts."""
        self._check_parameters()
        if not texts:
            raise InputError("there are no texts to learn from")
        min_df = self.min_df
        if min_df == "auto":
            min_df = 1 if len(texts) < _FEW_TEXTS else 2
        learned = [
            _learn_vocabulary(kind, analyze, texts, min_df, self.max_features)
            for kind, analyze in self._analyzers().items()
        ]
        self._vocabularies = [vocabulary for vocabulary, _ in learned]
        return [counts for _, counts in learned]

    def _weight(self, counts: list[csr_matrix]) -> csr_matrix:
        """Return the counts of each kind of term as weights, side by side."""
        from labelspace._core.sparse_loops import scale_rows  # numba, which reading does without

        for matrix, vocabulary in zip(counts, self._fitted(), strict=True):
            if self.sublinear:
                matrix.data = 1.0 + np.log(matrix.data)
            matrix.data *= vocabulary.idf[matrix.indices]
            if self.norm:
                scale_rows(matrix.indptr, matrix.data, matrix.data)
        if len(counts) == 1:
            return counts[0]
        beside: csr_matrix = hstack(counts, format="csr")
        if self.norm:
            scale_rows(beside.indptr, beside.data, beside.data)
        return beside


@dataclass
class _Vocabulary:
    """The terms of one kind, in the order of their columns, and the weight (idf) of each."""

    kind: Kind
    analyze: Callable[[str], list[str]]
    terms: list[str]
    idf: np.ndarray

    def __post_init__(self) -> None:
        self.columns = {term: column for column, term in enumerate(self.terms)}

    def count(self, texts: Sequence[str]) -> csr_matrix:
        """Return (n, terms): how often each known term occurs in each text."""
        find = self.columns.get
        return _count(texts, lambda text: map(find, self.analyze(text), repeat(-1)), self.columns)


def _learn_vocabulary(
    kind: Kind,
    analyze: Callable[[str], list[str]],
    texts: Sequence[str],
    min_df: int,
    max_features: int | None,
) -> tuple[_Vocabulary, csr_matrix]:
    """Return the terms that are frequent enough, and their counts in the texts."""
    found: defaultdict[str, int] = defaultdict()
    found.default_factory = found.__len__  # a new term gets the next column
    counts = _count(texts, lambda text: map(found.__getitem__, analyze(text)), found)
    df = np.bincount(counts.indices, minlength=len(found))
    enough = (df >= min_df).tolist()
    kept = sorted((term, column) for term, column in found.items() if enough[column])
    if max_features is not None and len(kept) > max_features:
        totals = np.bincount(counts.indices, weights=counts.data, minlength=len(found))
        kept.sort(key=lambda pair: -totals[pair[1]])  # stable: ties go to the first term
        kept = sorted(kept[:max_features])
    if not kept:
        raise InputError(
            f"none of the {len(texts)} texts has a {kind} term that occurs in {min_df} of them: "
            "check that the text columns are the right ones and not empty, or read texts as runs "
            "of characters (--features chars)"
        )
    columns = [column for _, column in kept]
    idf = np.log((1.0 + len(texts)) / (1.0 + df[columns])) + 1.0
    vocabulary = _Vocabulary(kind, analyze, [term for term, _ in kept], idf.astype(np.float32))
    counts = counts[:, columns]
    counts.sort_indices()
    return vocabulary, counts


def _count(
    texts: Sequence[str],
    columns_of: Callable[[str], Iterable[int]],
    vocabulary: Mapping[str, int],
) -> csr_matrix:
    """Return the counts of each text's columns as float32 CSR; the vocabulary may grow."""
    blocks = [
        _count_block(texts[start : start + _BLOCK], columns_of)
        for start in range(0, max(len(texts), 1), _BLOCK)
    ]
    counts, columns, lengths = (np.concatenate(arrays) for arrays in zip(*blocks, strict=True))
    fits = len(counts) <= np.iinfo(np.int32).max
    indptr: np.ndarray = np.zeros(len(texts) + 1, dtype=np.int32 if fits else np.int64)
    np.cumsum(lengths, out=indptr[1:])
    return csr_matrix((counts, columns, indptr), shape=(len(texts), len(vocabulary)))


def _count_block(
    texts: Sequence[str], columns_of: Callable[[str], Iterable[int]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return counts, their columns and the number of them per row; column -1 is dropped."""
    cells = array("q")
    lengths = []
    for text in texts:
        before = len(cells)
        cells.extend(columns_of(text))
        lengths.append(len(cells) - before)
    columns = np.array(cells, dtype=np.int64)
    rows = np.repeat(np.arange(len(texts)), lengths)
    keys = ((rows << _COLUMN_BITS) | columns)[columns >= 0]
    keys, counts = np.unique(keys, return_counts=True)
    columns = (keys & ((1 << _COLUMN_BITS) - 1)).astype(np.int32)
    return (
        counts.astype(np.float32),
        columns,
        np.bincount(keys >> _COLUMN_BITS, minlength=len(texts)),
    )
