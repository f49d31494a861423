"""Explanations compared with their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace.errors import InputError, NotFittedError, UnsupportedError
from labelspace.methods.fusion.method import Fusion
from labelspace.methods.glas.method import GLaS
from labelspace.methods.knn import KNN
from labelspace.methods.linear import Linear
from support.planted import planted

SMALL = {
    "dim": 16,
    "epochs": 6,
    "batch_size": 32,
    "n_negatives": 4,
    "lr": 0.02,
    "feature_damping": 0.0,
}


@pytest.fixture(scope="module")
def data():
    return planted(300, seed=4)


@pytest.fixture(scope="module")
def model(data):
    return GLaS(**SMALL).fit(*data)


def score(model, x, label):
    """h(x)_l of one dense example, from the weights, for a linear encoder."""
    z = x.astype(np.float64) @ model.space_.encoder.input_layer.weight
    v = model.space_.trained_vectors()[label].astype(np.float64)
    cosine = z @ v / (np.linalg.norm(z) * np.linalg.norm(v))
    return model.space_.scale.item() * cosine + model.space_.bias[label].item()


def test_the_weight_of_a_feature_is_the_score_minus_that_without_it(model, data):
    X, _ = data
    for row, label in ((0, 3), (7, 0), (20, 10)):
        found = model.explain(X[row], label, k=100).features
        x = X[row].toarray()[0]
        assert {feature for feature, _ in found} == set(X[row].indices)
        for feature, change in found:
            without = x.copy()
            without[feature] = 0
            expected = score(model, x, label) - score(model, without, label)
            assert change == pytest.approx(expected, abs=1e-4)
        sizes = [abs(change) for _, change in found]
        assert sizes == sorted(sizes, reverse=True)
        assert model.explain(X[row], label, k=2).features == found[:2]


def test_features_correlated_with_a_label_have_the_largest_effect(model, data):
    X, Y = data
    excess = np.asarray((X.T @ Y) / np.maximum(Y.sum(axis=0), 1) - X.mean(axis=0).T)
    right = 0
    for row in range(60):
        label = Y[row].indices[0]
        feature, change = model.explain(X[row], label, k=1).features[0]
        right += change > 0 and excess[feature, label] > 0.1
    assert right > 40  # sometimes a feature of another label lowers the score more


def test_similar_labels_equal_those_of_brute_force(model):
    V = model.label_vectors_.astype(np.float64)
    cosines = V @ V.T
    np.fill_diagonal(cosines, -2)
    for label in range(model.n_labels_):
        found = model.explain(csr_matrix((1, 40), dtype=np.float32), label, k=4).labels
        assert [other for other, _ in found] == np.argsort(-cosines[label])[:4].tolist()
        np.testing.assert_allclose(
            [cosine for _, cosine in found], np.sort(cosines[label])[::-1][:4], atol=1e-5
        )


def test_examples_are_rows_of_the_training_data_with_their_labels(model, data):
    X, Y = data
    for row in (0, 5, 77, 299):
        label = int(Y[row].indices[0])
        found = model.explain(X[row], label, k=6)
        rows = [other for other, _ in found.examples]
        assert rows[0] == row or np.allclose(model.embed(X[rows[0]]), model.embed(X[row]), atol=0.1)
        assert found.labelled == [Y[other].indices.tolist() for other in rows]
        assert any(
            other == row and label in labels
            for other, labels in zip(rows, found.labelled, strict=True)
        )
        cosines = (model.embed(X) @ model.embed(X[row])[0]).astype(np.float64)
        np.testing.assert_allclose(
            [cosine for _, cosine in found.examples], cosines[rows], atol=0.03
        )


def test_without_neighbours_there_are_no_examples(data):
    X, Y = data
    found = GLaS(**{**SMALL, "epochs": 1}, neighbours=0).fit(X, Y).explain(X[0], 2)
    assert found.examples == found.labelled == []
    assert len(found.labels) == 5


def test_models_with_hidden_layers_are_explained(data):
    X, Y = data
    model = GLaS(**{**SMALL, "epochs": 2}, hidden=(24,)).fit(X, Y)
    feature, change = model.explain(X[1], 4, k=1).features[0]
    without = X[1].toarray()
    without[0, feature] = 0
    queries = model.space_.queries(csr_matrix(np.vstack([X[1].toarray(), without])))
    logits = queries @ model.space_.search_vectors()[4]
    assert change == pytest.approx(float(logits[0] - logits[1]), abs=1e-5)


def test_invalid_examples_and_labels_are_refused(model, data):
    X, _ = data
    empty = model.explain(csr_matrix((1, 40), dtype=np.float32), 0)
    assert empty.features == []
    assert empty.examples == []
    with pytest.raises(InputError, match="one example"):
        model.explain(X[:2], 0)
    for label in (-1, 12):
        with pytest.raises(InputError, match="labels 0 to 11"):
            model.explain(X[0], label)
    with pytest.raises(InputError, match="fitted on"):
        model.explain(X[0, :-1], 0)
    with pytest.raises(NotFittedError):
        GLaS().explain(X[0], 0)


def test_linear_explanations_follow_from_the_weights(data):
    X, Y = data
    model = Linear().fit(X, Y)
    weights = model.ranker_.weights.toarray()
    row, label = 5, int(Y[5].indices[0])
    x = X[row].toarray()[0]

    def raw(x):
        return weights[label, :-1] @ x / np.linalg.norm(x) + weights[label, -1]

    found = model.explain(X[row], label, k=100)
    assert {feature for feature, _ in found.features} == set(X[row].indices)
    for feature, change in found.features:
        without = x.copy()
        without[feature] = 0
        assert change == pytest.approx(raw(x) - raw(without), abs=1e-4)
    lengths = np.maximum(np.linalg.norm(weights[:, :-1], axis=1), 1e-12)
    cosines = weights[:, :-1] @ weights[label, :-1] / (lengths * lengths[label])
    cosines[label] = 0
    assert found.labels[0][1] == pytest.approx(cosines.max(), abs=1e-4)
    assert all(cosine == pytest.approx(cosines[other], abs=1e-4) for other, cosine in found.labels)


def test_the_weight_of_a_feature_of_a_fusion_is_a_difference_in_log_odds(data):
    X, Y = data
    model = Fusion(members="linear,knn").fit(X, Y)
    label = int(model.predict(X[3], 1).labels[0, 0])

    def odds(x):
        ranked = model.predict(x, 50)
        p = min(float(ranked.scores[ranked.labels == label].sum()), 1 - 1e-7)
        return np.log(p / (1 - p)) if p > 0 else None

    found = model.explain(X[3], label, k=3)
    assert len(found.features) == 3
    assert found.labels == model.members_[0].explain(X[3], label, k=3).labels
    for feature, change in found.features:
        without = X[3].copy()
        without.data[without.indices == feature] = 0
        if odds(without) is not None:
            assert change == pytest.approx(odds(X[3]) - odds(without), abs=0.01)
    with pytest.raises(InputError, match="pass one example"):
        model.explain(X[:2], label)


def test_a_label_that_is_no_candidate_without_a_feature_has_the_score_of_the_last_candidate():
    labels = np.tile(
        np.arange(60), 5
    )  # each has one feature of its own, and three that all labels share
    Y = csr_matrix(np.eye(60, dtype=np.float32)[labels])
    shared = np.random.default_rng(0).random((300, 3), dtype=np.float32)
    X = csr_matrix(np.hstack([Y.toarray(), shared]))
    model = Fusion(members="linear,knn", shortlist=5).fit(X, Y)
    unlisted = 0
    for row in range(20):
        label = int(model.predict(X[row], 1).labels[0, 0])
        for feature, change in model.explain(X[row], label, k=50).features:
            without = X[row].copy()
            without.data[without.indices == feature] = 0
            before, after = model.predict(X[row], 10), model.predict(without, 10)
            if label in after.labels or not (after.labels >= 0).any():
                continue
            unlisted += 1
            ends = before.scores[0, 0], after.scores[after.labels >= 0].min()
            full, left = (np.log(p / (1 - p)) for p in np.clip(ends, 1e-7, 1 - 1e-7))
            assert change == pytest.approx(full - left, abs=0.02)
    assert unlisted


def test_only_methods_that_compare_labels_have_similar_labels(data):
    X, Y = data
    assert Linear().fit(X, Y).similar_labels(2, 3) == Linear().fit(X, Y).explain(X[0], 2, 3).labels
    knn = KNN().fit(X, Y)
    with pytest.raises(UnsupportedError, match="knn cannot compare labels"):
        knn.similar_labels(2, 3)
    # By the sums of the labels' examples, where no member compares labels.
    assert len(Fusion(members="knn").fit(X, Y).explain(X[0], 2, 3).labels) == 3
    assert Fusion(members="most-common").fit(X, Y).explain(X[0], 2).labels == []
