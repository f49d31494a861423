"""Seq2Seq: outputs are valid, and beam search agrees with scoring every output."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from labelspace.components.training_data import TrainingData
from labelspace.data.taxonomy import Taxonomy
from labelspace.errors import CheckpointError, InputError, MissingExtraError, ParameterError
from labelspace.features.pipeline import written_names
from labelspace.features.tokens import Tokens
from labelspace.methods.seq2seq.beam_search import Decoder, next_log_probabilities
from labelspace.methods.seq2seq.method import Seq2Seq
from labelspace.methods.seq2seq.model import (
    BagOfTokens,
    InputTokens,
    holds_tokens,
    restored_t5,
    t5_arrays,
)
from labelspace.methods.seq2seq.outputs import END, UNKNOWN, plan_outputs
from labelspace.methods.seq2seq.trie import Trie
from labelspace.nn.trainer import Batch
from labelspace.runs.callbacks import Callback, Checkpoint
from support.fitted import resolved, restored

TINY = {
    "width": 16, "layers": 1, "heads": 2, "dropout": 0.0, "batch_size": 32, "max_tokens": 12,
    "linear_tree": False,
}  # fmt: skip

PATHS = [
    ("clothing", "shirts", "polo"),
    ("clothing", "shirts", "linen"),
    ("clothing", "shoes"),
    ("home", "lamps", "desk"),
    ("home", "lamps"),
    ("home", "chairs"),
]
BRANDS = ("acme", "nova", "zeno")


def catalogue(n=160, seed=0):
    """Products whose titles name their brand and the end of their path; labels are all levels."""
    rng = np.random.default_rng(seed)
    names = sorted({" > ".join(path[: d + 1]) for path in PATHS for d in range(len(path))})
    names += [f"brand: {brand}" for brand in BRANDS]
    number = {name: i for i, name in enumerate(names)}
    texts, Y = [], np.zeros((n, len(names)), np.float32)
    for row in range(n):
        path, brand = PATHS[rng.integers(len(PATHS))], BRANDS[rng.integers(len(BRANDS))]
        texts.append(f"{brand} new {' '.join(path[1:])} {rng.integers(3)}")
        Y[row, [number[" > ".join(path[: d + 1])] for d in range(len(path))]] = 1
        Y[row, number[f"brand: {brand}"]] = 1
    pairs = [(name, name.rpartition(" > ")[0]) for name in names if " > " in name]
    return texts, csr_matrix(Y), Taxonomy.from_names(pairs, names)


def trained(decoding="short", **params):
    texts, Y, taxonomy = catalogue()
    model = Seq2Seq(**{**TINY, "decoding": decoding, "epochs": 2, "vocabulary": 120, **params})
    tokens = model.text_features()
    X = tokens.fit_transform(texts)
    names = tokens.transform_names(written_names(taxonomy))
    return model.fit(X, Y, taxonomy=taxonomy, label_names=names), X, Y, taxonomy


@pytest.fixture(scope="module")
def short():
    return trained()


# --- tokens -------------------------------------------------------------------------------------


def test_rows_hold_the_tokens_in_order_and_tokens_are_restored():
    texts = ["red lamp red lamp", "", "lamp red", "red lamp " * 20]
    tokens = Tokens(max_tokens=8, vocabulary=60)
    X = tokens.fit_transform(texts)
    assert X.shape == (4, 8)
    assert np.diff(X.indptr).tolist() == [4, 0, 2, 8]
    red, lamp = X[0].data[:2].tolist()
    assert X[2].data.tolist() == [lamp, red]
    assert X[0].data.tolist() == [red, lamp, red, lamp]
    again = Tokens.from_state(*tokens.state())
    assert (again.transform(texts) != X).nnz == 0
    assert (Tokens(max_tokens=8, vocabulary=60).fit_transform(texts) != X).nnz == 0


def test_a_prompt_is_added_to_texts_and_not_to_names():
    plain = Tokens(vocabulary=80)
    prompted = Tokens(vocabulary=80, prompt="Lamp: {text}")
    texts = ["red lamp", "red lamp:"]
    plain.fit(texts)
    prompted.fit(texts)
    assert prompted.transform(["red"]).nnz > prompted.transform_names(["red"]).nnz
    assert (prompted.transform_names(["red"]) != plain.transform(["red"])).nnz == 0
    with pytest.raises(ParameterError, match="prompt"):
        Tokens(prompt="no place")


def test_names_have_their_level():
    names = ["Home", "Home > Lamps", "brand: Acme", "Homes"]
    taxonomy = Taxonomy.from_names([("Home > Lamps", "Home"), ("Homes", "Home")], names)
    assert written_names(taxonomy) == ["L0: Home", "L1: Lamps", "brand: Acme", "L1: Homes"]


def test_features_without_order_are_tokens_by_weight():
    X = csr_matrix(np.array([[0.5, 0.0, 2.0, 1.0], [0, 0, 0, 0]], np.float32))
    assert not holds_tokens(X)
    ids, mask = InputTokens.of(X, None, max_length=2)(X)
    first = UNKNOWN + 1
    assert ids.tolist() == [[first + 2, first + 3, END], [END, 0, 0]]
    assert mask.tolist() == [[1, 1, 1], [1, 0, 0]]


def test_tokens_not_in_training_are_unknown():
    X = csr_matrix(np.array([[5, 4, 0], [6, 0, 0]], np.float32))
    assert holds_tokens(X)
    tokens = InputTokens.of(X, None, max_length=9)
    later = csr_matrix(np.array([[7, 6, 0]], np.float32))
    assert tokens(later)[0].tolist() == [[UNKNOWN, 5, END]]


# --- the trie -----------------------------------------------------------------------------------


def random_outputs(rng, n=40):
    """Return distinct sequences, none a prefix of another, since each has an end."""
    chosen = {tuple(rng.integers(3, 7, size=rng.integers(1, 6)).tolist()) for _ in range(n)}
    return [np.array([*sequence, END]) for sequence in sorted(chosen)]


@pytest.mark.parametrize("seed", range(5))
def test_a_trie_holds_its_sequences_and_nothing_else(seed):
    sequences = random_outputs(np.random.default_rng(seed))
    trie = Trie.build(sequences)
    for number, (path, sequence) in enumerate(zip(trie.paths, sequences, strict=True)):
        assert trie.tokens[path].tolist() == sequence.tolist()
        assert trie.outputs[path[-1] + 1] == number
    for state in range(len(trie.starts) - 1):
        edges, _ = trie.edges_of(np.array([state]))
        prefix = []
        at = state
        while at:
            prefix.insert(0, int(trie.tokens[at - 1]))
            at = int(trie.state_before(np.array([at - 1]))[0])
        longer = [s for s in sequences if len(s) > len(prefix)]
        allowed = {s[len(prefix)] for s in longer if s[: len(prefix)].tolist() == prefix}
        assert set(trie.tokens[edges].tolist()) == allowed
        tokens = np.arange(8)
        reached = trie.follow(np.full(8, state), tokens)
        assert set(tokens[reached >= 0].tolist()) == allowed


@pytest.mark.parametrize("seed", range(5))
def test_shortened_outputs_are_distinct(seed):
    sequences = random_outputs(np.random.default_rng(seed))
    short = Trie.build(sequences).shortened()
    assert len({tuple(s) for s in short}) == len(sequences)
    n_edges = np.diff(Trie.build(short).starts)
    assert (n_edges[Trie.build(short).outputs < 0] > 1).all()
    assert all(len(s) <= len(whole) for s, whole in zip(short, sequences, strict=True))


# --- outputs ------------------------------------------------------------------------------------


def test_outputs_are_the_paths_of_most_specific_labels():
    names = ["a", "a/b", "a/b/c", "kind: x"]
    taxonomy = Taxonomy.from_names([("a/b", "a"), ("a/b/c", "a/b")], names)
    Y = csr_matrix(np.array([[1, 1, 0, 1], [1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0]], np.float32))
    outputs, indicator, n_tokens = plan_outputs(Y, taxonomy, None, 10, short=False)
    # a/b, a/b/c and x are outputs; a alone never is.
    assert indicator.toarray().tolist() == [[1, 0, 1], [0, 1, 0], [0, 1, 0], [0, 0, 0]]
    assert [len(path) for path in outputs.parts[0].trie.paths] == [3, 4, 2]
    assert n_tokens == 14
    # One of the two examples of a/b/c has the label a.
    assert outputs.parts[0].label_shares.toarray().tolist() == [
        [1, 1, 0, 0],
        [0.5, 1, 1, 0],
        [0, 0, 0, 1],
    ]


def test_labels_with_equal_names_get_a_token_of_their_own():
    Y = csr_matrix(np.eye(3, dtype=np.float32))
    names = csr_matrix(np.array([[5, 6], [5, 6], [0, 0]], np.float32))
    outputs, _, n_tokens = plan_outputs(Y, None, names, 10, short=False)
    sequences = [
        outputs.parts[0].trie.tokens[path].tolist() for path in outputs.parts[0].trie.paths
    ]
    assert sequences == [[4, 5, END], [10, END], [11, END]]
    assert n_tokens == 12


def test_data_without_labels_are_an_error():
    with pytest.raises(InputError, match="no example has a label"):
        Seq2Seq(**TINY).fit(np.ones((4, 2)), csr_matrix((4, 3)))


# --- decoding -----------------------------------------------------------------------------------


def log_probability(model, X_row, output):
    """Return log p of an output by teacher forcing, without cache or beams."""
    trie, t5 = model.outputs_.chain.tries[0], model.decoder_.model
    path = trie.paths[output]
    ids, mask = model.input_tokens_(X_row)
    before = torch.tensor([[0, *trie.tokens[path[:-1]].tolist()]])
    with torch.no_grad():
        logits = t5(input_ids=ids, attention_mask=mask, decoder_input_ids=before).logits[0]
    total = 0.0
    for place, edge in enumerate(path):
        edges, _ = trie.edges_of(trie.state_before(np.array([edge])))
        valid = torch.log_softmax(logits[place, trie.tokens[edges]], dim=0)
        total += float(valid[np.flatnonzero(edges == edge)[0]])
    return total


@pytest.mark.parametrize("decoding", ["short", "whole"])
def test_beam_search_of_full_width_scores_every_output(decoding):
    model, X, _, _ = trained(decoding, epochs=1, beams=50)
    model.predict(X[:1], 1)
    n_outputs = len(model.outputs_.chain.tries[0].paths)
    beams = model.decoder_.generate(*model.input_tokens_(X[:3]))
    assert len(beams.score) == 3 * n_outputs
    found = np.zeros((3, n_outputs))
    found[beams.example, model.outputs_.chain.tries[0].outputs[beams.state]] = beams.score
    expected = [[log_probability(model, X[i], o) for o in range(n_outputs)] for i in range(3)]
    np.testing.assert_allclose(found, expected, atol=1e-9)
    np.testing.assert_allclose(np.exp(found).sum(axis=1), 1.0)


def test_a_narrow_beam_has_valid_outputs_with_the_same_probabilities(short):
    model, X, _, _ = short
    narrow = Decoder(model._decoder().model, model.outputs_.chain, 2)
    wide = Decoder(narrow.model, model.outputs_.chain, 50)
    few, all_ = narrow.generate(*model.input_tokens_(X)), wide.generate(*model.input_tokens_(X))
    assert (np.bincount(few.example, minlength=X.shape[0]) == 2).all()
    assert (model.outputs_.chain.tries[0].outputs[few.state] >= 0).all()
    known = {(e, s): p for e, s, p in zip(all_.example, all_.state, all_.score, strict=True)}
    for e, s, p in zip(few.example, few.state, few.score, strict=True):
        assert known[e, s] == pytest.approx(p, abs=1e-9)


def test_the_loss_is_the_mean_negative_log_likelihood(short):
    from labelspace.methods.seq2seq.objective import SequenceObjective

    model, X, Y, taxonomy = short
    model.predict(X[:1], 1)
    indicator = plan_outputs(Y, taxonomy, None, 500, short=True)[1]
    rows = np.array([3, 8, 5])
    loss = SequenceObjective(model, X, [indicator])(Batch(rows, np.random.default_rng(0)))
    expected = np.mean(
        [np.mean([log_probability(model, X[r], o) for o in indicator[r].indices]) for r in rows]
    )
    assert float(loss.detach()) == pytest.approx(-expected, abs=1e-4)


def test_the_probability_of_a_label_is_the_sum_over_its_paths(short):
    model, X, _, taxonomy = short
    raw, _ = model._label_probabilities(model._decoder(), X[:20])
    raw, index = raw.toarray(), taxonomy.node_names.index
    below = raw[:, index("clothing > shirts")] + raw[:, index("clothing > shoes")]
    np.testing.assert_allclose(raw[:, index("clothing")], below, atol=1e-6)
    tops = raw[:, index("clothing")] + raw[:, index("home")]
    brands = sum(raw[:, index(f"brand: {brand}")] for brand in BRANDS)
    np.testing.assert_allclose(tops + brands, 1.0, atol=1e-6)  # 9 outputs fit into 16 beams


def test_free_decoding_counts_invalid_outputs():
    model, X, _, _ = trained("free", epochs=1)
    assert 0.0 < model.metadata()["decoding"]["invalid_share"] <= 1.0  # after one epoch
    beams = model._decoder().generate(*model.input_tokens_(X[:10]))
    assert (model.outputs_.chain.outputs[beams.state[beams.valid]] >= 0).all()
    model.predict(X[:10], 3)


def test_planted_paths_and_brands_are_fitted_saved_and_loaded(tmp_path):
    from labelspace.features.pipeline import FeaturePipeline
    from labelspace.model.tagger import Tagger

    model, X, Y, taxonomy = trained(epochs=12, lr=0.02, width=32)
    ranking = model.predict(X, 4)
    hits = np.take_along_axis(Y.toarray(), np.maximum(ranking.labels, 0), axis=1)
    wanted = np.minimum(np.asarray(Y.sum(axis=1)).ravel(), 4)
    assert (hits.sum(axis=1) / wanted).mean() > 0.95
    Tagger(FeaturePipeline(None, X.shape[1]), model, taxonomy.node_names).save(tmp_path / "m")
    kept = Tagger.load(tmp_path / "m").method.predict(X, 4)
    assert np.array_equal(kept.labels, ranking.labels)
    assert np.array_equal(kept.scores, ranking.scores)
    one = model.predict(X[7], 4)
    assert np.array_equal(one.labels[0], ranking.labels[7])
    assert np.array_equal(one.scores[0], ranking.scores[7])


def test_probabilities_are_normalised_over_the_valid_tokens():
    trie = Trie.build([np.array(s) for s in ([3, END], [4, 5, END], [4, 6, END])])
    vectors, hidden = torch.eye(8), torch.randn(2, 8, generator=torch.Generator().manual_seed(0))
    log_p, rows, columns, edges = next_log_probabilities(hidden, vectors, trie, np.array([0, 2]))
    p = log_p[rows, columns].exp()
    assert trie.tokens[edges].tolist() == [3, 4, 5, 6]
    torch.testing.assert_close(p[:2], torch.softmax(hidden[0, 3:5], 0))
    torch.testing.assert_close(p[2:], torch.softmax(hidden[1, 5:7], 0))


# --- pretrained models ---------------------------------------------------------------------------


def test_a_pretrained_t5_is_loaded_from_a_directory(tmp_path, short):
    texts, Y, taxonomy = catalogue()
    model = short[0]
    model.t5_.save_pretrained(tmp_path)
    tokens = model.text_features().fit(texts)
    tokens._tokenizer.save(str(tmp_path / "tokenizer.json"))
    other = Seq2Seq(**{**TINY, "model": str(tmp_path), "epochs": 1, "lr": 0.0, "decoding": "whole"})
    tokens_of_model = other.text_features()
    X = tokens_of_model.fit_transform(texts)
    assert (tokens.transform(texts) != X).nnz == 0
    names = tokens_of_model.transform_names(written_names(taxonomy))
    other.fit(X, Y, taxonomy=taxonomy, label_names=names)
    for (
        name,
        weights,
    ) in other.t5_.named_parameters():  # lr is 0: the weights are those of the directory
        assert torch.equal(weights, dict(model.t5_.named_parameters())[name])
    with pytest.raises(InputError, match="no T5 model"):
        Seq2Seq(**{**TINY, "model": str(tmp_path / "none")}).fit(X, Y)


def test_weights_are_restored_from_arrays(short):
    arrays = t5_arrays(short[0].t5_)
    again = t5_arrays(restored_t5(arrays))
    assert arrays.keys() == again.keys()
    assert all(np.array_equal(arrays[name], again[name]) for name in arrays)


def test_without_transformers_the_error_names_the_extra(monkeypatch):
    import importlib

    real = importlib.import_module

    def absent(name, *rest):
        if name == "transformers":
            raise ModuleNotFoundError(name="transformers")
        return real(name, *rest)

    monkeypatch.setattr("labelspace.methods.seq2seq.model.import_module", absent)
    with pytest.raises(MissingExtraError, match=r"labelspace\[t5\]"):
        Seq2Seq(**TINY).fit(np.eye(4, dtype=np.float32), csr_matrix(np.eye(4)))


def test_a_bag_of_tokens_has_tf_idf_weights():
    X = csr_matrix(np.array([[3, 5, 3, 0], [5, 9, 0, 0], [5, 0, 0, 0]], np.float32))
    tokens = InputTokens.of(X, None, 10)
    found = BagOfTokens.of(tokens, X)(X).toarray()
    idf = {2: np.log(4 / 2) + 1, 4: np.log(4 / 4) + 1, 8: np.log(4 / 2) + 1}
    expected = np.zeros_like(found)
    expected[0, [2, 4]] = (1 + np.log(2)) * idf[2], idf[4]
    expected[1, [4, 8]] = idf[4], idf[8]
    expected[2, 4] = idf[4]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    # A token that is not in the training data is left out; features that are no tokens stay.
    assert BagOfTokens.of(tokens, X)(csr_matrix(np.array([[50.0, 0, 0, 0]]))).nnz == 0
    plain = csr_matrix(np.array([[0.5, 0, 0.25]], np.float32))
    assert BagOfTokens.of(InputTokens.of(plain, None, 10), plain)(plain) is plain


def test_the_linear_companion_is_better_than_a_t5_after_one_epoch():
    deep, _, _, _ = trained(epochs=1)
    both, _, _, _ = trained(epochs=1, linear_tree=True)
    texts, Y_new, _ = catalogue(seed=1)
    tokens = both.text_features()
    tokens.fit(catalogue()[0])
    X_new = tokens.transform(texts)
    right = [precision_at_1(model, X_new, Y_new) for model in (deep, both)]
    assert right[1] > right[0] + 0.2
    again = restored(both)
    np.testing.assert_array_equal(again.predict(X_new, 5).labels, both.predict(X_new, 5).labels)


def precision_at_1(model, X, Y):
    best = model.predict(X, 1).labels[:, 0]
    return np.asarray(Y[np.arange(len(best)), best]).mean()


def test_a_checkpoint_is_refused_with_other_label_names(tmp_path):
    class Stop(Callback):
        def on_batch(self, run):  # noqa: ARG002
            raise KeyboardInterrupt

    texts, Y, taxonomy = catalogue()
    model = Seq2Seq(**{**TINY, "epochs": 1, "vocabulary": 120})
    tokens = model.text_features()
    X = tokens.fit_transform(texts)
    names = tokens.transform_names(written_names(taxonomy))
    callbacks = [Checkpoint(tmp_path, minutes=0), Stop()]
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y, taxonomy=taxonomy, label_names=names, callbacks=callbacks)
    others = names[::-1]
    with pytest.raises(CheckpointError, match="other data or parameters"):
        model.fit(
            *(X, Y),
            taxonomy=taxonomy,
            label_names=others,
            callbacks=[Checkpoint(tmp_path, resume=True)],
        )


def test_a_model_trained_on_a_gpu_loads_without_one(monkeypatch):
    model, X, *_ = trained(epochs=1)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    loaded = restored(model, device="cuda")
    assert np.array_equal(loaded.predict(X[:3], 2).labels, model.predict(X[:3], 2).labels)


def test_label_names_are_part_of_the_identity():
    texts, Y, taxonomy = catalogue(20)
    model = Seq2Seq(**TINY)
    X = model.text_features().fit_transform(texts)
    names, identities = csr_matrix(np.ones((len(taxonomy), 2), np.float32)), []
    for given in (None, names, 2 * names, names):
        resolved(model, X, Y)
        data = TrainingData(X, Y, None, taxonomy, (), "", given)
        identities.append(model._identity(data))
    assert len(set(identities)) == 3
    assert identities[1] == identities[3]


def test_early_stopping_scores_rows_of_the_whole_hold_out(monkeypatch):
    monkeypatch.setattr("labelspace.methods.seq2seq.method.MAX_SCORED", 3)
    model, X, Y, _ = trained(epochs=1)
    seen = []
    original = Seq2Seq._label_probabilities
    monkeypatch.setattr(
        Seq2Seq, "_label_probabilities", lambda *given: seen.append(given[2]) or original(*given)
    )
    model._score(X, Y, Y)
    last = X.shape[0] - 1
    assert (seen[0] != X[[0, round(last / 2), last]]).nnz == 0


def test_follow_agrees_with_the_edges_of_the_trie():
    trie = Trie.build([np.array([3, 5]), np.array([3, 7, 2]), np.array([4])])
    for state in range(-1, len(trie.starts) - 1):
        for token in range(12):
            edges = [] if state < 0 else range(trie.starts[state], trie.starts[state + 1])
            wanted = next((e + 1 for e in edges if trie.tokens[e] == token), -1)
            assert trie.follow(np.array([state]), np.array([token]))[0] == wanted
