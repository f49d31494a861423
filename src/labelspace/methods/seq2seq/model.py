"""The T5 behind Seq2Seq: made small or fetched, read from arrays, and the sequences it reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix

from labelspace._core.arrays import with_prefix
from labelspace._core.sparse import rows_of
from labelspace.errors import InputError, MissingExtraError, ParameterError
from labelspace.features.transformer_settings import built, known_settings
from labelspace.methods.seq2seq.outputs import END, PAD, UNKNOWN

_CONFIG = "config"
_WEIGHTS = "t5."


@dataclass(frozen=True)
class Reading:
    """How a row of features becomes a sequence of token ids.

    in_order    rows hold tokens in order, ids + 1, as `features.tokens` makes them; otherwise a
                row's features are its tokens, the heaviest first
    vocabulary  ids from here on were not there in training and are read as unknown
    longest     tokens read at most, the end not counted
    """

    in_order: bool
    vocabulary: int
    longest: int

    @classmethod
    def of(cls, X: csr_matrix, names: csr_matrix | None, longest: int) -> Reading:
        """For training data; rows of tokens are known by their whole numbers without gaps."""
        if not holds_tokens(X):
            return cls(False, UNKNOWN + 1 + X.shape[1], longest)
        values = X.data if names is None else np.concatenate([X.data, names.data])
        return cls(True, max(UNKNOWN + 1, int(values.max(initial=0))), longest)

    def __call__(self, X: csr_matrix) -> tuple[torch.Tensor, torch.Tensor]:
        """(n, places) token ids with an end each, and a mask that is 0 where they are padded."""
        rows = rows_of(X)
        kept = X.data != 0
        rows, columns, values = rows[kept], X.indices[kept].astype(np.int64), X.data[kept]
        order = np.lexsort((columns, columns if self.in_order else -values, rows))
        rows = rows[order]
        tokens = values.astype(np.int64) - 1 if self.in_order else columns + UNKNOWN + 1
        tokens = tokens[order]
        tokens[(tokens < 0) | (tokens >= self.vocabulary)] = UNKNOWN
        sizes = np.bincount(rows, minlength=X.shape[0])
        places = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        sizes = np.minimum(sizes, self.longest)
        ids = np.full((X.shape[0], int(sizes.max(initial=0)) + 1), PAD, np.int64)
        read = places < self.longest
        ids[rows[read], places[read]] = tokens[read]
        ids[np.arange(len(ids)), sizes] = END
        mask = np.arange(ids.shape[1]) <= sizes[:, None]
        return torch.from_numpy(ids), torch.from_numpy(mask.astype(np.int64))


class Bag:
    """A row as the words in it, whatever their order: for classifiers that do not read.

    A token weighs (1 + log count) idf, as in tf-idf. Features that are no tokens stay as they are.
    """

    def __init__(self, reading: Reading, idf: np.ndarray) -> None:
        self.reading, self.idf = reading, idf

    @classmethod
    def of(cls, reading: Reading, X: csr_matrix) -> Bag:
        """For training data."""
        bag = cls(reading, np.ones(reading.vocabulary, np.float32))
        if reading.in_order:
            seen_in = np.bincount(bag(X).indices, minlength=reading.vocabulary)
            bag.idf = (np.log((1 + X.shape[0]) / (1 + seen_in)) + 1).astype(np.float32)
        return bag

    def __call__(self, X: csr_matrix) -> csr_matrix:
        if not self.reading.in_order:
            return X
        rows = rows_of(X)
        tokens = X.data.astype(np.int64) - 1
        known = (tokens >= 0) & (tokens < self.reading.vocabulary)
        cells = (np.ones(np.count_nonzero(known), np.float32), (rows[known], tokens[known]))
        counts = csr_matrix(cells, shape=(X.shape[0], self.reading.vocabulary))
        counts.sum_duplicates()
        counts.data = (1 + np.log(counts.data)) * self.idf[counts.indices]
        return counts


def holds_tokens(X: csr_matrix) -> bool:
    """Whether rows are sequences of token ids + 1: whole numbers from the first column on."""
    places = np.arange(X.nnz) - np.repeat(X.indptr[:-1], np.diff(X.indptr))
    whole = (X.data >= 1) & (X.data == np.floor(X.data))
    return bool(X.nnz and (X.indices == places).all() and whole.all())


def small_t5(n_tokens: int, *, width: int, layers: int, heads: int, dropout: float) -> Any:
    """A fresh T5 of the given size; seeded by torch's global generator."""
    if width % heads:
        raise ParameterError(f"seq2seq.width={width}: expected a multiple of heads={heads}")
    config = _transformers().T5Config(
        vocab_size=n_tokens,
        d_model=width,
        d_kv=width // heads,
        d_ff=4 * width,
        num_layers=layers,
        num_heads=heads,
        dropout_rate=dropout,
        decoder_start_token_id=PAD,
    )
    return _transformers().T5ForConditionalGeneration(config)


def fetched_t5(source: str, n_tokens: int, first_own: int) -> Any:
    """A trained T5 from a directory or the hub, with rows for the labels' own tokens."""
    try:
        model = _transformers().T5ForConditionalGeneration.from_pretrained(
            source, use_safetensors=True
        )
    except (OSError, ValueError) as error:
        raise InputError(f"no T5 model in {source!r}: {error}") from None
    if n_tokens > max(first_own, model.config.vocab_size):
        model.resize_token_embeddings(n_tokens, mean_resizing=False)
    return model


def vocabulary_of(source: str) -> int:
    """The number of tokens that a trained T5 knows."""
    try:
        return int(_transformers().T5Config.from_pretrained(source).vocab_size)
    except (OSError, ValueError) as error:
        raise InputError(f"no T5 model in {source!r}: {error}") from None


def t5_arrays(model: Any) -> dict[str, np.ndarray]:
    """Weights, each once, and the configuration as the bytes of its JSON."""
    config = json.dumps(known_settings(model.config.to_dict()), sort_keys=True).encode()
    weights = {
        _WEIGHTS + name: tensor.detach().cpu().numpy() for name, tensor in model.named_parameters()
    }
    return {_CONFIG: np.frombuffer(config, np.uint8), **weights}


def restored_t5(arrays: Mapping[str, np.ndarray]) -> Any:
    """The inverse of `t5_arrays`."""
    config = _transformers().T5Config(**known_settings(json.loads(arrays[_CONFIG].tobytes())))
    shapes = {name: array.shape for name, array in with_prefix(_WEIGHTS, arrays).items()}
    with torch.random.fork_rng(devices=[]):  # fresh weights are drawn, and thrown away
        model = built(lambda: _transformers().T5ForConditionalGeneration(config), shapes, torch)
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            tensor.copy_(torch.from_numpy(np.array(arrays[_WEIGHTS + name])))
    return model


def written_states(model: Any, hidden: torch.Tensor) -> torch.Tensor:
    """The decoder's states as the token vectors meet them."""
    scaled = getattr(model.config, "scale_decoder_outputs", model.config.tie_word_embeddings)
    return hidden * model.config.d_model**-0.5 if scaled else hidden


def _transformers() -> Any:
    try:
        return import_module("transformers")
    except ModuleNotFoundError:
        raise MissingExtraError(
            "seq2seq needs transformers, which is not installed: pip install 'labelspace[t5]'"
        ) from None
