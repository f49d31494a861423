"""Sentence vectors from a directory as sentence-transformers saves it, here a tiny one."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from labelspace.errors import (
    InputError,
    MissingExtraError,
    ModelFormatError,
    NotFittedError,
    ParameterError,
)
from labelspace.features import SentenceVectors

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")
tokenizers = pytest.importorskip("tokenizers")

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "cat", "dog", "sat", "ran", "the"]
TEXTS = ["the cat sat", "dog", "the dog ran the cat", "", "cat dog bird"]


def write_encoder(place, pooling="pooling_mode_mean_tokens", max_tokens=32):
    place.mkdir()
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=24, max_position_embeddings=32,
    )  # fmt: skip
    transformers.BertModel(config).save_pretrained(place)
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(place / "tokenizer.json"))
    (place / "1_Pooling").mkdir()
    (place / "1_Pooling" / "config.json").write_text(json.dumps({pooling: True}))
    (place / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": max_tokens}))
    return str(place)


def expected(place, texts, first=False):
    """Encode all texts in one padded batch, as sentence-transformers does it."""
    model = transformers.BertModel.from_pretrained(place).eval()
    known = {word: number for number, word in enumerate(WORDS)}
    ids = [[2, *(known.get(word, 1) for word in text.split()), 3] for text in texts]
    width = max(map(len, ids))
    batch = torch.tensor([row + [0] * (width - len(row)) for row in ids])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in ids])
    with torch.no_grad():
        states = model(input_ids=batch, attention_mask=mask).last_hidden_state
    weights = mask[:, :, None].float()
    pooled = states[:, 0] if first else (states * weights).sum(1) / weights.sum(1)
    return torch.nn.functional.normalize(pooled, dim=1).numpy()


def test_rows_are_those_of_the_padded_model(tmp_path):
    place = write_encoder(tmp_path / "e")
    rows = SentenceVectors(source=place).fit_transform(TEXTS)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows.toarray(), expected(place, TEXTS), atol=2e-3)


def test_the_first_token_where_the_directory_sets_it(tmp_path):
    place = write_encoder(tmp_path / "e", "pooling_mode_cls_token")
    rows = SentenceVectors(source=place).fit_transform(TEXTS).toarray()
    np.testing.assert_allclose(rows, expected(place, TEXTS, first=True), atol=2e-3)


def test_long_texts_are_cut_where_the_directory_sets_it(tmp_path):
    features = SentenceVectors(source=write_encoder(tmp_path / "e", max_tokens=4)).fit([])
    whole, cut = features.transform(["the cat sat ran dog", "the cat"]).toarray()
    np.testing.assert_allclose(whole, cut, atol=1e-6)


def test_the_state_alone_is_enough(tmp_path, monkeypatch):
    place = tmp_path / "e"
    features = SentenceVectors(source=write_encoder(place)).fit(TEXTS)
    params, arrays = features.state()
    assert all(a.dtype in (np.float16, np.uint8) for a in arrays.values())
    place.rename(tmp_path / "gone")
    back = SentenceVectors.from_state(json.loads(json.dumps(params)), arrays)
    np.testing.assert_array_equal(
        back.transform(TEXTS).toarray(), features.transform(TEXTS).toarray()
    )
    assert back.n_features == 16
    assert back._identity() == features._identity()
    monkeypatch.setattr("labelspace.features.sentences._TOKENS_AT_A_TIME", 5)
    np.testing.assert_allclose(
        back.transform(TEXTS * 3).toarray()[:5], features.transform(TEXTS).toarray(), atol=1e-6
    )


def test_what_is_wrong_is_said(tmp_path, monkeypatch):
    with pytest.raises(ParameterError, match="source"):
        SentenceVectors(source="")
    with pytest.raises(NotFittedError):
        SentenceVectors(source="x").transform(TEXTS)
    with pytest.raises(InputError, match=r"no config\.json"):
        SentenceVectors(source=str(tmp_path)).fit(TEXTS)
    place = write_encoder(tmp_path / "max", "pooling_mode_max_tokens")
    with pytest.raises(InputError, match="pooling_mode_max_tokens"):
        SentenceVectors(source=place).fit(TEXTS)
    (tmp_path / "max" / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match="cannot be read as a sentence encoder"):
        SentenceVectors(source=place).fit(TEXTS)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtraError, match=r"labelspace\[sentences\]"):
        SentenceVectors(source=place).fit(TEXTS)


def changed(state, **settings):
    params, arrays = json.loads(json.dumps(state[0])), dict(state[1])
    params["encoder"]["config"] |= settings
    return params, arrays


def test_of_a_saved_configuration_only_known_settings_are_used(tmp_path):
    features = SentenceVectors(source=write_encoder(tmp_path / "e")).fit(TEXTS)
    harmful = {
        "auto_map": {"AutoModel": "x--y.Z"},
        "quantization_config": {"quant_method": "gptq"},
        "attn_implementation": "kernels-community/flash-attn",
    }
    again = SentenceVectors.from_state(*changed(features.state(), **harmful))
    assert (again.transform(TEXTS) != features.transform(TEXTS)).nnz == 0
    assert "auto_map" not in features.state()[0]["encoder"]["config"]


@pytest.mark.parametrize(
    "settings",
    [
        {"model_type": "timm_backbone"},
        {"model_type": None},
        {"num_hidden_layers": 10**8},
        {"num_hidden_layers": 3},
        {"vocab_size": 2**25},
        {"hidden_size": 32},
    ],
)
def test_a_saved_configuration_that_does_not_fit_is_refused(tmp_path, settings):
    features = SentenceVectors(source=write_encoder(tmp_path / "e")).fit(TEXTS)
    with pytest.raises(ModelFormatError):
        SentenceVectors.from_state(*changed(features.state(), **settings))


@pytest.mark.parametrize(
    "text",
    ["{}", "5", json.dumps({"normalizer": {"type": "Replace", "pattern": {"Regex": "a+" * 600}}})],
)
def test_a_saved_tokenizer_that_is_none_is_refused(tmp_path, text):
    features = SentenceVectors(source=write_encoder(tmp_path / "e")).fit(TEXTS)
    params, arrays = features.state()
    arrays["tokenizer"] = np.frombuffer(text.encode(), np.uint8)
    with pytest.raises(ModelFormatError, match="tokenizer"):
        SentenceVectors.from_state(params, arrays)


def test_a_saved_tokenizer_with_more_tokens_than_vectors_is_refused(tmp_path):
    features = SentenceVectors(source=write_encoder(tmp_path / "e")).fit(TEXTS)
    params, arrays = features.state()
    tokenizer = tokenizers.Tokenizer.from_str(arrays["tokenizer"].tobytes().decode())
    tokenizer.add_tokens(["one more"])
    arrays["tokenizer"] = np.frombuffer(tokenizer.to_str().encode(), np.uint8)
    with pytest.raises(ModelFormatError, match="more tokens"):
        SentenceVectors.from_state(params, arrays)


def test_a_directory_of_another_architecture_is_refused(tmp_path):
    place = write_encoder(tmp_path / "e")
    path = tmp_path / "e" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "model_type": "gpt2"}))
    with pytest.raises(InputError, match="kinds that can be read"):
        SentenceVectors(source=place).fit([])
