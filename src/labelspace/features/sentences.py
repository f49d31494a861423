"""Sentence vectors by a transformer from a sentence-transformers directory.

The directory is read as data (JSON and safetensors, never pickle, no code from it), and its weights
go into the saved model as 16-bit numbers, so that the model does not need the directory. Linear
layers compute in 8-bit integers (`int8_layers`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from labelspace._core.arrays import with_prefix
from labelspace._core.checks import expect
from labelspace._core.not_fitted import NotFittedError
from labelspace._core.schema import MOST_LETTERS, check_arrays, floats, letters
from labelspace._core.sparse import digest
from labelspace._core.work import report_work
from labelspace.errors import InputError, MissingExtraError, ParameterError
from labelspace.features.base import check_count
from labelspace.features.cache import CACHED_FROM
from labelspace.features.dense import DenseFeatures
from labelspace.features.ngrams import checked_texts
from labelspace.features.tokens import restored_tokenizer, tokenizers_library
from labelspace.features.transformer_settings import built, encoder_config, known_settings

PRECISIONS = ("int8", "float32")
_TOKENS_AT_A_TIME = 1024  # of a batch, whose numbers then stay in the processor's cache
_SHORTEST = 4  # tokens, of which two or so are special ones
_LONGEST = 512  # tokens, where the directory does not set a limit


@dataclass(kw_only=True, eq=False, repr=False)
class SentenceVectors(DenseFeatures):
    """Encode a text by a transformer, pooled and scaled to length 1.

    Parameters
    ----------
    source : str
        A directory as sentence-transformers saves it: `config.json`, `model.safetensors`,
        `tokenizer.json`, and `1_Pooling/config.json` for the mean or the first token.
    max_tokens : int, optional
        Longer texts are truncated, at the limit of the directory if that is lower. Default: that
        limit.
    precision : {"int8", "float32"}, default "int8"
        The numbers that linear layers compute with. Vectors in int8 have a cosine of about 0.997
        to those in float32, and take less than half the time.
    """

    kind: ClassVar[str] = "sentences"

    source: str
    max_tokens: int | None = None
    precision: str = PRECISIONS[0]
    _encoder: _Encoder = field(init=False, repr=False)  # set by fit

    def _check_parameters(self) -> None:
        if not self.source:
            raise ParameterError("source='': expected a sentence-transformers directory")
        if self.max_tokens is not None:
            check_count("max_tokens", self.max_tokens, _SHORTEST)
        if self.precision not in PRECISIONS:
            raise ParameterError(
                f"precision={self.precision!r}: expected one of {', '.join(PRECISIONS)}"
            )

    @property
    def n_features(self) -> int:
        return self._fitted().dim

    def fit(self, texts: Iterable[str], y: Any = None) -> Self:  # noqa: ARG002
        """Read the transformer; nothing is learned from the texts."""
        self._check_parameters()
        checked_texts(texts)
        self._encoder = _read(Path(self.source), self.max_tokens, self.precision)
        return self

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return all that `from_state` needs: settings for JSON; weights and tokenizer."""
        encoder = self._fitted()
        params = {"parameters": self._parameters(), "encoder": encoder.settings}
        return params, encoder.arrays()

    @classmethod
    def from_state(cls, params: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the features whose `state` this is."""
        # Models saved before there was a choice compute in float32.
        settings = {"precision": "float32", **params["encoder"]}
        features = cls(**{**params["parameters"], "precision": settings["precision"]})
        torch, transformers = _libraries()
        config = encoder_config(settings["config"], transformers)
        own = with_prefix("weights.", arrays)
        check_arrays(
            [
                letters("tokenizer", MOST_LETTERS),
                # `built` compares their sizes with the settings.
                *(
                    floats(f"weights.{name}", *array.shape, types="f2 f4")
                    for name, array in own.items()
                ),
            ],
            arrays,
        )
        model = built(
            lambda: transformers.AutoModel.from_config(config, trust_remote_code=False),
            {name: array.shape for name, array in own.items()},
            torch,
        )
        model.load_state_dict(
            {name: torch.from_numpy(array.astype(np.float32)) for name, array in own.items()}
        )
        longest = config.max_position_embeddings
        holds = settings["pooling"] in ("cls", "mean") and type(settings["max_tokens"]) is int
        expect(holds and 1 <= settings["max_tokens"] <= longest, "the encoder's settings are none")
        tokenizer = restored_tokenizer(
            arrays["tokenizer"], "sentences", model.get_input_embeddings().num_embeddings
        )
        features._encoder = _Encoder.of(model, tokenizer, settings)
        return features

    def _vectors(self, texts: Sequence[str]) -> np.ndarray:
        return self._fitted().encode(texts)

    def _identity(self) -> str:
        encoder = self._fitted()
        arrays = encoder.arrays()
        settings = json.dumps(encoder.settings, sort_keys=True)
        return digest(settings, *(arrays[name] for name in sorted(arrays)))

    def _fitted(self) -> _Encoder:
        try:
            return self._encoder
        except AttributeError:
            raise NotFittedError("the sentence encoder is not read yet: call fit first") from None


@dataclass
class _Encoder:
    """A transformer with its tokenizer.

    `settings` has the transformer's `config`, the `pooling` (mean or cls), `max_tokens`, at which
    texts are truncated, and the `precision`; `weights` are those of the transformer as saved.
    """

    model: Any
    tokenizer: Any
    settings: dict[str, Any]
    weights: dict[str, np.ndarray]

    @classmethod
    def of(cls, model: Any, tokenizer: Any, settings: dict[str, Any]) -> _Encoder:
        tokenizer.no_padding()
        tokenizer.enable_truncation(settings["max_tokens"])
        weights = {
            f"weights.{name}": values.numpy().astype(np.float16)
            for name, values in model.state_dict().items()
        }
        if settings["precision"] == "int8":
            from labelspace.features.int8_layers import with_int8_layers  # it imports torch

            model = with_int8_layers(model)
        return cls(model.eval(), tokenizer, settings, weights)

    @property
    def dim(self) -> int:
        return int(self.model.config.hidden_size)

    def arrays(self) -> dict[str, np.ndarray]:
        written = np.frombuffer(self.tokenizer.to_str().encode(), np.uint8)
        return self.weights | {"tokenizer": written}

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Return (n, dim) float32. A batch has texts of one length: no padding, no mask."""
        torch, _ = _libraries()
        tokens = [one.ids for one in self.tokenizer.encode_batch_fast(texts)]
        lengths = np.array([len(ids) for ids in tokens], np.int64)
        vectors = np.zeros((len(texts), self.dim), np.float32)
        done, total = 0, int(lengths.sum())
        with torch.inference_mode():
            for length in np.unique(lengths[lengths > 0]).tolist():
                rows = np.flatnonzero(lengths == length)
                step = max(1, _TOKENS_AT_A_TIME // length)
                for start in range(0, len(rows), step):
                    part = rows[start : start + step]
                    batch = torch.tensor([tokens[row] for row in part])
                    states = self.model(input_ids=batch).last_hidden_state
                    # One by one: the sum over a batch is in another order than that over a text.
                    for row, own in zip(part, states, strict=True):
                        first = self.settings["pooling"] == "cls"
                        vectors[row] = (own[0] if first else own.mean(dim=0)).numpy()
                    done += length * len(part)
                    if len(texts) >= CACHED_FROM:  # batches of `predict` have a bar already
                        report_work("encoding texts", done, total)
        return vectors


def _read(place: Path, max_tokens: int | None, precision: str) -> _Encoder:
    torch, transformers = _libraries()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        if not (place / name).is_file():
            raise InputError(
                f"{place} has no {name}: expected a directory as sentence-transformers saves it, "
                "with weights in safetensors"
            )
    try:
        model = transformers.AutoModel.from_pretrained(
            str(place),
            config=encoder_config(_json(place / "config.json"), transformers),
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
            dtype=torch.float32,
        ).eval()
        library = tokenizers_library("sentences")
        tokenizer = library.Tokenizer.from_file(str(place / "tokenizer.json"))
    except MissingExtraError:
        raise
    except Exception as error:  # the libraries raise errors of many classes
        raise InputError(f"{place} cannot be read as a sentence encoder: {error}") from None
    # As they will be saved, so that a model predicts the same before and after.
    model.load_state_dict({name: w.half().float() for name, w in model.state_dict().items()})
    limit = int(_json(place / "sentence_bert_config.json").get("max_seq_length") or _LONGEST)
    limit = min(limit, int(model.config.max_position_embeddings))
    settings = {
        "config": {
            "model_type": model.config.model_type,
            **known_settings(model.config.to_dict()),
        },
        "pooling": _pooling(place),
        "max_tokens": limit if max_tokens is None else min(max_tokens, limit),
        "precision": precision,
    }
    return _Encoder.of(model, tokenizer, json.loads(json.dumps(settings, default=str)))


def _pooling(place: Path) -> str:
    """Return "mean" or "cls"; raise InputError for any other pooling."""
    given = _json(place / "1_Pooling" / "config.json")
    modes = [name for name, on in given.items() if name.startswith("pooling_mode_") and on]
    if given.get("pooling_mode_cls_token") and len(modes) == 1:
        return "cls"
    if modes in ([], ["pooling_mode_mean_tokens"]):
        return "mean"
    raise InputError(f"{place}: pooling by {', '.join(modes)}; expected the mean or the cls token")


def _json(path: Path) -> dict[str, Any]:
    """Return a settings file, empty where it is missing."""
    if not path.is_file():
        return {}
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise InputError(f"{path} is not JSON of settings: {error}") from None


def _libraries() -> tuple[Any, Any]:
    try:
        return import_module("torch"), import_module("transformers")
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"sentence vectors need {error.name}, which is not installed: "
            "pip install 'labelspace[sentences]'"
        ) from None
