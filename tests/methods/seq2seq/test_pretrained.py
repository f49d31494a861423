"""A pretrained T5 from a directory: trained on, saved, loaded; and what is refused."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from labelspace.data.dataset import Dataset
from labelspace.data.taxonomy import Taxonomy
from labelspace.errors import InputError
from labelspace.methods.seq2seq.method import Seq2Seq
from labelspace.methods.seq2seq.model import pretrained_t5, restored_t5, t5_arrays
from labelspace.model import tagger, training

transformers = pytest.importorskip("transformers")

NAMES = ["home", "home > lamps", "home > chairs", "brand: acme", "brand: nova"]
PAIRS = [("home > lamps", "home"), ("home > chairs", "home")]
WORDS = "acme nova lamps chairs lamp chair home na product: output: details_brand: l0_category:"
SIZES = {
    "vocab_size": 70, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2,
    "decoder_start_token_id": 0, "dropout_rate": 0.0,
}  # fmt: skip


def tokenizer():
    """A tokenizer with the special tokens of T5, whose words are known in advance."""
    import tokenizers

    words = ["<pad>", "</s>", "<unk>", *dict.fromkeys(WORDS.split()), "l1_category:", "brand:"]
    made = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>")
    )
    made.normalizer = tokenizers.normalizers.Lowercase()
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return made


def saved_t5(place, **changes):
    """Save a small T5 with random weights, as the library saves a trained one."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = transformers.T5ForConditionalGeneration(
            transformers.T5Config(**{**SIZES, **changes})
        )
    model.save_pretrained(place)
    tokenizer().save(str(place / "tokenizer.json"))
    return model


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    place = tmp_path_factory.mktemp("t5")
    saved_t5(place)
    return place


@pytest.fixture
def directory(original, tmp_path):
    return shutil.copytree(original, tmp_path / "t5")


def products(n=60):
    rng = np.random.default_rng(0)
    things, brands = rng.integers(2, size=n), rng.integers(3, size=n)
    Y = np.zeros((n, 5), np.float32)
    Y[:, 0] = 1
    Y[np.arange(n), 1 + things] = 1
    named = brands < 2
    Y[np.flatnonzero(named), 3 + brands[named]] = 1
    texts = [
        f"{('acme', 'nova', 'old')[b]} {('lamp', 'chair')[t]}"
        for t, b in zip(things, brands, strict=True)
    ]
    return Dataset(
        csr_matrix(Y), texts=texts, label_names=NAMES, taxonomy=Taxonomy.from_names(PAIRS, NAMES)
    )


@pytest.mark.parametrize("decoding", ["free", "whole"])
def test_a_record_is_trained_saved_and_loaded(original, tmp_path, decoding):
    model = training.train(
        products(), method="seq2seq", model=str(original), format="record", decoding=decoding,
        prompt="product: {text} output:", lr=0.02, epochs=20, batch_size=16, beams=4, patience=20,
        linear_tree=False,
    )  # fmt: skip
    t5 = model.method
    written = [t5.outputs_.chain.tokens[path] for path in t5.outputs_.chain.tries[0].paths]
    words = tokenizer()
    known = [words.id_to_token(int(token)) for token in written[1]]
    assert known == ["details_brand:", "acme", "l0_category:"]  # tokens of the T5, not new ones
    assert t5.t5_.get_input_embeddings().num_embeddings == 70
    tags = {tag.name for tag in model.tag("nova lamp", k=3)}
    assert tags == {"home", "home > lamps", "brand: nova"}
    labels, valid = t5.generate(model.pipeline.transform_texts(["nova lamp", "old chair"]))
    assert labels.toarray().tolist() == [[1, 1, 0, 0, 1], [1, 0, 1, 0, 0]]
    assert valid.all()
    model.save(tmp_path / "saved")
    loaded = tagger.load(tmp_path / "saved")
    for text in ("nova lamp", "acme chair", "unknown words"):
        assert loaded.tag(text, k=5) == model.tag(text, k=5)


