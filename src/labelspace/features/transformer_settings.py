"""Settings of a transformer from a file: known ones alone, and of bounded size.

The transformers library reads much more from a configuration: code to import, kernels to fetch,
other ways to store weights. Nothing of that is taken from a model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from labelspace._core.checks import expect
from labelspace.errors import ModelFormatError

ENCODERS = (
    "albert", "bert", "camembert", "deberta", "deberta-v2", "distilbert", "electra", "modernbert",
    "mpnet", "roberta", "xlm-roberta",
)  # fmt: skip
_KNOWN = {
    "activation", "attention_bias", "attention_dropout", "attention_probs_dropout_prob",
    "bos_token_id", "classifier_dropout", "cls_token_id", "d_ff", "d_kv", "d_model",
    "decoder_start_token_id", "dim", "dropout", "dropout_rate", "embedding_dropout",
    "embedding_size", "eos_token_id", "feed_forward_proj", "hidden_act", "hidden_activation",
    "hidden_dim", "hidden_dropout_prob", "hidden_size", "initializer_cutoff_factor",
    "initializer_factor", "initializer_range", "inner_group_num", "intermediate_size",
    "is_encoder_decoder", "layer_norm_eps", "layer_norm_epsilon", "layer_types", "legacy",
    "local_attention", "max_position_embeddings", "max_relative_positions", "mlp_bias",
    "mlp_dropout", "n_heads", "n_layers", "norm_bias", "norm_eps", "norm_rel_ebd",
    "num_attention_heads", "num_decoder_layers", "num_heads", "num_hidden_groups",
    "num_hidden_layers", "num_layers", "pad_token_id", "pooler_dropout", "pooler_hidden_act",
    "pooler_hidden_size", "pos_att_type", "position_biased_input", "position_buckets",
    "position_embedding_type", "relative_attention", "relative_attention_max_distance",
    "relative_attention_num_buckets", "rope_parameters", "scale_decoder_outputs", "sep_token_id",
    "share_att_key", "sinusoidal_pos_embds", "tie_word_embeddings", "type_vocab_size",
    "use_cache", "vocab_size",
}  # fmt: skip
_WORD = re.compile(r"[A-Za-z0-9_.|-]{1,64}")
_MOST_LAYERS = 256  # modules are made before their sizes can be compared with the weights
_LARGEST = 2**26


def known_settings(given: Any) -> dict[str, Any]:
    """Return the settings of a configuration that are known, checked; others are left out."""
    expect(isinstance(given, dict), "the settings of the transformer are none")
    kept = {name: value for name, value in given.items() if name in _KNOWN}
    for name, value in kept.items():
        expect(_is_plain(value), f"the transformer's setting {name} is out of range")
        if type(value) is int and ("layers" in name or "group" in name):
            expect(value <= _MOST_LAYERS, f"the transformer's setting {name} is out of range")
    return kept


def encoder_config(given: Any, transformers: Any) -> Any:
    """Return the configuration of a text encoder of one of the kinds that are known."""
    kind = given.get("model_type") if isinstance(given, dict) else None
    if kind not in ENCODERS:
        raise ModelFormatError(
            f"a transformer of kind {kind!r}; kinds that can be read: {', '.join(ENCODERS)}"
        )
    return transformers.AutoConfig.for_model(kind, **known_settings(given))


def built(make: Callable[[], Any], weights: Mapping[str, Iterable[int]], torch: Any) -> Any:
    """Return what `make` makes, if its weights are of these shapes.

    It is made without memory first: sizes in a file may ask for more than there is.
    """
    with torch.device("meta"):
        wanted = {name: tuple(weight.shape) for name, weight in make().named_parameters()}
    fits = all(tuple(weights.get(name, ())) == shape for name, shape in wanted.items())
    expect(fits, "the weights of the transformer do not fit its settings")
    return make()


def _is_plain(value: Any, depth: int = 0) -> bool:
    """Return whether it is a number of reasonable size, a word, or a short list or map of them."""
    if value is None or isinstance(value, bool):
        return True
    if isinstance(value, int | float):
        return abs(value) <= _LARGEST
    if isinstance(value, str):
        return _WORD.fullmatch(value) is not None
    if depth == 2 or not isinstance(value, list | dict) or len(value) > _MOST_LAYERS:
        return False
    parts = value if isinstance(value, list) else [*value, *value.values()]
    return all(_is_plain(part, depth + 1) for part in parts)
