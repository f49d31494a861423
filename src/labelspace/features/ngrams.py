"""From a text to its terms: words and character n-grams, cut where scikit-learn cuts them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Literal

from labelspace.errors import InputError, ParameterError

Ngrams = tuple[int, int]
Kind = Literal["word", "char"]

# Two or more letters, digits or underscores: scikit-learn's default token.
_find_words = re.compile(r"\b\w\w+\b").findall


def cutter(kind: Kind, ngrams: Ngrams, lowercase: bool) -> Callable[[str], list[str]]:
    """A function from a text to its terms, repeated as often as they occur."""
    low, high = ngrams
    cut = _cut_words if kind == "word" else _cut_characters
    if lowercase:
        return lambda text: cut(text.lower(), low, high)
    return lambda text: cut(text, low, high)


def _cut_words(text: str, low: int, high: int) -> list[str]:
    words: list[str] = _find_words(text)
    if high == 1:
        return words
    terms = words if low == 1 else []
    for n in range(max(low, 2), high + 1):
        terms = terms + [" ".join(words[i : i + n]) for i in range(len(words) - n + 1)]
    return terms


def _cut_characters(text: str, low: int, high: int) -> list[str]:
    return [term for word in text.split() for term in _characters_of(word, low, high)]


@lru_cache(maxsize=2**14)
def _characters_of(word: str, low: int, high: int) -> tuple[str, ...]:
    """N-grams within a word and a blank on either side; a short word counts once, whole."""
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
    pair = isinstance(value, tuple) and len(value) == 2 and all(type(n) is int for n in value)
    if not pair or not 1 <= value[0] <= value[1]:
        raise ParameterError(f"{name}={value!r}: expected a pair such as (1, 2), or None")


def checked_texts(texts: Iterable[str]) -> list[str]:
    """The texts as a list; one bare text or anything that is no text is an InputError."""
    if isinstance(texts, str | bytes):
        raise InputError("expected a list of texts, got one text: put it into a list")
    listed = list(texts)
    for i, text in enumerate(listed):
        if not isinstance(text, str):
            raise InputError(f"text {i} is not a string but {type(text).__name__}")
    return listed


def with_pairs(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters read back from JSON, which knows lists but no pairs."""
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in parameters.items()
    }
