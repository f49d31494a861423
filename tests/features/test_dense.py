"""Dense text features: means of token vectors, word2vec, their cache and their state."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import save_file
from scipy.sparse import csr_matrix

from labelspace.data.dataset import Dataset
from labelspace.errors import InputError, MissingExtraError, NotFittedError, ParameterError
from labelspace.features import FeaturePipeline, StaticVectors, WordVectors, cache
from labelspace.features.dense import TokenTable
from labelspace.methods.knn import KNN
from labelspace.model import tagger

tokenizers = pytest.importorskip("tokenizers")

WORDS = ["<unk>", "cat", "dog", "sat", "ran"]
TABLE = np.random.default_rng(0).standard_normal((len(WORDS), 8)).astype(np.float32)
TEXTS = ["cat sat", "dog dog ran", "", "cat cat cat sat dog ran", "bird"]


def write_vectors(place, table=TABLE, words=WORDS):
    """Write a directory for StaticVectors: a table and a tokenizer that cuts at blanks."""
    place.mkdir(exist_ok=True)
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(place / "tokenizer.json"))
    save_file({"embedding.weight": table.astype(np.float16)}, place / "model.safetensors")
    return str(place)


@pytest.fixture
def source(tmp_path):
    return write_vectors(tmp_path / "vectors")


def test_a_table_of_bytes_is_near_the_vectors_it_was_made_of():
    vectors = np.random.default_rng(1).normal(size=(50, 16)).astype(np.float32)
    vectors[7] = 0
    table = TokenTable.of(vectors)
    assert table.codes.dtype == np.int8
    back = table.sums([[number] for number in range(50)])
    worst = np.abs(vectors).max(axis=1) / 127 / 2 + 1e-6
    assert (np.abs(back - vectors).max(axis=1) <= worst).all()
    assert table.sums([]).shape == (0, 16)
    np.testing.assert_array_equal(table.sums([[], [3]])[0], 0)


def test_a_static_row_is_the_mean_of_its_tokens(source):
    rows = StaticVectors(source=source).fit_transform(TEXTS)
    assert rows.dtype == np.float32
    assert rows.format == "csr"
    for text, row in zip(TEXTS, rows.toarray(), strict=True):
        tokens = [WORDS.index(word) if word in WORDS else 0 for word in text.split()]
        if not tokens:
            assert not row.any()
            continue
        mean = TABLE[tokens].mean(axis=0)
        np.testing.assert_allclose(row, mean / np.linalg.norm(mean), atol=0.01)
        assert np.linalg.norm(row) == pytest.approx(1, abs=1e-6)


def test_a_text_has_the_same_bits_alone_and_in_a_batch(source, monkeypatch):
    features = StaticVectors(source=source).fit(TEXTS)
    together = features.transform(TEXTS).toarray()
    alone = np.vstack([features.transform([text]).toarray() for text in TEXTS])
    np.testing.assert_array_equal(alone, together)
    monkeypatch.setattr("labelspace.features.static._BLOCK", 2)
    np.testing.assert_array_equal(features.transform(TEXTS).toarray(), together)
    assert features.transform([]).shape == (0, 8)


def test_the_first_columns_can_be_kept(source):
    features = StaticVectors(source=source, dim=3).fit(TEXTS)
    assert features.n_features == 3
    assert features.feature_names() == ["static 0", "static 1", "static 2"]
    assert features.transform(TEXTS).shape == (5, 3)
    with pytest.raises(ParameterError, match="8 columns"):
        StaticVectors(source=source, dim=9).fit(TEXTS)
    with pytest.raises(ParameterError, match="dim=0"):
        StaticVectors(dim=0)


def test_a_model_with_static_vectors_needs_nothing_but_its_directory(source, tmp_path):
    labels = csr_matrix(np.eye(2, dtype=np.float32)[[0, 1, 0, 1]])
    data = Dataset(labels, texts=["cat sat", "dog ran", "cat", "dog"], label_names=["c", "d"])
    pipeline = FeaturePipeline(StaticVectors(source=source))
    method = KNN().fit(pipeline.fit_transform(data), labels)
    model = tagger.Tagger(pipeline, method, ["c", "d"])
    model.save(tmp_path / "m")
    for file in (tmp_path / "vectors").iterdir():
        file.unlink()
    again = tagger.load(tmp_path / "m")
    assert again.tag("cat cat", 2) == model.tag("cat cat", 2)
    assert again.tag("cat cat", 1)[0].name == "c"


def test_what_is_wrong_with_static_files_is_said(tmp_path):
    with pytest.raises(InputError, match=r"one file \*\.safetensors, found 0"):
        StaticVectors(source=str(tmp_path)).fit(TEXTS)
    with pytest.raises(InputError, match="do not belong together"):
        StaticVectors(source=write_vectors(tmp_path / "a", TABLE[:3])).fit(TEXTS)
    place = write_vectors(tmp_path / "b")
    (tmp_path / "b" / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match="is no tokenizer"):
        StaticVectors(source=place).fit(TEXTS)
    (tmp_path / "b" / "model.safetensors").write_bytes(b"nothing of the kind")
    with pytest.raises(InputError, match="no vectors that can be read"):
        StaticVectors(source=place).fit(TEXTS)
    with pytest.raises(NotFittedError):
        StaticVectors().transform(TEXTS)


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setattr("labelspace.features.static.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"labelspace\[static\]"):
        StaticVectors().fit(TEXTS)


def test_the_vectors_of_the_package_know_what_is_alike():
    pytest.importorskip("wordllama")
    features = StaticVectors().fit([])
    assert features.n_features == 256
    car, auto, tree = features.transform(
        ["a fast car", "quick automobiles", "oak forest"]
    ).toarray()
    assert car @ auto > car @ tree + 0.2


def corpus(n=1500):
    """Return texts about one of two topics; words of different topics never occur together."""
    rng = np.random.default_rng(0)
    return [
        " ".join(f"{'ab'[i % 2]}{word}" for word in rng.integers(60, size=10)) for i in range(n)
    ]


def test_word2vec_brings_words_of_like_company_together():
    pytest.importorskip("gensim")
    features = WordVectors(dim=8).fit(corpus())
    one, near, far = features.transform(["a1", "a2 a3 a4", "b1 b2 b3"]).toarray()
    assert one @ near > one @ far + 0.5
    np.testing.assert_array_equal(features.transform(["A1 zyzzyva"]).toarray()[0], one)
    assert features.transform(["zyzzyva", ""]).nnz == 0
    assert features.n_features == 8


def test_word2vec_weighs_rare_words_more():
    pytest.importorskip("gensim")
    texts = [f"{text} thing" for text in corpus()]
    features = WordVectors(dim=8, epochs=1).fit(texts)
    params, arrays = features.state()
    assert params == {"parameters": {"dim": 8, "window": 5, "epochs": 1, "min_count": 5, "seed": 0}}
    words = arrays["words"].tobytes().decode().split("\n")
    vectors = TokenTable(arrays["codes"], arrays["scales"]).sums([[i] for i in range(len(words))])
    lengths = dict(zip(words, np.linalg.norm(vectors, axis=1), strict=True))
    df = {word: sum(word in text.split() for text in texts) for word in words}
    for word in ("thing", "a1"):
        idf = np.log(1501 / (1 + df[word])) + 1
        assert lengths[word] == pytest.approx(idf, rel=0.02)


def test_word2vec_is_the_same_with_the_same_seed_and_after_json():
    pytest.importorskip("gensim")
    texts = corpus(200)
    one, same, other = (WordVectors(dim=4, epochs=2, seed=seed) for seed in (0, 0, 1))
    rows = [features.fit_transform(texts).toarray() for features in (one, same, other)]
    np.testing.assert_array_equal(rows[0], rows[1])
    assert np.abs(rows[0] - rows[2]).max() > 0.01
    params, arrays = one.state()
    back = WordVectors.from_state(json.loads(json.dumps(params)), arrays)
    np.testing.assert_array_equal(back.transform(texts).toarray(), rows[0])


def test_word2vec_names_the_missing_package(monkeypatch):
    with pytest.raises(InputError, match="lower min_count"):
        WordVectors().fit(["rare words"])
    with pytest.raises(ParameterError, match="epochs=0"):
        WordVectors(epochs=0)
    with pytest.raises(NotFittedError):
        WordVectors().transform(["text"])
    monkeypatch.setitem(__import__("sys").modules, "gensim", None)
    with pytest.raises(MissingExtraError, match=r"labelspace\[text\]"):
        WordVectors().fit(corpus())


@pytest.fixture
def small_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LABELSPACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "CACHED_FROM", 3)
    return tmp_path / "cache" / "features"


def test_a_file_of_texts_is_read_once(source, small_cache, monkeypatch):
    features = StaticVectors(source=source).fit(TEXTS)
    expected = features.transform(TEXTS).toarray()
    monkeypatch.setattr(StaticVectors, "_vectors", lambda *_: pytest.fail("made again"))
    np.testing.assert_array_equal(features.transform(TEXTS).toarray(), expected)
    assert len(list(small_cache.iterdir())) == 1
    monkeypatch.undo()


def test_other_texts_and_other_settings_have_their_own_entries(source, small_cache):
    StaticVectors(source=source).fit_transform(TEXTS)
    StaticVectors(source=source).fit_transform(TEXTS[::-1])
    StaticVectors(source=source, dim=4).fit_transform(TEXTS)
    assert len(list(small_cache.iterdir())) == 3
    StaticVectors(source=source).fit_transform(TEXTS[:2])  # too few to keep
    assert len(list(small_cache.iterdir())) == 3


def test_a_damaged_entry_is_made_again(source, small_cache, caplog):
    features = StaticVectors(source=source).fit(TEXTS)
    expected = features.transform(TEXTS).toarray()
    (entry,) = small_cache.iterdir()
    content = bytearray(entry.read_bytes())
    content[-1] ^= 1
    for broken in (bytes(content), b"", b"\xff" * 40):
        entry.write_bytes(broken)
        np.testing.assert_array_equal(features.transform(TEXTS).toarray(), expected)
        assert "damaged" in caplog.text
        caplog.clear()


def test_a_cache_that_cannot_be_written_is_no_failure(source, tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("LABELSPACE_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(cache, "CACHED_FROM", 3)
    assert StaticVectors(source=source).fit_transform(TEXTS).shape == (5, 8)
    assert "not cached" in caplog.text


@pytest.mark.usefixtures("small_cache")
def test_word2vec_is_trained_once(monkeypatch):
    pytest.importorskip("gensim")
    texts = corpus(200)
    expected = WordVectors(dim=4, epochs=2).fit_transform(texts).toarray()
    monkeypatch.setattr(WordVectors, "_learn", lambda *_: pytest.fail("trained again"))
    np.testing.assert_array_equal(
        WordVectors(dim=4, epochs=2).fit_transform(texts).toarray(), expected
    )
    monkeypatch.undo()
