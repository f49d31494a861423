"""Sentence vectors from a directory as sentence-transformers saves it, here a tiny one."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from labelspace._core.work import listening
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
    rows = SentenceVectors(source=place, precision="float32").fit_transform(TEXTS)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows.toarray(), expected(place, TEXTS), atol=2e-3)
    quick = SentenceVectors(source=place).fit_transform(TEXTS)
    np.testing.assert_allclose(quick.toarray(), expected(place, TEXTS), atol=2e-2)
    assert (quick != rows).nnz > 0


def test_the_first_token_where_the_directory_sets_it(tmp_path):
    place = write_encoder(tmp_path / "e", "pooling_mode_cls_token")
    features = SentenceVectors(source=place, precision="float32")
    rows = features.fit_transform(TEXTS).toarray()
    np.testing.assert_allclose(rows, expected(place, TEXTS, first=True), atol=2e-3)


def test_long_texts_are_cut_where_the_directory_sets_it(tmp_path):
    place = write_encoder(tmp_path / "e", max_tokens=4)
    features = SentenceVectors(source=place).fit([])
    whole, cut = features.transform(["the cat sat ran dog", "the cat"]).toarray()
    np.testing.assert_array_equal(whole, cut)


def test_long_texts_are_cut_at_max_tokens_if_that_is_lower(tmp_path):
    place = write_encoder(tmp_path / "e", max_tokens=6)
    features = SentenceVectors(source=place, max_tokens=5).fit([])
    long, cut, shorter = features.transform(
        ["the cat sat ran dog", "the cat sat", "the cat"]
    ).toarray()
    np.testing.assert_array_equal(long, cut)
    assert np.abs(cut - shorter).max() > 1e-3
    assert features.state()[0]["encoder"]["max_tokens"] == 5
    assert SentenceVectors(source=place).fit([]).state()[0]["encoder"]["max_tokens"] == 6


@pytest.mark.parametrize("pooling", ["pooling_mode_mean_tokens", "pooling_mode_cls_token"])
def test_a_text_has_the_same_bits_alone_and_in_a_batch(tmp_path, pooling):
    features = SentenceVectors(source=write_encoder(tmp_path / "e", pooling)).fit([])
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS[4:], size)) for size in rng.integers(0, 30, 120)]
    together = features.transform(texts)
    for row, text in enumerate(texts):
        assert (features.transform([text]) != together[row]).nnz == 0


TINY = {
    "albert": {"embedding_size": 8, "num_hidden_groups": 1},
    "bert": {},
    "deberta": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    "deberta-v2": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    "distilbert": {"dim": 16, "hidden_dim": 24, "n_heads": 2, "n_layers": 2},
    "electra": {"embedding_size": 8},
    "modernbert": {f"{name}_token_id": 0 for name in ("pad", "bos", "eos", "cls", "sep")},
    "mpnet": {},
    "xlm-roberta": {"pad_token_id": 0},
}


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # DeBERTa's
@pytest.mark.parametrize("kind", sorted(TINY))
def test_vectors_of_every_kind_of_encoder_are_close_to_those_in_floats(tmp_path, kind):
    place = write_encoder(tmp_path / "e")
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(
        kind, vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=24, max_position_embeddings=40, **TINY[kind],
    )  # fmt: skip
    transformers.AutoModel.from_config(config).save_pretrained(place)
    exact = SentenceVectors(source=place, precision="float32").fit_transform(TEXTS).toarray()
    found = SentenceVectors(source=place).fit_transform(TEXTS).toarray()
    np.testing.assert_allclose(found, exact, atol=3e-2)
    assert (found != exact).any()


def test_a_model_saved_before_there_was_a_choice_computes_in_floats(tmp_path):
    place = write_encoder(tmp_path / "e")
    features = SentenceVectors(source=place, precision="float32").fit(TEXTS)
    params, arrays = features.state()
    old = {"parameters": {"source": place}, "encoder": dict(params["encoder"])}
    del old["encoder"]["precision"]
    back = SentenceVectors.from_state(old, arrays)
    assert back.precision == "float32"
    assert (back.transform(TEXTS) != features.transform(TEXTS)).nnz == 0


def test_the_progress_of_a_file_is_reported_and_its_vectors_are_cached(tmp_path, monkeypatch):
    monkeypatch.setenv("LABELSPACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("LABELSPACE_CACHE_BYTES", raising=False)
    features = SentenceVectors(source=write_encoder(tmp_path / "e")).fit([])
    texts, heard = TEXTS * 410, []
    with listening(lambda *work: heard.append(work)):
        features.transform(TEXTS)
        assert heard == []
        first = features.transform(texts)
        assert heard[-1] == ("encoding texts", heard[-1][2], heard[-1][2])
        assert [done for _, done, _ in heard] == sorted({done for _, done, _ in heard})
        del heard[:]
        again = SentenceVectors.from_state(*features.state()).transform(texts)
        assert heard == []
        assert (again != first).nnz == 0
        SentenceVectors(source=features.source, precision="float32").fit([]).transform(texts)
        assert heard != []


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
    np.testing.assert_array_equal(
        back.transform(TEXTS * 3).toarray()[:5], features.transform(TEXTS).toarray()
    )


def test_what_is_wrong_is_said(tmp_path, monkeypatch):
    with pytest.raises(ParameterError, match="source"):
        SentenceVectors(source="")
    with pytest.raises(ParameterError, match="max_tokens"):
        SentenceVectors(source="x", max_tokens=0)
    with pytest.raises(ParameterError, match="precision"):
        SentenceVectors(source="x", precision="int4")
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
