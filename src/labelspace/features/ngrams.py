"""From a text to its terms: words and character n-grams, as scikit-learn's analyzers do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from numbers import Integral
from typing import Any, Literal

from labelspace.data.streamed_texts import StreamedTexts
from labelspace.errors import InputError, ParameterError

_BLOCK_TEXTS, _BLOCK_LETTERS = 8192, 1 << 21  # counted at a time, to bound memory

Ngrams = tuple[int, int]
Kind = Literal["word", "char"]

# Two or more letters, digits or underscores: scikit-learn's default token.
_find_words = re.compile(r"\b\w\w+\b").findall


def make_analyzer(kind: Kind, ngrams: Ngrams, lowercase: bool) -> Callable[[str], list[str]]:
    """Return a function from a text to its terms, repeated as often as they occur."""
    low, high = ngrams
    return partial(_word_ngrams if kind == "word" else _char_ngrams, low, high, lowercase)


def _word_ngrams(low: int, high: int, lowercase: bool, text: str) -> list[str]:
    words: list[str] = _find_words(text.lower() if lowercase else text)
    if high == 1:
        return words
    terms = words if low == 1 else []
    for n in range(max(low, 2), high + 1):
        terms = terms + [" ".join(words[i : i + n]) for i in range(len(words) - n + 1)]
    return terms


def _char_ngrams(low: int, high: int, lowercase: bool, text: str) -> list[str]:
    words = (text.lower() if lowercase else text).split()
    return [term for word in words for term in _char_ngrams_of_word(word, low, high)]


@lru_cache(maxsize=2**14)  # words
def _char_ngrams_of_word(word: str, low: int, high: int) -> tuple[str, ...]:
    """Return the n-grams of a word with a space on either side; a short word is one term."""
    padded = f" {word} "
    terms: list[str] = []
    for n in range(low, high + 1):
        if n >= len(padded):
            terms.append(padded)
            break
        terms += [padded[i : i + n] for i in range(len(padded) - n + 1)]
    return tuple(terms)


def check_ngrams(name: str, value: Any) -> None:
    """Raise ParameterError unless `value` is None or a pair 1 <= low <= high."""
    if value is None:
        return
    pair = (
        isinstance(value, tuple) and len(value) == 2 and all(isinstance(n, Integral) for n in value)
    )
    if not pair or not 1 <= value[0] <= value[1]:
        raise ParameterError(f"{name}={value!r}: expected a pair such as (1, 2), or None")


def checked_texts(texts: Iterable[str]) -> list[str]:
    """Return the texts as a list; raise InputError for a single text or what is not a text."""
    if isinstance(texts, str | bytes):
        raise InputError("expected a list of texts, got one text: put it into a list")
    listed = list(texts)
    for i, text in enumerate(listed):
        if not isinstance(text, str):
            raise InputError(f"text {i} is not a string but {type(text).__name__}")
    return listed


def readable_again(texts: Iterable[str]) -> Sequence[str]:
    """Return what can be iterated more than once: texts in a file as they are, others as a list."""
    return texts if isinstance(texts, StreamedTexts) else checked_texts(texts)


def text_blocks(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield the texts in lists of bounded length; raise InputError as `checked_texts` does."""
    if isinstance(texts, str | bytes):
        raise InputError("expected a list of texts, got one text: put it into a list")
    block: list[str] = []
    letters = 0
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"text {i} is not a string but {type(text).__name__}")
        block.append(text)
        letters += len(text)
        if len(block) == _BLOCK_TEXTS or letters > _BLOCK_LETTERS:
            yield block
            block, letters = [], 0
    if block:
        yield block


def with_pairs(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters that were read from JSON, with tuples where JSON has lists."""
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in parameters.items()
    }
