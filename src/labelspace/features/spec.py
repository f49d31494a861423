"""Text features by a specification, one kind or several side by side: `tfidf+0.5*static`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from scipy.sparse import csr_matrix, hstack

from labelspace._core.arrays import prefixed
from labelspace._core.sparse import unit_rows
from labelspace.errors import ModelFormatError, ParameterError
from labelspace.features.base import TextTransformer
from labelspace.features.hashing import Hashing
from labelspace.features.ngrams import readable_again
from labelspace.features.sentences import SentenceVectors
from labelspace.features.static import StaticVectors
from labelspace.features.tfidf import Tfidf
from labelspace.features.tokens import Tokens
from labelspace.features.word2vec import WordVectors


class TextFeatures(Protocol):
    """The interface of text features in a feature pipeline; `TextTransformer` implements it."""

    kind: ClassVar[str]

    @property
    def n_features(self) -> int: ...

    def fit(self, texts: Iterable[str], y: Any = None) -> Self: ...

    def fit_transform(self, texts: Iterable[str], y: Any = None) -> csr_matrix: ...

    def transform(self, texts: Iterable[str]) -> csr_matrix: ...

    def feature_names(self) -> list[str]: ...

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]: ...

    @classmethod
    def from_state(cls, params: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Self: ...


@dataclass(eq=False, repr=False)
class SideBySide(TextTransformer):
    """Concatenate several kinds of features, each scaled to length 1 and weighted.

    The concatenated row is scaled to length 1 again.

    Parameters
    ----------
    parts : list of (float, TextFeatures)
        The weight and the features of each part. Tokens cannot be a part: its values are ids.

    Examples
    --------
    >>> from labelspace.features import Hashing, SideBySide, Tfidf
    >>> both = SideBySide([(1.0, Tfidf()), (0.5, Hashing(n_features=64))])
    >>> both.fit_transform(["red shoes", "blue shoes"]).shape
    (2, 67)
    """

    kind: ClassVar[str] = "side by side"

    parts: Sequence[tuple[float, TextFeatures]]

    def _check_parameters(self) -> None:
        if not self.parts:
            raise ParameterError("parts is empty: expected (weight, features) of at least one kind")
        for weight, part in self.parts:
            if not 0 < weight < np.inf:
                raise ParameterError(f"weight {weight} of {part.kind}: expected one above 0")
            if isinstance(part, Tokens):
                raise ParameterError(
                    "tokens cannot be combined with other features: use them alone"
                )

    @property
    def n_features(self) -> int:
        return sum(part.n_features for _, part in self.parts)

    def fit(self, texts: Iterable[str], y: Any = None) -> Self:  # noqa: ARG002
        """Fit each part to the texts."""
        self._check_parameters()
        again = readable_again(texts)
        for _, part in self.parts:
            part.fit(again)
        return self

    def fit_transform(self, texts: Iterable[str], y: Any = None) -> csr_matrix:  # noqa: ARG002
        """Fit each part to the texts and return their rows."""
        self._check_parameters()
        again = readable_again(texts)
        return self._joined([part.fit_transform(again) for _, part in self.parts])

    def transform(self, texts: Iterable[str]) -> csr_matrix:
        """Return (n, n_features) float32, the columns in the order of the parts."""
        again = readable_again(texts)
        return self._joined([part.transform(again) for _, part in self.parts])

    def feature_names(self) -> list[str]:
        """Return the name of each column, in the order of the parts."""
        return [name for _, part in self.parts for name in part.feature_names()]

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return all that `from_state` needs: the parts for JSON, and their arrays."""
        params: list[dict[str, Any]] = []
        arrays: dict[str, np.ndarray] = {}
        for number, (weight, part) in enumerate(self.parts):
            settings, own = part.state()
            params.append({"kind": part.kind, "weight": weight, **settings})
            arrays |= prefixed(f"{number}.", own)
        return {"parts": params}, arrays

    @classmethod
    def from_state(cls, params: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the features whose `state` this is."""
        return cls(
            [
                (settings["weight"], restored(settings, arrays, f"{number}."))
                for number, settings in enumerate(params["parts"])
            ]
        )

    def _joined(self, blocks: list[csr_matrix]) -> csr_matrix:
        weighted = []
        for (weight, _), block in zip(self.parts, blocks, strict=True):
            unit = unit_rows(block)
            unit.data *= np.float32(weight)
            weighted.append(unit)
        return unit_rows(hstack(weighted, format="csr", dtype=np.float32))


_KINDS: dict[str, type[TextFeatures]] = {
    cls.kind: cls
    for cls in (Tfidf, Hashing, Tokens, StaticVectors, WordVectors, SentenceVectors, SideBySide)
}
_NO_TEXT, _CHARACTERS = "none", "chars"
_NAMES = "tfidf, chars, hashing, tokens, static, word2vec, sentences:DIR, none, or a sum of some"
# A plus divides where a name follows: the directory of sentence vectors may have one in its name.
_PLUS = re.compile(r"\+(?=(?:[\d.]+\*)?(?:tfidf|chars|hashing|tokens|static|word2vec|sentences)\b)")
_PART = re.compile(r"(?:(?P<weight>\d+(?:\.\d*)?|\.\d+)\*)?(?P<name>\w+)(?::(?P<argument>.+))?")


def make_features(spec: str) -> TextFeatures | None:
    """Return the text features that a specification names.

    Parameters
    ----------
    spec : str
        "tfidf", "chars" (tf-idf of 3 to 5 characters), "hashing", "tokens", "static", "word2vec"
        or "sentences:DIR". Names joined by a plus are concatenated, each with an optional weight,
        as in "tfidf+0.5*static:128"; a number after static or word2vec is the number of columns,
        one after sentences, as in "sentences:64:DIR", that of the tokens that are read of a text.
        "none" ignores texts.

    Returns
    -------
    TextFeatures or None
        Unfitted features; None for "none".

    Raises
    ------
    ParameterError
        If the specification cannot be parsed.

    Examples
    --------
    >>> from labelspace.features import make_features
    >>> make_features("chars")
    Tfidf(char_ngrams=(3, 5), word_ngrams=None)
    """
    if spec == _NO_TEXT:
        return None
    parts = [_make_part(text, spec) for text in _PLUS.split(spec)]
    return parts[0][1] if len(parts) == 1 else SideBySide(parts)


def restored(
    params: Mapping[str, Any], arrays: Mapping[str, np.ndarray], prefix: str
) -> TextFeatures:
    """Return features of any kind from their state, whose arrays begin with the prefix."""
    kind = params["kind"]
    if kind not in _KINDS:
        raise ModelFormatError(f"features of kind {kind!r} need a newer labelspace: upgrade it")
    mine = {name[len(prefix) :]: a for name, a in arrays.items() if name.startswith(prefix)}
    return _KINDS[kind].from_state(params, mine)


def _make_part(text: str, spec: str) -> tuple[float, TextFeatures]:
    """Return (0.5, StaticVectors(dim=128)) for "0.5*static:128"."""
    found = _PART.fullmatch(text)
    if found is None:
        raise _unknown(spec)
    name, argument = found["name"], found["argument"]
    weight = float(found["weight"] or 1)
    if name == SentenceVectors.kind and argument:
        limit, _, directory = argument.partition(":")
        if directory and limit.isdecimal():
            return weight, SentenceVectors(source=directory, max_tokens=int(limit))
        return weight, SentenceVectors(source=argument)
    if name in (StaticVectors.kind, WordVectors.kind) and argument:
        if not argument.isdecimal():
            raise ParameterError(f"features={spec!r}: {argument!r} is no number of columns")
        dim = int(argument)
        return weight, StaticVectors(dim=dim) if name == "static" else WordVectors(dim=dim)
    if name == _CHARACTERS and not argument:
        return weight, Tfidf(word_ngrams=None, char_ngrams=(3, 5))
    plain = {cls.kind: cls for cls in (Tfidf, Hashing, Tokens, StaticVectors, WordVectors)}
    if name not in plain or argument:
        raise _unknown(spec)
    return weight, plain[name]()


def _unknown(spec: str) -> ParameterError:
    return ParameterError(f"features={spec!r}: expected one of {_NAMES}, such as tfidf+static")