def test_the_weights_are_those_of_the_directory(original):
    wanted = dict(
        transformers.T5ForConditionalGeneration.from_pretrained(original).named_parameters()
    )
    found = dict(pretrained_t5(str(original), 70).named_parameters())
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    longer = pretrained_t5(str(original), 75)  # five tokens for labels without a name
    assert longer.get_input_embeddings().num_embeddings == 75
    assert torch.equal(longer.shared.weight[:70], wanted["shared.weight"])


def test_a_t5_with_a_head_of_its_own_predicts_the_same_when_it_is_restored(tmp_path):
    """T5 1.1 and Flan-T5: gated layers, a head apart from the token vectors, no scaling."""
    from safetensors.torch import load_file, save_file

    saved_t5(tmp_path, feed_forward_proj="gated-gelu", tie_word_embeddings=False)
    weights = load_file(tmp_path / "model.safetensors")
    weights["lm_head.weight"] = torch.randn(70, 16, generator=torch.Generator().manual_seed(1))
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((tmp_path / "config.json").read_text())
    config["tie_word_embeddings"] = False  # as their configurations state it
    config.pop("scale_decoder_outputs", None)
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = pretrained_t5(str(tmp_path), 70).eval()
    assert torch.equal(model.lm_head.weight, weights["lm_head.weight"])
    assert not model.config.scale_decoder_outputs
    again = restored_t5(t5_arrays(model)).eval()
    ids = torch.tensor([[5, 6, 1]])
    with torch.no_grad():
        one, other = (each(input_ids=ids, decoder_input_ids=ids).logits for each in (model, again))
    assert torch.equal(one, other)
    assert not torch.equal(again.lm_head.weight, again.shared.weight)


def change(place, **settings):
    path = place / "config.json"
    config = {**json.loads(path.read_text()), **settings}
    path.write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"vocab_size": 2**40}, "vocab_size is out of range"),
        ({"d_ff": 2**25}, "expects encoder.*wi.weight of shape"),
        ({"num_layers": 10**7}, "num_layers is out of range"),
        ({"num_layers": 5}, "none"),
        ({"num_heads": 3}, "expects .* of shape"),
        ({"d_model": [16, 16]}, "config.json is refused"),
        ({"feed_forward_proj": "__import__('os')"}, "feed_forward_proj is out of range"),
        ({"model_type": "bert"}, "a model of kind 'bert'"),
    ],
)
def test_settings_that_do_not_fit_the_weights_are_refused(directory, settings, why):
    change(directory, **settings)
    with pytest.raises(InputError, match=why) as refused:
        Seq2Seq(model=str(directory), epochs=1).fit(np.eye(4), np.eye(4))
    assert "give a directory with config.json" in str(refused.value)


def test_code_that_a_configuration_names_is_not_run(directory):
    (directory / "evil.py").write_text(
        f"open({str(directory / 'was-run')!r}, 'w').close()\nclass Evil: pass\n"
    )
    change(directory, auto_map={"AutoConfig": "evil.Evil", "AutoModel": "evil.Evil"})
    pretrained_t5(str(directory), 70)
    assert not (directory / "was-run").exists()


def test_pickled_weights_are_refused_with_a_sentence(directory):
    (directory / "model.safetensors").unlink()
    with pytest.raises(InputError, match="no weights in safetensors"):
        pretrained_t5(str(directory), 70)
    torch.save({}, directory / "pytorch_model.bin")
    with pytest.raises(InputError, match="pickled, and reading them could run code"):
        pretrained_t5(str(directory), 70)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'"t5"'])
def test_a_configuration_that_is_none_is_refused(directory, content):
    (directory / "config.json").write_bytes(content)
    with pytest.raises(InputError, match=r"no T5 model in .*config\.json"):
        pretrained_t5(str(directory), 70)


def test_damaged_weights_are_refused(directory):
    path = directory / "model.safetensors"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(InputError, match="no T5 model in"):
        pretrained_t5(str(directory), 70)
    (directory / "config.json").unlink()
    with pytest.raises(InputError, match=r"it has no config\.json"):
        pretrained_t5(str(directory), 70)
