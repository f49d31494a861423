"""Text features by name, one kind alone or several side by side: `tfidf+0.5*static`."""

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
from labelspace.features.hashing import Hashing
from labelspace.features.ngrams import checked_texts
from labelspace.features.sentences import SentenceVectors
from labelspace.features.static import StaticVectors
from labelspace.features.tfidf import Tfidf
from labelspace.features.tokens import Tokens
from labelspace.features.word2vec import WordVectors


class TextFeatures(Protocol):
    """What turns texts into vectors; `state` and `from_state` take it to disk and back."""

    kind: ClassVar[str]

    @property
    def n_features(self) -> int: ...

    def fit(self, texts: Iterable[str]) -> Self: ...

    def fit_transform(self, texts: Iterable[str]) -> csr_matrix: ...

    def transform(self, texts: Iterable[str]) -> csr_matrix: ...

    def feature_names(self) -> list[str]: ...

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]: ...

    @classmethod
    def from_state(cls, params: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Self: ...


@dataclass(eq=False)
class SideBySide:
    """Several kinds of features in one row: each scaled to length 1, weighted, then the whole.

    parts  (weight, features); Tokens cannot be one, since its numbers are no weights
    """

    kind: ClassVar[str] = "side by side"

    parts: Sequence[tuple[float, TextFeatures]]

    def __post_init__(self) -> None:
        if not self.parts:
            raise ParameterError("no features to set side by side")
        for weight, part in self.parts:
            if not 0 < weight < np.inf:
                raise ParameterError(f"weight {weight} of {part.kind}: expected one above 0")
            if isinstance(part, Tokens):
                raise ParameterError("tokens stand alone: nothing can be set beside them")

    @property
    def n_features(self) -> int:
        return sum(part.n_features for _, part in self.parts)

    def fit(self, texts: Iterable[str]) -> Self:
        """Fit each part to the texts."""
        listed = checked_texts(texts)
        for _, part in self.parts:
            part.fit(listed)
        return self

    def fit_transform(self, texts: Iterable[str]) -> csr_matrix:
        """`fit` and `transform` of the same texts."""
        listed = checked_texts(texts)
        return self._joined([part.fit_transform(listed) for _, part in self.parts])

    def transform(self, texts: Iterable[str]) -> csr_matrix:
        """(n, n_features) float32, the columns in the order of the parts."""
        listed = checked_texts(texts)
        return self._joined([part.transform(listed) for _, part in self.parts])

    def feature_names(self) -> list[str]:
        return [name for _, part in self.parts for name in part.feature_names()]

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """All that `from_state` needs: what goes into JSON, and the arrays."""
        params: list[dict[str, Any]] = []
        arrays: dict[str, np.ndarray] = {}
        for number, (weight, part) in enumerate(self.parts):
            settings, own = part.state()
            params.append({"kind": part.kind, "weight": weight, **settings})
            arrays |= prefixed(f"{number}.", own)
        return {"parts": params}, arrays

    @classmethod
    def from_state(cls, params: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Self:
        """The inverse of `state`."""
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
    """Texts to rows, by name: "tfidf", "chars" (tf-idf of runs of 3 to 5 characters), "hashing",
    "tokens", "static", "word2vec", "sentences:DIR".

    Names with a plus between them stand side by side, with a weight if one is given, as in
    "tfidf+0.5*static:128" (a number after static or word2vec: so many columns). "none" leaves texts
    alone.
    """
    if spec == _NO_TEXT:
        return None
    parts = [_make_part(text, spec) for text in _PLUS.split(spec)]
    return parts[0][1] if len(parts) == 1 else SideBySide(parts)


def restored(
    params: Mapping[str, Any], arrays: Mapping[str, np.ndarray], prefix: str
) -> TextFeatures:
    """Features of any kind from their state, whose arrays begin with the prefix."""
    kind = params["kind"]
    if kind not in _KINDS:
        raise ModelFormatError(f"features of kind {kind!r} need a newer labelspace: upgrade it")
    mine = {name[len(prefix) :]: a for name, a in arrays.items() if name.startswith(prefix)}
    return _KINDS[kind].from_state(params, mine)


def _make_part(text: str, spec: str) -> tuple[float, TextFeatures]:
    """'0.5*static:128' -> (0.5, StaticVectors(dim=128))."""
    found = _PART.fullmatch(text)
    if found is None:
        raise _unknown(spec)
    name, argument = found["name"], found["argument"]
    weight = float(found["weight"] or 1)
    if name == SentenceVectors.kind and argument:
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
