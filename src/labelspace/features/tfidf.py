"""Tf-idf vectors of texts: the columns and values of scikit-learn's TfidfVectorizer, but faster.

One text costs a regular expression, a dictionary lookup per word and a few small array operations,
so that a single request is not slowed by its features.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy.sparse import csr_matrix, hstack

from labelspace._core.checks import expect
from labelspace._core.not_fitted import NotFittedError
from labelspace._core.schema import check_arrays, floats
from labelspace.errors import InputError, ParameterError
from labelspace.features.base import TextTransformer, check_count
from labelspace.features.ngrams import (
    Kind,
    Ngrams,
    check_ngrams,
    make_analyzer,
    text_blocks,
    with_pairs,
)
from labelspace.features.term_counts import TermCounts, slices

_FEW_TEXTS = 1000  # below this, min_df="auto" keeps every term


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
        self._learn(texts)
        return self

    def fit_transform(self, texts: Iterable[str], y: Any = None) -> csr_matrix:  # noqa: ARG002
        """Fit to the texts and return their rows, reading the texts once."""
        return self._weight(self._learn(texts))

    def transform(self, texts: Iterable[str]) -> csr_matrix:
        """Return (n, n_features) float32; terms that are not in the training texts are dropped."""
        fitted = self._fitted()
        counts = [TermCounts() for _ in fitted]
        for block in text_blocks(texts):
            for vocabulary, own in zip(fitted, counts, strict=True):
                vocabulary.count(block, own)
        sizes = (len(vocabulary.terms) for vocabulary in fitted)
        return self._weight([own.matrix(size) for own, size in zip(counts, sizes, strict=True)])

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
        tfidf._vocabularies, sizes = [], {}
        for kind, analyze in tfidf._analyzers().items():
            terms = params["vocabulary"][kind]
            holds = isinstance(terms, list) and all(isinstance(term, str) for term in terms)
            expect(holds, "the terms are not texts")
            sizes[kind] = len(terms)
            idf = arrays[f"idf.{kind}"]
            tfidf._vocabularies.append(_Vocabulary(kind, analyze, terms, idf))
        check_arrays([floats(f"idf.{kind}", kind) for kind in sizes], arrays, **sizes)
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

    def _learn(self, texts: Iterable[str]) -> list[csr_matrix]:
        """Build the vocabularies and return the counts of their terms in the texts."""
        self._check_parameters()
        learners = [_Learner(kind, analyze) for kind, analyze in self._analyzers().items()]
        n_texts = 0
        for block in text_blocks(texts):
            n_texts += len(block)
            for learner in learners:
                learner.read(block)
        if not n_texts:
            raise InputError("there are no texts to learn from")
        min_df = self.min_df
        if min_df == "auto":
            min_df = 1 if n_texts < _FEW_TEXTS else 2
        self._vocabularies = [learner.learn(min_df, self.max_features) for learner in learners]
        return [
            learner.counts.matrix(len(vocabulary.terms))
            for learner, vocabulary in zip(learners, self._vocabularies, strict=True)
        ]

    def _weight(self, counts: list[csr_matrix]) -> csr_matrix:
        """Turn the counts of each kind of term into weights, and return them side by side."""
        from labelspace._core.sparse_loops import scale_rows  # numba, which reading does without

        for matrix, vocabulary in zip(counts, self._fitted(), strict=True):
            for part in slices(len(matrix.data)):
                values = matrix.data[part]
                if self.sublinear:
                    np.log(values, out=values)
                    values += 1.0
                values *= vocabulary.idf[matrix.indices[part]]
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

    def count(self, texts: Sequence[str], counts: TermCounts) -> None:
        """Add how often each known term occurs in each text."""
        find = self.columns.get
        counts.add(texts, lambda text: map(find, self.analyze(text), repeat(-1)))


class _Learner:
    """Counts all terms of one kind, and keeps those that are frequent enough."""

    def __init__(self, kind: Kind, analyze: Callable[[str], list[str]]) -> None:
        self.kind, self.analyze, self.counts = kind, analyze, TermCounts()
        self._found: defaultdict[str, int] = defaultdict()
        self._found.default_factory = self._found.__len__  # a new term gets the next column

    def read(self, texts: Sequence[str]) -> None:
        """Count the terms of further texts."""
        find = self._found.__getitem__
        self.counts.add(texts, lambda text: map(find, self.analyze(text)))

    def learn(self, min_df: int, max_features: int | None) -> _Vocabulary:
        """Return the terms that are frequent enough, and keep only their counts."""
        found, n_texts = self._found, len(self.counts)
        df = self.counts.texts_with(len(found))
        enough = (df >= min_df).tolist()
        terms = sorted(term for term, column in found.items() if enough[column])
        if max_features is not None and len(terms) > max_features:
            totals = self.counts.totals(len(found))
            terms.sort(key=lambda term: -totals[found[term]])  # stable: ties go to the first term
            terms = sorted(terms[:max_features])
        if not terms:
            raise InputError(
                f"none of the {n_texts} texts has a {self.kind} term that occurs in {min_df} of "
                "them: check that the text columns are the right ones and not empty, or read texts "
                "as runs of characters (--features chars)"
            )
        columns = np.array([found[term] for term in terms])
        self._found.clear()
        new = np.full(len(df), -1, np.int32)
        new[columns] = np.arange(len(columns))
        self.counts.renumber(new)
        idf = np.log((1.0 + n_texts) / (1.0 + df[columns])) + 1.0
        return _Vocabulary(self.kind, self.analyze, terms, idf.astype(np.float32))
