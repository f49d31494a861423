"""The T5 of Seq2Seq, new or pretrained, and its inputs as token ids or as a bag of tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix

from labelspace._core.arrays import with_prefix
from labelspace._core.checks import expect
from labelspace._core.json_text import checked_json
from labelspace._core.schema import Schema, floats, letters
from labelspace._core.sparse import rows_of
from labelspace.errors import InputError, MissingExtraError, ParameterError
from labelspace.features.transformer_settings import built, known_settings
from labelspace.methods.seq2seq.outputs import END, PAD, UNKNOWN

_CONFIG = "config"
_WEIGHTS = "t5."
_HEAD = "lm_head.weight"


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


def pretrained_t5(source: str, n_tokens: int) -> Any:
    """Return a pretrained T5 from a directory or the hub, with further tokens for labels.

    Of a directory, only `config.json` and weights in safetensors are read, and the weights only if
    they are of the sizes that the configuration states.
    """
    if Path(source).is_dir():
        model = _from_directory(Path(source))
    else:
        try:
            model = _transformers().T5ForConditionalGeneration.from_pretrained(
                source, use_safetensors=True, trust_remote_code=False
            )
        except (OSError, ValueError) as error:
            raise _no_model(source, error) from None
    if n_tokens > model.config.vocab_size:
        model.resize_token_embeddings(n_tokens, mean_resizing=False)
    return model


def vocabulary_of(source: str) -> int:
    """Return the size of the vocabulary of a pretrained T5."""
    if Path(source).is_dir():
        return int(_config_of(Path(source)).vocab_size)
    try:
        return int(_transformers().T5Config.from_pretrained(source).vocab_size)
    except (OSError, ValueError) as error:
        raise _no_model(source, error) from None


def _no_model(source: str, reason: object) -> InputError:
    return InputError(
        f"no T5 model in {source!r}: {reason}; give a directory with config.json, "
        "model.safetensors and tokenizer.json, or a hub name"
    )


def _config_of(place: Path) -> Any:
    """Return the configuration of a T5 in a directory: known settings alone."""
    try:
        given = json.loads((place / "config.json").read_bytes())
    except FileNotFoundError:
        raise _no_model(str(place), "it has no config.json") from None
    except (OSError, ValueError) as error:
        raise _no_model(str(place), f"config.json cannot be read: {error}") from None
    kind = given.get("model_type") if isinstance(given, dict) else None
    if kind != "t5":
        raise _no_model(str(place), f"config.json is of a model of kind {kind!r}, not 't5'")
    try:
        return _transformers().T5Config(**known_settings(given))
    except Exception as error:  # the library raises errors of many classes
        raise _no_model(str(place), f"config.json is refused: {error}") from None


def _from_directory(place: Path) -> Any:
    """Return the T5 in a directory, in float32."""
    config = _config_of(place)
    files = sorted(place.glob("*.safetensors"))
    if not files:
        pickled = any(place.glob("*.bin")) or any(place.glob("*.pt"))
        why = "its weights are pickled, and reading them could run code: save them as safetensors"
        raise _no_model(str(place), why if pickled else "it has no weights in safetensors")
    library = _transformers()
    try:
        shapes = {name: shape for file in files for name, shape in _shapes(file).items()}
        with torch.device("meta"):  # sizes in a file may ask for more memory than there is
            wanted = library.T5ForConditionalGeneration(config).named_parameters()
        for name, weights in wanted:
            if shapes.get(name) != tuple(weights.shape):
                raise ValueError(
                    f"config.json expects {name} of shape {tuple(weights.shape)}, the weights have "
                    f"{shapes.get(name, 'none')}"
                )
        return library.T5ForConditionalGeneration.from_pretrained(
            str(place),
            config=config,
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
            dtype=torch.float32,
        )
    except Exception as error:  # the libraries raise errors of many classes
        raise _no_model(str(place), error) from None


def _shapes(file: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the arrays of a safetensors file, from its header."""
    with import_module("safetensors").safe_open(str(file), "pt") as opened:
        return {name: tuple(opened.get_slice(name).get_shape()) for name in opened.keys()}  # noqa: SIM118  # no mapping


def t5_arrays(model: Any) -> dict[str, np.ndarray]:
    """Return the weights, each once, and the configuration as the bytes of its JSON."""
    config = json.dumps(known_settings(model.config.to_dict()), sort_keys=True).encode()
    weights = {
        _WEIGHTS + name: tensor.detach().cpu().numpy() for name, tensor in model.named_parameters()
    }
    return {_CONFIG: np.frombuffer(config, np.uint8), **weights}


def t5_schema(arrays: Mapping[str, np.ndarray]) -> Schema:
    """Declare `t5_arrays`; the size "tokens" is that of the vocabulary.

    The other sizes follow from the configuration: `restored_t5` compares them.
    """
    shared = f"{_WEIGHTS}shared.weight"
    others = (name for name in arrays if name.startswith(_WEIGHTS) and name != shared)
    return [
        letters(_CONFIG),
        floats(shared, "tokens", "width of the t5", types="f2 f4"),
        *(floats(name, *arrays[name].shape, types="f2 f4") for name in others),
    ]


def restored_t5(arrays: Mapping[str, np.ndarray]) -> Any:
    """Return the T5 whose `t5_arrays` these are."""
    settings = known_settings(checked_json(arrays[_CONFIG]))
    config = _transformers().T5Config(**settings)
    # The class derives it from another setting, which it changes: it would be lost here.
    config.scale_decoder_outputs = bool(settings.get("scale_decoder_outputs", True))
    shapes = {name: array.shape for name, array in with_prefix(_WEIGHTS, arrays).items()}
    with torch.random.fork_rng(devices=[]):  # new weights are drawn, then replaced
        model = built(lambda: _transformers().T5ForConditionalGeneration(config), shapes, torch)
    if _HEAD in shapes:  # in newer T5s, the head is not the matrix of the token vectors
        expect(shapes[_HEAD] == tuple(model.shared.weight.shape), "the head does not fit the T5")
        model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.shared.weight))
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
