"""Of a configuration in a model only known settings of bounded size are used."""

from __future__ import annotations

import json

import numpy as np
import pytest

from labelspace.errors import ModelFormatError
from labelspace.features.transformer_settings import ENCODERS, known_settings

HARMFUL = {
    "auto_map": {"AutoModel": "elsewhere/code--model.Model"},
    "quantization_config": {"quant_method": "bitsandbytes"},
    "trust_remote_code": True,
    "attn_implementation": "kernels-community/flash-attn",
    "_attn_implementation": "flash_attention_2",
    "experts_implementation": "x",
    "_name_or_path": "elsewhere/model",
    "backbone": "resnet50",
    "use_pretrained_backbone": True,
}


def test_unknown_settings_are_left_out():
    assert known_settings({"hidden_size": 8, "hidden_act": "gelu", **HARMFUL}) == {
        "hidden_size": 8,
        "hidden_act": "gelu",
    }


@pytest.mark.parametrize(
    "settings",
    [
        None, [], "bert", {"num_hidden_layers": 10**9}, {"n_layers": 257}, {"hidden_size": 10**12},
        {"hidden_size": [8] * 10**4}, {"hidden_act": "gelu; import os"}, {"hidden_act": ""},
        {"layer_norm_eps": 1e300}, {"rope_parameters": {"a": {"b": {"c": 1}}}},
    ],
)  # fmt: skip
def test_settings_out_of_range(settings):
    with pytest.raises(ModelFormatError):
        known_settings(settings)


def test_all_kinds_of_encoders_are_made_from_what_is_kept_of_their_settings():
    transformers = pytest.importorskip("transformers")
    for kind in ENCODERS:
        whole = transformers.AutoConfig.for_model(kind)
        kept = known_settings(json.loads(json.dumps(whole.to_dict())))
        again = transformers.AutoConfig.for_model(kind, **kept)
        assert again.hidden_size == whole.hidden_size
        assert known_settings(again.to_dict()) == known_settings(whole.to_dict())


@pytest.fixture
def t5():
    pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    from labelspace.methods.seq2seq.model import small_t5, t5_arrays

    torch.manual_seed(0)
    return t5_arrays(small_t5(30, width=8, layers=1, heads=2, dropout=0.0))


def with_config(arrays, **changes):
    config = json.loads(arrays["config"].tobytes()) | changes
    return {**arrays, "config": np.frombuffer(json.dumps(config).encode(), np.uint8)}


def test_a_t5_with_harmful_settings_is_the_one_without(t5):
    from labelspace.methods.seq2seq.model import restored_t5, t5_arrays

    again = t5_arrays(restored_t5(with_config(t5, **HARMFUL)))
    assert all(np.array_equal(t5[name], again[name]) for name in t5)


@pytest.mark.parametrize(
    "changes", [{"d_model": 2**25}, {"num_layers": 200}, {"d_ff": 9}, {"vocab_size": 2**25}]
)
def test_a_t5_of_another_size_than_its_weights_is_refused_before_it_takes_memory(t5, changes):
    from labelspace.methods.seq2seq.model import restored_t5

    with pytest.raises(ModelFormatError, match="do not fit"):
        restored_t5(with_config(t5, **changes))
