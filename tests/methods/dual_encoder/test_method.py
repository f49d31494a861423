"""The dual encoder: its vectors by hand, labels found by meaning, updates, damaged arrays."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace.components.training_data import Shape
from labelspace.errors import ModelFormatError
from labelspace.methods.dual_encoder import DualEncoder
from labelspace.methods.dual_encoder.update import TRAINED

CONCEPTS = 6  # each with a word of the texts and another word of the label texts
PAIRS = [(one, other) for one in range(CONCEPTS) for other in range(one)]
UNSEEN = (PAIRS.index((5, 0)), PAIRS.index((3, 2)))  # labels without examples
SMALL = {
    "dim": 64,
    "epochs": 20,
    "batch_size": 32,
    "lr": 0.02,
    "negatives": "in-batch",
    "patience": None,
}


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def about(pairs, first):
    """Return rows with the words of these pairs of concepts, the words from `first` on."""
    rows = np.zeros((len(pairs), 2 * CONCEPTS), np.float32)
    for row, pair in enumerate(pairs):
        rows[row, [first + concept for concept in pair]] = 1.0
    return rows


TEXTS = about(PAIRS, CONCEPTS)  # no word of a label text occurs in a text
SEEN = [label for label in range(len(PAIRS)) if label not in UNSEEN]


def examples(n=240, seed=0):
    rng = np.random.default_rng(seed)
    own = rng.choice(SEEN, n)
    X = about([PAIRS[label] for label in own], 0) * rng.uniform(0.5, 1.5, (n, 1))
    return X.astype(np.float32), csr_matrix(np.eye(len(PAIRS), dtype=np.float32)[own])


@pytest.fixture(scope="module")
def model():
    return DualEncoder(**SMALL).fit(*examples(), label_texts=TEXTS)


def test_labels_without_examples_are_found_without_a_common_word(model):
    queries = about([PAIRS[label] for label in UNSEEN], 0)
    assert model.predict(queries, 1).labels.ravel().tolist() == list(UNSEEN)
    trained = model.predict(about(PAIRS, 0), 1).labels.ravel()
    assert trained.tolist() == list(range(len(PAIRS)))


def test_scores_are_calibrated_inner_products_of_the_vectors_as_defined(model):
    queries = about([(5, 0), (4, 1), (2, 0)], 0)
    weight, v = model.space_.encoder.input_layer.weight, model.space_.table.weight
    z, u = unit(queries @ weight), unit(unit(TEXTS @ weight) + v)
    assert model.embed(queries) == pytest.approx(z, abs=1e-5)
    assert model.label_vectors_ == pytest.approx(u, abs=1e-5)
    assert np.abs(v[SEEN]).min(axis=1).max() > 0
    assert (v[list(UNSEEN)] == 0).all()
    scores = model.space_.scale.item() * z @ u.T
    ranked = model.predict(queries, 3)
    assert ranked.labels.tolist() == np.argsort(-scores, axis=1)[:, :3].tolist()
    line = model.calibration_
    best = -np.sort(-scores, axis=1)[:, :3]
    expected = 1 / (1 + np.exp(-(line.slope * best + line.offset)))
    assert ranked.scores == pytest.approx(expected, rel=1e-3)


def test_hidden_labels_are_ranked_by_their_texts_alone(model):
    hidden = model.without_examples_of(np.array(SEEN[:2]))
    weight = model.space_.encoder.input_layer.weight
    of_texts = unit(TEXTS @ weight)
    assert hidden.label_vectors_[SEEN[:2]] == pytest.approx(of_texts[SEEN[:2]], abs=1e-5)
    assert np.array_equal(hidden.label_vectors_[SEEN[2:]], model.label_vectors_[SEEN[2:]])
    assert np.abs(model.label_vectors_[SEEN[:2]] - of_texts[SEEN[:2]]).max() > 0.01


def test_labels_without_text_and_examples_are_not_ranked():
    X, Y = examples()
    texts = TEXTS.copy()
    texts[[UNSEEN[0], SEEN[0]]] = 0.0
    model = DualEncoder(**SMALL).fit(X, Y, label_texts=texts)
    ranked = model.predict(X[:5], len(PAIRS)).labels
    assert (ranked != UNSEEN[0]).all()
    assert (ranked[:, -1] == -1).all()
    # A label that has examples and no text has a trained vector.
    assert model.predict(about([PAIRS[SEEN[0]]], 0), 1).labels.tolist() == [[SEEN[0]]]
    empty = model.predict(np.zeros((1, 2 * CONCEPTS)), 2)
    assert empty.labels.tolist() == [[-1, -1]]
    assert empty.scores.tolist() == [[0.0, 0.0]]


def test_updates_give_new_labels_the_mean_of_their_examples():
    X, Y = examples()
    model = DualEncoder(**SMALL).fit(X, Y, label_texts=TEXTS, valid=(X, Y))
    weight = model.space_.encoder.input_layer.weight
    before = np.array(model.space_.table.weight)
    new, n = len(PAIRS), len(PAIRS) + 1
    more = about([(4, 3), (4, 3), (5, 0)], 0)
    own = np.zeros((3, n), np.float32)
    own[[0, 1, 2, 2], [new, new, new, SEEN[0]]] = 1.0
    model.partial_fit(more[:1], own[:1]).partial_fit(more[1:], own[1:])
    v = model.space_.table.weight
    assert v[new] == pytest.approx(unit(more @ weight).mean(axis=0), abs=1e-5)
    assert np.array_equal(v[:new], before)  # a trained vector stays, and so do those of others
    assert model.counts_[new] == 3
    assert (model.counts_[SEEN] == TRAINED).all()
    assert new in model.predict(more[:1], 2).labels[0]


def test_explanations_are_what_the_score_loses(model):
    query = about([(4, 1)], 0)
    label = PAIRS.index((4, 1))
    found = model.explain(query, label, 2)
    less = query.copy()
    less[0, 1] = 0.0
    lost = (model.embed(query) - model.embed(less)) @ model.label_vectors_[label]
    expected = model.space_.scale.item() * lost.item()
    assert dict(found.features)[1] == pytest.approx(expected, rel=1e-3)
    assert len(found.labels) == 2


def test_training_stops_early_and_keeps_the_best_epoch():
    X, Y = examples()
    settings = {**SMALL, "epochs": 30, "patience": 1}
    model = DualEncoder(**settings).fit(X, Y, label_texts=TEXTS)
    scores = [entry["score"] for entry in model.history_]
    assert len(scores) < 30
    assert scores[-1] <= max(scores[:-1])
    plain = DualEncoder(**{**settings, "patience": None, "epochs": 3}).fit(X, Y, label_texts=TEXTS)
    assert [sorted(entry) for entry in plain.history_] == [["epoch", "loss"]] * 3


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("counts", np.full(len(PAIRS), -2)),
        ("counts", np.zeros(2, np.int64)),
        ("labels", np.zeros((len(PAIRS), 3), np.float32)),
        ("scale", np.float32(-1.0).reshape(())),
        ("scale", np.ones(2, np.float32)),
        ("texts.indices", np.full(2 * len(PAIRS), 99, np.int32)),
        ("texts.data", np.full(2 * len(PAIRS), 9.0, np.float32)),
    ],
)
def test_damaged_arrays_are_refused(model, name, array):
    state = model.state()
    assert name in state
    with pytest.raises(ModelFormatError):
        DualEncoder.restored(
            model.to_json(),
            {**state, name: array},
            n_features=2 * CONCEPTS,
            n_labels=len(PAIRS),
        )


@pytest.mark.parametrize(("points", "size"), [(200, 32), (5_000, 64), (32_400, 512), (10**6, 512)])
def test_batches_are_smaller_where_examples_are_few(points, size):
    shape = Shape(points=points, features=50, labels=20, feature_nnz=500, label_nnz=points)
    assert DualEncoder.resolve(DualEncoder().get_params(), shape)["batch_size"] == size
