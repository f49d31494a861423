"""The T5 of Seq2Seq, new or pretrained, and its inputs as token ids or as a bag of tokens."""

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
class InputTokens:
    """Maps a row of features to a sequence of token ids.

    Attributes
    ----------
    in_order : bool
        Whether rows hold token ids + 1 in order, as `features.tokens` returns them; otherwise the
        features of a row are its tokens, those of the largest values first.
    vocabulary : int
        Number of token ids; ids from here on did not occur in training and become UNKNOWN.
    max_length : int
        Maximum number of tokens, without the end token.
    """

    in_order: bool
    vocabulary: int
    max_length: int

    @classmethod
    def of(cls, X: csr_matrix, names: csr_matrix | None, max_length: int) -> InputTokens:
        """Return the mapping for training data; see `holds_tokens` for what are token ids."""
        if not holds_tokens(X):
            return cls(False, UNKNOWN + 1 + X.shape[1], max_length)
        values = X.data if names is None else np.concatenate([X.data, names.data])
        return cls(True, max(UNKNOWN + 1, int(values.max(initial=0))), max_length)

    def __call__(self, X: csr_matrix) -> tuple[torch.Tensor, torch.Tensor]:
        """Return (n, positions) token ids with an end token each, and a mask, 0 for padding."""
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
        sizes = np.minimum(sizes, self.max_length)
        ids = np.full((X.shape[0], int(sizes.max(initial=0)) + 1), PAD, np.int64)
        kept = places < self.max_length
        ids[rows[kept], places[kept]] = tokens[kept]
        ids[np.arange(len(ids)), sizes] = END
        mask = np.arange(ids.shape[1]) <= sizes[:, None]
        return torch.from_numpy(ids), torch.from_numpy(mask.astype(np.int64))


class BagOfTokens:
    """Maps rows of token ids to tf-idf vectors, for classifiers that ignore the order.

    The weight of a token is (1 + log count) idf. Features that are not token ids are unchanged.
    """

    def __init__(self, tokens: InputTokens, idf: np.ndarray) -> None:
        self.tokens, self.idf = tokens, idf

    @classmethod
    def of(cls, tokens: InputTokens, X: csr_matrix) -> BagOfTokens:
        """Return the mapping with the idf of the training data."""
        bag = cls(tokens, np.ones(tokens.vocabulary, np.float32))
        if tokens.in_order:
            frequency = np.bincount(bag(X).indices, minlength=tokens.vocabulary)
            bag.idf = (np.log((1 + X.shape[0]) / (1 + frequency)) + 1).astype(np.float32)
        return bag

    def __call__(self, X: csr_matrix) -> csr_matrix:
        """Return the tf-idf vectors of these rows."""
        if not self.tokens.in_order:
            return X
        rows = rows_of(X)
        tokens = X.data.astype(np.int64) - 1
        known = (tokens >= 0) & (tokens < self.tokens.vocabulary)
        cells = (np.ones(np.count_nonzero(known), np.float32), (rows[known], tokens[known]))
        counts = csr_matrix(cells, shape=(X.shape[0], self.tokens.vocabulary))
        counts.sum_duplicates()
        counts.data = (1 + np.log(counts.data)) * self.idf[counts.indices]
        return counts


def holds_tokens(X: csr_matrix) -> bool:
    """Return whether rows are token ids + 1: integers from the first column on, without gaps."""
    places = np.arange(X.nnz) - np.repeat(X.indptr[:-1], np.diff(X.indptr))
    integers = (X.data >= 1) & (X.data == np.floor(X.data))
    return bool(X.nnz and (X.indices == places).all() and integers.all())


def small_t5(n_tokens: int, *, width: int, layers: int, heads: int, dropout: float) -> Any:
    """Return a new T5 of the given size, initialised by torch's global generator."""
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


def pretrained_t5(source: str, n_tokens: int, first_own: int) -> Any:
    """Return a pretrained T5 from a directory or the hub, with further tokens for labels."""
    try:
        model = _transformers().T5ForConditionalGeneration.from_pretrained(
            source, use_safetensors=True
        )
    except (OSError, ValueError) as error:
        raise InputError(
            f"no T5 model in {source!r}: {error}; give a directory with config.json and "
            "model.safetensors, or a hub name"
        ) from None
    if n_tokens > max(first_own, model.config.vocab_size):
        model.resize_token_embeddings(n_tokens, mean_resizing=False)
    return model


def vocabulary_of(source: str) -> int:
    """Return the size of the vocabulary of a pretrained T5."""
    try:
        return int(_transformers().T5Config.from_pretrained(source).vocab_size)
    except (OSError, ValueError) as error:
        raise InputError(
            f"no T5 model in {source!r}: {error}; give a directory with config.json and "
            "model.safetensors, or a hub name"
        ) from None


def t5_arrays(model: Any) -> dict[str, np.ndarray]:
    """Return the weights, each once, and the configuration as the bytes of its JSON."""
    config = json.dumps(known_settings(model.config.to_dict()), sort_keys=True).encode()
    weights = {
        _WEIGHTS + name: tensor.detach().cpu().numpy() for name, tensor in model.named_parameters()
    }
    return {_CONFIG: np.frombuffer(config, np.uint8), **weights}


def restored_t5(arrays: Mapping[str, np.ndarray]) -> Any:
    """Return the T5 whose `t5_arrays` these are."""
    config = _transformers().T5Config(**known_settings(json.loads(arrays[_CONFIG].tobytes())))
    shapes = {name: array.shape for name, array in with_prefix(_WEIGHTS, arrays).items()}
    with torch.random.fork_rng(devices=[]):  # new weights are drawn, then replaced
        model = built(lambda: _transformers().T5ForConditionalGeneration(config), shapes, torch)
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            tensor.copy_(torch.from_numpy(np.array(arrays[_WEIGHTS + name])))
    return model


def decoder_outputs(model: Any, hidden: torch.Tensor) -> torch.Tensor:
    """Return the decoder's states, scaled as T5 does before the product with token vectors."""
    scaled = getattr(model.config, "scale_decoder_outputs", model.config.tie_word_embeddings)
    return hidden * model.config.d_model**-0.5 if scaled else hidden


def _transformers() -> Any:
    try:
        return import_module("transformers")
    except ModuleNotFoundError:
        raise MissingExtraError(
            "seq2seq needs transformers, which is not installed: pip install 'labelspace[t5]'"
        ) from None
