"""Means of pretrained token vectors, at the cost of a lookup per token.

The vectors and their tokenizer are read as data from the files of an installed package or of a
directory; no code of theirs runs. A saved model contains them and needs neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from labelspace._core.arrays import read_arrays
from labelspace._core.not_fitted import NotFittedError
from labelspace._core.schema import MOST_LETTERS, check_arrays, letters
from labelspace._core.sparse import digest
from labelspace.errors import InputError, MissingExtraError, ParameterError
from labelspace.features.base import check_count
from labelspace.features.dense import DenseFeatures, TokenTable
from labelspace.features.ngrams import checked_texts
from labelspace.features.tokens import restored_tokenizer, tokenizers_library

PACKAGE = "wordllama"
_BLOCK = 4096  # texts cut into tokens at a time, to bound memory


@dataclass(kw_only=True, eq=False, repr=False)
class StaticVectors(DenseFeatures):
    """Represent a text by the mean of its tokens' pretrained vectors, scaled to length 1.

    Parameters
    ----------
    source : str, default "wordllama"
        "wordllama", the package; or a directory with a `.safetensors` file of one table
        (tokens, dim) and the tokenizer's `.json`.
    dim : int or None, default None
        Keep the first `dim` columns; None keeps all. wordllama has 256 and is trained so that the
        first 64 or 128 can be used alone.
    """

    kind: ClassVar[str] = "static"

    source: str = PACKAGE
    dim: int | None = None
    _table: TokenTable = field(init=False, repr=False)  # set by fit, as the next is
    _tokenizer: Any = field(init=False, repr=False)

    def _check_parameters(self) -> None:
        if self.dim is not None:
            check_count("dim", self.dim)

    @property
    def n_features(self) -> int:
        return int(self._fitted().codes.shape[1])

    def fit(self, texts: Iterable[str], y: Any = None) -> Self:  # noqa: ARG002
        """Read the vectors; nothing is learned from the texts."""
        self._check_parameters()
        checked_texts(texts)
        table, self._tokenizer = _read(self.source)
        if self.dim is not None and self.dim > table.shape[1]:
            raise ParameterError(
                f"dim={self.dim}: the vectors of {self.source} have {table.shape[1]} columns"
            )
        self._table = TokenTable.of(table[:, : self.dim].astype(np.float32))
        return self

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return all that `from_state` needs: parameters for JSON; vectors and tokenizer."""
        arrays = self._fitted().arrays()
        arrays["tokenizer"] = np.frombuffer(self._tokenizer.to_str().encode(), np.uint8)
        return {"parameters": self._parameters()}, arrays

    @classmethod
    def from_state(cls, params: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the features whose `state` this is."""
        features = cls(**params["parameters"])
        check_arrays([*TokenTable.schema(), letters("tokenizer", MOST_LETTERS)], arrays)
        features._tokenizer = restored_tokenizer(arrays["tokenizer"], "static")
        features._table = TokenTable.restored(arrays, features._tokenizer.get_vocab_size())
        return features

    def _vectors(self, texts: Sequence[str]) -> np.ndarray:
        table = self._fitted()
        blocks = [
            table.sums([one.ids for one in self._encode(texts[start : start + _BLOCK])])
            for start in range(0, max(len(texts), 1), _BLOCK)
        ]
        return np.concatenate(blocks)

    def _encode(self, texts: Sequence[str]) -> Sequence[Any]:
        encoded: Sequence[Any] = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return encoded

    def _identity(self) -> str:
        table = self._fitted()
        return digest(table.codes, table.scales, self._tokenizer.to_str())

    def _fitted(self) -> TokenTable:
        try:
            return self._table
        except AttributeError:
            raise NotFittedError("the token vectors are not read yet: call fit first") from None


def _read(source: str) -> tuple[np.ndarray, Any]:
    """Return the table of vectors and the tokenizer of a package or directory."""
    library = tokenizers_library("static")
    place = _package_folder() if source == PACKAGE else Path(source)
    weights, tokenizer_file = _only(place, "*.safetensors"), _only(place, "*tokenizer*.json")
    try:
        arrays, _ = read_arrays(weights)
    except (ValueError, KeyError) as error:
        raise InputError(f"{weights} holds no vectors that can be read: {error}") from None
    tables = [array for array in arrays.values() if array.ndim == 2]
    if len(tables) != 1:
        raise InputError(f"{weights}: expected one table (tokens, dim), found {len(tables)}")
    try:
        tokenizer = library.Tokenizer.from_file(str(tokenizer_file))
    except Exception as error:  # the library raises bare Exceptions
        raise InputError(f"{tokenizer_file} is no tokenizer: {error}") from None
    if tokenizer.get_vocab_size() > len(tables[0]):
        raise InputError(
            f"{tokenizer_file} has {tokenizer.get_vocab_size()} tokens and {weights} vectors for "
            f"{len(tables[0])}: they do not belong together"
        )
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tables[0], tokenizer


def _package_folder() -> Path:
    """Return the directory of the package without importing it."""
    found = find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise MissingExtraError(
            f"static vectors come with the package {PACKAGE}, which is not installed: "
            "pip install 'labelspace[static]'"
        )
    return Path(next(iter(found.submodule_search_locations)))


def _only(place: Path, pattern: str) -> Path:
    """Return the one file of this pattern in the directory or its subdirectories."""
    found = sorted([*place.glob(pattern), *place.glob(f"*/{pattern}")])
    # A directory may hold a tokenizer's settings beside the tokenizer itself.
    exact = [path for path in found if path.name == "tokenizer.json"] or found
    if len(exact) != 1:
        raise InputError(f"{place}: expected one file {pattern}, found {len(exact)}")
    return exact[0]
