"""Word vectors learned from the training texts themselves (word2vec, by gensim)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from labelspace._core.checks import expect
from labelspace._core.dense import unit_array
from labelspace._core.not_fitted import NotFittedError
from labelspace._core.schema import MOST_LETTERS, check_arrays, letters
from labelspace._core.sparse import digest
from labelspace.errors import InputError, MissingExtraError
from labelspace.features.base import check_count
from labelspace.features.cache import cached_vectors
from labelspace.features.dense import DenseFeatures, TokenTable
from labelspace.features.ngrams import checked_texts, make_analyzer

_words_of = make_analyzer("word", (1, 1), lowercase=True)
_LARGEST_SEED = 2**32 - 1  # that gensim takes
_ENOUGH_WORDS = 10_000_000  # to read in all passes together


@dataclass(kw_only=True, eq=False, repr=False)
class WordVectors(DenseFeatures):
    """Represent a text by the mean of its word vectors, each weighted by its word's idf.

    The vectors are trained on the texts of `fit` by gensim's word2vec (skip-gram).

    Parameters
    ----------
    dim : int, default 128
        The number of columns.
    window : int, default 5
        The largest distance between a word and its context, in words.
    epochs : int or None, default None
        Passes over the texts; None is 5, and up to 30 on small corpora.
    min_count : int, default 5
        Words that occur less often have no vector.
    seed : int, default 0
        The same seed gives the same vectors: training runs on one thread.
    """

    kind: ClassVar[str] = "word2vec"

    dim: int = 128
    window: int = 5
    epochs: int | None = None
    min_count: int = 5
    seed: int = 0
    _table: TokenTable = field(init=False, repr=False)  # set by fit, as the next is
    _word_ids: dict[str, int] = field(init=False, repr=False)

    def _check_parameters(self) -> None:
        for name, low in (("dim", 1), ("window", 1), ("epochs", 1), ("min_count", 1), ("seed", 0)):
            value = getattr(self, name)
            if name != "epochs" or value is not None:
                check_count(name, value, low)

    @property
    def n_features(self) -> int:
        return self.dim

    def fit(self, texts: Iterable[str], y: Any = None) -> Self:  # noqa: ARG002
        """Train the vectors, or read them from the cache."""
        self._check_parameters()
        listed = checked_texts(texts)
        learned = cached_vectors(
            listed,
            lambda: digest("words of word2vec", sorted(self._parameters().items())),
            lambda: self._learn(listed),
        )
        return self._take(learned)

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return all that `from_state` needs: parameters for JSON; vectors and words as arrays."""
        arrays = self._fitted().arrays() | {"words": _as_bytes(self._word_ids)}
        return {"parameters": self._parameters()}, arrays

    @classmethod
    def from_state(cls, params: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the features whose `state` this is."""
        features = cls(**params["parameters"])
        check_arrays([*TokenTable.schema(), letters("words", MOST_LETTERS)], arrays)
        expect(arrays["codes"].shape[1] == features.dim, "the vectors are of another size")
        return features._take(arrays)

    def _take(self, arrays: Mapping[str, np.ndarray]) -> Self:
        words = arrays["words"].tobytes().decode().split("\n")
        self._word_ids = {word: number for number, word in enumerate(words)}
        self._table = TokenTable.restored(arrays, len(words) if arrays["words"].size else 0)
        return self

    def _learn(self, texts: Sequence[str]) -> dict[str, np.ndarray]:
        """Return the arrays of the state: words by falling frequency, and weighted vectors."""
        counts: Counter[str] = Counter()
        texts_with: Counter[str] = Counter()
        for text in texts:
            words = _words_of(text)
            counts.update(words)
            texts_with.update(set(words))
        counts = Counter({word: n for word, n in counts.items() if n >= self.min_count})
        if not counts:
            raise InputError(
                f"no word occurs {self.min_count} times or more in the {len(texts)} texts: "
                "lower min_count, or check that the texts are not empty"
            )
        words, vectors = self._skip_gram(texts, counts)
        df = np.array([texts_with[word] for word in words])
        idf = np.log((1.0 + len(texts)) / (1.0 + df)) + 1.0
        return TokenTable.of(unit_array(vectors) * idf[:, None]).arrays() | {
            "words": _as_bytes(words)
        }

    def _skip_gram(
        self, texts: Sequence[str], counts: Mapping[str, int]
    ) -> tuple[list[str], np.ndarray]:
        model = _gensim().Word2Vec(
            vector_size=self.dim, sg=1, negative=5, window=self.window, min_count=1,
            seed=self.seed % _LARGEST_SEED, workers=1,
        )  # fmt: skip
        model.build_vocab_from_freq(dict(counts), corpus_count=len(texts))
        words = list(model.wv.index_to_key)
        # Own initial vectors in word2vec's range: the library's may change with its version.
        rng = np.random.default_rng([self.seed, self.dim])
        start = (rng.random((len(words), self.dim), np.float32) - np.float32(0.5)) / self.dim
        model.wv.vectors[:] = start
        n_words = sum(counts.values())
        model.train(
            _Sentences(texts),
            total_examples=len(texts),
            total_words=n_words,
            epochs=self.epochs or min(30, max(5, _ENOUGH_WORDS // n_words)),
        )
        return words, np.asarray(model.wv.vectors)

    def _vectors(self, texts: Sequence[str]) -> np.ndarray:
        table, known = self._fitted(), self._word_ids
        return table.sums(
            [[known[word] for word in _words_of(text) if word in known] for text in texts]
        )

    def _identity(self) -> str:
        table = self._fitted()
        return digest(table.codes, table.scales, _as_bytes(self._word_ids))

    def _fitted(self) -> TokenTable:
        try:
            return self._table
        except AttributeError:
            raise NotFittedError("the word vectors are not trained yet: call fit first") from None


class _Sentences:
    """The words of each text, made anew in each pass so that they need no memory."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts

    def __iter__(self) -> Iterator[list[str]]:
        return map(_words_of, self.texts)


def _as_bytes(words: Iterable[str]) -> np.ndarray:
    """Return the words as bytes, one per line: they are letters, digits and underscores."""
    return np.frombuffer("\n".join(words).encode(), np.uint8)


def _gensim() -> Any:
    try:
        from gensim import models
    except ImportError as error:
        raise MissingExtraError(
            f"word2vec needs gensim ({error}): pip install 'labelspace[text]'"
        ) from None
    return models
