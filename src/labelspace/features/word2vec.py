"""Word vectors learned from the training texts themselves (word2vec, by gensim)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self

import numpy as np

from labelspace._core.dense import unit_array
from labelspace._core.sparse import digest
from labelspace.errors import InputError, MissingExtraError, ParameterError
from labelspace.features.cache import kept
from labelspace.features.dense import DenseFeatures, TokenTable, check_dim
from labelspace.features.ngrams import checked_texts, cutter

_cut = cutter("word", (1, 1), lowercase=True)
_LARGEST_SEED = 2**32 - 1  # that gensim takes
_ENOUGH_WORDS = 10_000_000  # to read in all passes together


@dataclass(kw_only=True, eq=False)
class WordVectors(DenseFeatures):
    """The mean of a text's word vectors, each weighted by how rare its word is (idf).

    dim        columns
    window     how many words apart two words still count as context
    epochs     passes over the texts; None: 5, and on small corpora up to 30
    min_count  words that occur less often have no vector
    seed       the same seed gives the same vectors: one thread does the work
    """

    kind: ClassVar[str] = "word2vec"

    dim: int = 128
    window: int = 5
    epochs: int | None = None
    min_count: int = 5
    seed: int = 0
    _table: TokenTable | None = field(default=None, init=False, repr=False)
    _numbers: dict[str, int] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        check_dim(self.dim)
        for name, low in (("window", 1), ("epochs", 1), ("min_count", 1), ("seed", 0)):
            value = getattr(self, name)
            if name == "epochs" and value is None:
                continue
            if type(value) is not int or value < low:
                raise ParameterError(f"{name}={value!r}: expected an integer of at least {low}")

    @property
    def n_features(self) -> int:
        return self.dim

    def fit(self, texts: Iterable[str]) -> Self:
        """Learn the vectors, or take them from the cache."""
        listed = checked_texts(texts)
        learned = kept(
            listed,
            lambda: digest("words of word2vec", sorted(self._parameters().items())),
            lambda: self._learn(listed),
        )
        return self._take(learned)

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """All that `from_state` needs: parameters for JSON; vectors and words as arrays."""
        arrays = self._fitted().arrays() | {"words": _as_bytes(self._numbers)}
        return {"parameters": self._parameters()}, arrays

    @classmethod
    def from_state(cls, params: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Self:
        """The inverse of `state`."""
        return cls(**params["parameters"])._take(arrays)

    def _parameters(self) -> dict[str, Any]:
        return {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.init}

    def _take(self, arrays: Mapping[str, np.ndarray]) -> Self:
        words = arrays["words"].tobytes().decode().split("\n")
        self._numbers = {word: number for number, word in enumerate(words)}
        self._table = TokenTable.restored(arrays, len(words) if arrays["words"].size else 0)
        return self

    def _learn(self, texts: Sequence[str]) -> dict[str, np.ndarray]:
        """The arrays of the state: words by falling frequency, and their weighted vectors."""
        counts: Counter[str] = Counter()
        texts_with: Counter[str] = Counter()
        for text in texts:
            words = _cut(text)
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
        # Our own beginning, as short as word2vec's: the library's may change with its version.
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
        known = self._numbers
        return self._fitted().sums(
            [[known[word] for word in _cut(text) if word in known] for text in texts]
        )

    def _identity(self) -> str:
        table = self._fitted()
        return digest(table.codes, table.scales, _as_bytes(self._numbers))

    def _fitted(self) -> TokenTable:
        if self._table is None:
            from labelspace._core.not_fitted import NotFittedError  # scikit-learn loads slowly

            raise NotFittedError("the word vectors are not learned yet: call fit first")
        return self._table


class _Sentences:
    """The words of each text, cut anew in each pass so that they need no memory."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts

    def __iter__(self) -> Iterator[list[str]]:
        return map(_cut, self.texts)


def _as_bytes(words: Iterable[str]) -> np.ndarray:
    """Words hold letters, digits and underscores alone: a line break separates them."""
    return np.frombuffer("\n".join(words).encode(), np.uint8)


def _gensim() -> Any:
    try:
        from gensim import models
    except ImportError as error:
        raise MissingExtraError(
            f"word2vec needs gensim ({error}): pip install 'labelspace[text]'"
        ) from None
    return models
