"""Texts as sequences of token ids, for methods that read text in order.

Row i of the matrix holds example i's tokens in its first columns, one a column, as id + 1: zeros,
which a sparse matrix does not keep, are no tokens. Ids 0, 1 and 2 are `<pad>`, `</s>` and `<unk>`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.checks import expect
from labelspace.errors import (
    InputError,
    MissingExtraError,
    ModelFormatError,
    ParameterError,
)
from labelspace.features.ngrams import checked_texts

SPECIAL = ("<pad>", "</s>", "<unk>")
PLACE = "{text}"
_TOKENIZER_FILE = "tokenizer.json"
_MOST_PATTERNS, _LONGEST = 32, 1000


@dataclass(kw_only=True, eq=False)
class Tokens:
    """Cuts texts into pieces of words, by a tokenizer trained on them or by a ready one.

    max_tokens  longer texts are cut off here
    vocabulary  pieces that the trained tokenizer has at most (byte-pair encoding, lower case)
    source      "" to train one; else a directory with `tokenizer.json`, or a hub name
    prompt      what a text is put into before it is cut; `{text}` stands for the text
    """

    kind: ClassVar[str] = "tokens"

    max_tokens: int = 48
    vocabulary: int = 8000
    source: str = ""
    prompt: str = PLACE
    _tokenizer: Any = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        for name, low in (("max_tokens", 1), ("vocabulary", len(SPECIAL) + 1)):
            value = getattr(self, name)
            if type(value) is not int or value < low:
                raise ParameterError(f"{name}={value!r}: expected an integer of at least {low}")
        if PLACE not in self.prompt:
            raise ParameterError(f"prompt={self.prompt!r}: {PLACE} is missing, where the text goes")

    @property
    def n_features(self) -> int:
        return self.max_tokens

    def fit(self, texts: Iterable[str]) -> Self:
        """Train the tokenizer, or fetch the ready one."""
        listed = checked_texts(texts)
        self._tokenizer = _fetched(self.source) if self.source else self._trained(listed)
        return self

    def fit_transform(self, texts: Iterable[str]) -> csr_matrix:
        """`fit` and `transform` of the same texts."""
        listed = checked_texts(texts)
        return self.fit(listed).transform(listed)

    def transform(self, texts: Iterable[str]) -> csr_matrix:
        """(n, max_tokens) float32: the tokens of each text within the prompt."""
        return self._rows([self.prompt.replace(PLACE, text) for text in checked_texts(texts)])

    def transform_names(self, names: Iterable[str]) -> csr_matrix:
        """The same without the prompt: labels as they are to be written."""
        return self._rows(checked_texts(names))

    def feature_names(self) -> list[str]:
        """A column is a place in the text."""
        return [f"token {place + 1}" for place in range(self.max_tokens)]

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """All that `from_state` needs: parameters for JSON, and the tokenizer's JSON as bytes."""
        parameters = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
        written = self._fitted().to_str().encode()
        return {"parameters": parameters}, {"tokenizer": np.frombuffer(written, np.uint8)}

    @classmethod
    def from_state(cls, params: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Self:
        """The inverse of `state`."""
        tokens = cls(**params["parameters"])
        tokens._tokenizer = restored_tokenizer(arrays["tokenizer"])
        return tokens

    def _rows(self, texts: Sequence[str]) -> csr_matrix:
        encoded = self._fitted().encode_batch(texts, add_special_tokens=False)
        ids = [np.array(one.ids[: self.max_tokens], np.float32) + 1 for one in encoded]
        ends = np.cumsum([0, *map(len, ids)])
        data = np.concatenate(ids) if ids else np.empty(0, np.float32)
        columns = np.arange(ends[-1]) - np.repeat(ends[:-1], np.diff(ends))
        return csr_matrix((data, columns, ends), shape=(len(texts), self.max_tokens))

    def _fitted(self) -> Any:
        if self._tokenizer is None:
            from labelspace._core.not_fitted import NotFittedError  # scikit-learn loads slowly

            raise NotFittedError("the tokenizer is not trained yet: call fit first")
        return self._tokenizer

    def _trained(self, texts: Sequence[str]) -> Any:
        library = tokenizers_library()
        tokenizer = library.Tokenizer(library.models.BPE(unk_token=SPECIAL[2]))
        parts = library.normalizers, library.pre_tokenizers
        tokenizer.normalizer = parts[0].Sequence([parts[0].NFKC(), parts[0].Lowercase()])
        tokenizer.pre_tokenizer = parts[1].Sequence([parts[1].Metaspace(), parts[1].Punctuation()])
        trainer = library.trainers.BpeTrainer(
            vocab_size=self.vocabulary,
            min_frequency=2,
            special_tokens=list(SPECIAL),
            show_progress=False,
        )
        tokenizer.train_from_iterator(texts, trainer)
        return tokenizer


def _fetched(source: str) -> Any:
    library = tokenizers_library()
    file = Path(source) / _TOKENIZER_FILE
    try:
        if Path(source).is_dir():
            return library.Tokenizer.from_file(str(file))
        return library.Tokenizer.from_pretrained(source)
    except Exception as error:  # the library raises bare Exceptions
        raise InputError(
            f"no tokenizer in {source!r} ({error}): expected a directory with {_TOKENIZER_FILE}, "
            "or the name of a model on the hub"
        ) from None


def restored_tokenizer(written: np.ndarray, extra: str = "t5", n_tokens: int | None = None) -> Any:
    """Return the tokenizer whose JSON these bytes are, with at most so many tokens.

    It cuts texts by regular expressions, of which only a few short ones are taken from a file.
    """
    library = tokenizers_library(extra)
    expect(written.dtype == np.uint8 and written.ndim == 1, "the tokenizer is not a text")
    text = written.tobytes().decode()
    patterns = _patterns(json.loads(text))
    holds = len(patterns) <= _MOST_PATTERNS and max(map(len, patterns), default=0) <= _LONGEST
    expect(holds, "the tokenizer has too many or too long regular expressions")
    try:
        tokenizer = library.Tokenizer.from_str(text)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # the library raises bare Exceptions, and panics
        raise ModelFormatError(f"the tokenizer cannot be read: {error}") from None
    fits = n_tokens is None or tokenizer.get_vocab_size() <= n_tokens
    expect(fits, "the tokenizer has more tokens than there are vectors")
    return tokenizer


def _patterns(part: Any) -> list[str]:
    """Return all regular expressions in a tokenizer's JSON; the vocabulary is not looked at."""
    if isinstance(part, list):
        return [pattern for entry in part for pattern in _patterns(entry)]
    if not isinstance(part, dict):
        return []
    own = [part["Regex"]] if isinstance(part.get("Regex"), str) else []
    below = (entry for name, entry in part.items() if name not in ("vocab", "merges"))
    return own + [pattern for entry in below for pattern in _patterns(entry)]


def tokenizers_library(extra: str = "t5") -> Any:
    """The library, or an error that names the extra which brings it."""
    try:
        return import_module("tokenizers")
    except ModuleNotFoundError:
        raise MissingExtraError(
            "tokens need the tokenizers library, which is not installed: "
            f"pip install 'labelspace[{extra}]'"
        ) from None
