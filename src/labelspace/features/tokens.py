"""Texts as sequences of token ids, for sequence models.

Row i of the matrix has example i's tokens in its first columns, one per column, as id + 1: zeros,
which a sparse matrix does not store, are no tokens. Ids 0, 1 and 2 are `<pad>`, `</s>` and `<unk>`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_matrix

from labelspace._core.checks import expect
from labelspace._core.json_text import checked_json, shortened
from labelspace._core.not_fitted import NotFittedError
from labelspace._core.schema import MOST_LETTERS, check_arrays, letters
from labelspace.errors import (
    InputError,
    MissingExtraError,
    ModelFormatError,
    ParameterError,
)
from labelspace.features.base import TextTransformer, check_count
from labelspace.features.ngrams import checked_texts

SPECIAL = ("<pad>", "</s>", "<unk>")
PLACE = "{text}"
WRITTEN = ("levels", "record")  # forms of label names
_TOKENIZER_FILE = "tokenizer.json"
_MOST_PATTERNS, _LONGEST = 32, 1000  # regular expressions of a tokenizer; characters of one


@dataclass(kw_only=True, eq=False, repr=False)
class Tokens(TextTransformer):
    """Tokenize texts into subwords, by a tokenizer trained on them or by a pretrained one.

    Parameters
    ----------
    max_tokens : int, default 48
        Longer texts are truncated.
    vocabulary : int, default 8000
        The largest vocabulary of the trained tokenizer (byte-pair encoding, lower case).
    source : str, default ""
        "" to train a tokenizer; else a directory with `tokenizer.json`, or a hub name.
    prompt : str, default "{text}"
        The prompt that `{text}`, the text, is inserted into. If both are longer than `max_tokens`,
        the text is truncated, not the prompt.
    names : {"levels", "record"}, default "levels"
        How label names are written: with their level, `L1: Shoes`, or as parts of a record, which
        names levels and kinds itself (`labelspace.features.label_texts`).
    """

    kind: ClassVar[str] = "tokens"

    max_tokens: int = 48
    vocabulary: int = 8000
    source: str = ""
    prompt: str = PLACE
    names: str = WRITTEN[0]
    _tokenizer: Any = field(init=False, repr=False)  # set by fit

    def _check_parameters(self) -> None:
        check_count("max_tokens", self.max_tokens)
        check_count("vocabulary", self.vocabulary, len(SPECIAL) + 1)
        if PLACE not in self.prompt:
            raise ParameterError(f"prompt={self.prompt!r}: {PLACE} is missing, where the text goes")
        if self.names not in WRITTEN:
            raise ParameterError(f"names={self.names!r}: expected one of {', '.join(WRITTEN)}")

    @property
    def n_features(self) -> int:
        return self.max_tokens

    def fit(self, texts: Iterable[str], y: Any = None) -> Self:  # noqa: ARG002
        """Train the tokenizer, or load the pretrained one."""
        self._check_parameters()
        listed = checked_texts(texts)
        self._tokenizer = _fetched(self.source) if self.source else self._trained(listed)
        if self.prompt != PLACE:
            self._check_room()
        return self

    def transform(self, texts: Iterable[str]) -> csr_matrix:
        """Return (n, max_tokens) float32: the tokens of each text within the prompt."""
        listed = checked_texts(texts)
        return self._rows(listed) if self.prompt == PLACE else self._prompted(listed)

    def transform_names(self, names: Iterable[str]) -> csr_matrix:
        """Return the tokens of label names, which have no prompt."""
        return self._rows(checked_texts(names))

    def feature_names(self) -> list[str]:
        """Return the position in the text that each column is."""
        return [f"token {place + 1}" for place in range(self.max_tokens)]

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the parameters for JSON, and the tokenizer's own JSON as bytes."""
        written = self._fitted().to_str().encode()
        return {"parameters": self._parameters()}, {"tokenizer": np.frombuffer(written, np.uint8)}

    @classmethod
    def from_state(cls, params: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the features whose `state` this is."""
        tokens = cls(**params["parameters"])
        check_arrays([letters("tokenizer", MOST_LETTERS)], arrays)
        tokens._tokenizer = restored_tokenizer(arrays["tokenizer"])
        return tokens

    def _rows(self, texts: Sequence[str]) -> csr_matrix:
        encoded = self._fitted().encode_batch(texts, add_special_tokens=False)
        return _as_rows([one.ids[: self.max_tokens] for one in encoded], self.max_tokens)

    def _prompted(self, texts: Sequence[str]) -> csr_matrix:
        """Return the tokens of texts within the prompt; long texts lose their last tokens."""
        before, _, after = self.prompt.partition(PLACE)
        whole = [before + text + after.replace(PLACE, text) for text in texts]
        rows = []
        for text, encoded in zip(
            texts, self._fitted().encode_batch(whole, add_special_tokens=False), strict=True
        ):
            spare, limits = len(encoded.ids) - self.max_tokens, (len(before), len(before + text))
            dropped: set[int] = set()
            if spare > 0:
                spans = enumerate(encoded.offsets)
                inside = [i for i, (a, b) in spans if limits[0] <= a and b <= limits[1]]
                dropped = set(inside[max(0, len(inside) - spare) :])
            kept = [token for place, token in enumerate(encoded.ids) if place not in dropped]
            rows.append(kept[: self.max_tokens])
        return _as_rows(rows, self.max_tokens)

    def _check_room(self) -> None:
        """Raise ParameterError if the prompt leaves no room for a text."""
        alone = self.prompt.replace(PLACE, "")
        length = len(self._fitted().encode(alone, add_special_tokens=False).ids)
        if length >= self.max_tokens:
            raise ParameterError(
                f"max_tokens={self.max_tokens}: the prompt alone has {length} tokens; "
                f"expected more, with room for a text"
            )

    def _fitted(self) -> Any:
        try:
            return self._tokenizer
        except AttributeError:
            raise NotFittedError("the tokenizer is not trained yet: call fit first") from None

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


def _as_rows(ids: Sequence[Sequence[int]], width: int) -> csr_matrix:
    """Return sequences of token ids as rows, each id + 1."""
    rows = [np.array(one, np.float32) + 1 for one in ids]
    ends = np.cumsum([0, *map(len, rows)])
    data = np.concatenate(rows) if rows else np.empty(0, np.float32)
    columns = np.arange(ends[-1]) - np.repeat(ends[:-1], np.diff(ends))
    return csr_matrix((data, columns, ends), shape=(len(rows), width))


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

    It splits texts by regular expressions, of which only a few short ones are read from a file.
    """
    library = tokenizers_library(extra)
    text = written.tobytes().decode()
    patterns = _patterns(checked_json(written))
    holds = len(patterns) <= _MOST_PATTERNS and max(map(len, patterns), default=0) <= _LONGEST
    expect(holds, "the tokenizer has too many or too long regular expressions")
    try:
        tokenizer = library.Tokenizer.from_str(text)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # the library raises bare Exceptions, and panics
        raise ModelFormatError(f"the tokenizer cannot be read: {shortened(error)}") from None
    fits = n_tokens is None or tokenizer.get_vocab_size() <= n_tokens
    expect(fits, "the tokenizer has more tokens than there are vectors")
    return tokenizer


def _patterns(part: Any) -> list[str]:
    """Return all regular expressions in a tokenizer's JSON; the vocabulary is skipped."""
    if isinstance(part, list):
        return [pattern for entry in part for pattern in _patterns(entry)]
    if not isinstance(part, dict):
        return []
    own = [part["Regex"]] if isinstance(part.get("Regex"), str) else []
    below = (entry for name, entry in part.items() if name not in ("vocab", "merges"))
    return own + [pattern for entry in below for pattern in _patterns(entry)]


def tokenizers_library(extra: str = "t5") -> Any:
    """Return the library; raise MissingExtraError with the extra that has it."""
    try:
        return import_module("tokenizers")
    except ModuleNotFoundError:
        raise MissingExtraError(
            "tokens need the tokenizers library, which is not installed: "
            f"pip install 'labelspace[{extra}]'"
        ) from None
