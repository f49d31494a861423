"""partial_fit: new labels are learned, known labels and their Gram matrix are kept."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace.components.training_counts import TrainingCounts
from labelspace.errors import InputError, NotFittedError
from labelspace.features.pipeline import FeaturePipeline
from labelspace.methods.glas.method import GLaS
from labelspace.metrics.ranking import evaluate
from labelspace.model.tagger import Tagger
from labelspace.search.exact import ExactIndex
from support.fitted import resolved
from support.planted import planted

SMALL = {
    "dim": 24,
    "epochs": 12,
    "batch_size": 32,
    "n_negatives": 6,
    "lr": 0.02,
    "feature_damping": 0.0,
}
N_OLD, N_ALL = 14, 20


class Data:
    """Old examples have known labels alone; most of the new ones, not all, have new labels too."""

    def __init__(self, seed=5):
        X, Y = planted(1200, n_features=80, n_labels=N_ALL + 1, seed=seed)
        Y = csr_matrix(Y[:, :N_ALL])
        only_old = np.asarray(Y[:, N_OLD:].sum(axis=1)).ravel() == 0
        old, new = np.flatnonzero(only_old), np.flatnonzero(~only_old)
        test, later = old[:150], old[150:300]
        self.old = X[old[300:]], csr_matrix(Y[old[300:], :N_OLD])
        self.old_test = X[test], Y[test]
        learned = np.sort(np.concatenate([new[150:], later]))
        self.new = X[learned], Y[learned]
        self.new_test = X[new[:150]], Y[new[:150]]


@pytest.fixture(scope="module")
def data():
    return Data()


@pytest.fixture(scope="module")
def state(data):
    return GLaS(**SMALL).fit(*data.old).state()


def restored(state, **options):
    """Return the old model as it is after a load: its arrays are read-only."""
    model = GLaS(**{**SMALL, **options})
    model.n_features_in_, model.n_labels_ = 80, N_OLD
    resolved(model, *Data().old)
    for array in state.values():
        array.setflags(write=False)
    model.load_state(state)
    return model


def precision(model, X, Y, k=1):
    width = max(model.n_labels_, Y.shape[1])
    wide = csr_matrix((Y.data, Y.indices, Y.indptr), (Y.shape[0], width))
    return evaluate(model.predict(X, 5), wide, ks=(k,), bands=False)[f"P@{k}"]


def recall_of_new(model, X, Y):
    """Return the share of new labels that are among the best five."""
    ranked = model.predict(X, 5).labels
    wanted = Y.tocoo()
    new = wanted.col >= N_OLD
    return np.mean(
        [label in ranked[row] for row, label in zip(wanted.row[new], wanted.col[new], strict=True)]
    )


def test_new_labels_are_found_and_precision_of_known_labels_is_kept(data, state):
    model = restored(state)
    before = precision(model, *data.old_test)
    assert recall_of_new(model, *data.new_test) == 0
    model.partial_fit(*data.new)
    assert model.n_labels_ == N_ALL
    assert model.label_vectors_.shape == (N_ALL, 24)
    assert recall_of_new(model, *data.new_test) > 0.8
    assert precision(model, *data.new_test) > 80
    assert before > 80
    assert precision(model, *data.old_test) > before - 3


def gram_change(before, after):
    """Return the mean squared change of the Gram matrix of known labels."""
    old, new = (V[:N_OLD].astype(np.float64) for V in (before, after))
    return np.square(old @ old.T - new @ new.T).mean()


def test_the_gram_matrix_of_known_labels_is_kept(data, state, monkeypatch):
    kept, free = restored(state), restored(state)
    before = kept.label_vectors_.copy()
    kept.partial_fit(*data.new)
    monkeypatch.setattr("labelspace.methods.glas.update.GRAM_WEIGHT", 0.0)
    free.partial_fit(*data.new)
    assert gram_change(before, kept.label_vectors_) < 0.7 * gram_change(before, free.label_vectors_)
    assert gram_change(before, kept.label_vectors_) > 0


def test_labels_with_many_examples_change_less_than_with_none(data, state, monkeypatch):
    monkeypatch.setattr("labelspace.methods.glas.update.MIN_STEPS", 1)  # before both converge
    one_more = data.new[0][:40], csr_matrix(data.new[1][:40])
    model, fresh = restored(state), restored(state)
    fresh.counts_ = TrainingCounts(
        np.zeros_like(fresh.counts_.features),
        np.zeros_like(fresh.counts_.labels),
        np.zeros_like(fresh.counts_.examples),
    )
    before = model.label_vectors_.copy()
    model.partial_fit(*one_more)
    fresh.partial_fit(*one_more)
    assert gram_change(before, model.label_vectors_) < 0.3 * gram_change(
        before, fresh.label_vectors_
    )


def test_a_loaded_model_is_updated_to_the_same_bits_as_the_one_in_memory(data, tmp_path):
    model = GLaS(**{**SMALL, "epochs": 4}).fit(*data.old)
    names = [f"l{i}" for i in range(N_OLD)]
    Tagger(FeaturePipeline(None, n_numeric=80), model, names).save(tmp_path / "old")
    loaded = Tagger.load(tmp_path / "old").method
    model.partial_fit(*data.new)
    loaded.partial_fit(*data.new)
    one, other = model.state(), loaded.state()
    assert one.keys() == other.keys()
    assert all(np.array_equal(one[name], other[name]) for name in one)


def test_an_updated_model_predicts_the_same_after_save_and_load(data, state, tmp_path):
    model = restored(state).partial_fit(*data.new)
    names = [f"l{i}" for i in range(N_ALL)]
    Tagger(FeaturePipeline(None, n_numeric=80), model, names).save(tmp_path / "new")
    loaded = Tagger.load(tmp_path / "new").method
    one, other = (m.predict(data.new_test[0], 5) for m in (model, loaded))
    assert np.array_equal(one.labels, other.labels)
    assert np.array_equal(one.scores, other.scores)
    assert loaded.n_labels_ == N_ALL


def test_counts_and_stored_examples_add_up(data, state):
    model = restored(state).partial_fit(*data.new)
    X, Y = (data.old[i].shape[0] + data.new[i].shape[0] for i in (0, 1))
    assert model.counts_.examples[0] == X == Y == len(model.blend_.voters)
    labels = np.bincount(data.new[1].indices, minlength=N_ALL)
    labels[:N_OLD] += np.bincount(data.old[1].indices, minlength=N_OLD)
    assert np.array_equal(model.counts_.labels, labels)
    features = sum(np.bincount(part[0].indices, minlength=80) for part in (data.old, data.new))
    assert np.array_equal(model.counts_.features, features)
    new_rows = model.explain(data.new[0][3], 0, k=1).examples
    assert new_rows[0][0] == data.old[0].shape[0] + 3


def test_nearest_labels_are_those_after_the_update(data, state):
    model = restored(state)
    example = data.new[0][0]
    model.explain(example, 0)
    model.partial_fit(*data.new)
    V = model.label_vectors_
    for label in (0, N_ALL - 1):
        found = model.explain(example, label, k=3).labels
        cosines = V @ V[label]
        cosines[label] = -1
        assert [other for other, _ in found] == np.argsort(-cosines)[:3].tolist()
        np.testing.assert_allclose([c for _, c in found], np.sort(cosines)[:-4:-1], atol=1e-5)


def test_two_updates_in_sequence(data, state):
    X, Y = data.new
    half = X.shape[0] // 2
    model = restored(state).partial_fit(X[:half], Y[:half]).partial_fit(X[half:], Y[half:])
    assert recall_of_new(model, *data.new_test) > 0.8
    assert model.counts_.examples[0] == data.old[0].shape[0] + X.shape[0]


@pytest.mark.parametrize(
    "options",
    [
        {"prior": False},
        {"hidden": (32,), "epochs": 12},
        {"neighbours": 0},
        {"negatives": "hard"},
        {"negatives": "all"},
        {"negatives": "in-batch"},
        {"loss": "softmax"},
        {"unit_labels": False, "unit_inputs": False, "scale": 4.0},
        {"regulariser": None},
        {"validation": 0.0},
    ],
    ids=str,
)
def test_every_option_can_be_updated(data, options):
    model = GLaS(**{**SMALL, "epochs": 6, **options}).fit(*data.old).partial_fit(*data.new)
    assert recall_of_new(model, *data.new_test) > 0.6


def test_an_update_by_one_example_of_one_new_label(data, state):
    X, _ = data.new
    Y = csr_matrix(([1.0], ([0], [N_OLD])), shape=(1, N_OLD + 1), dtype=np.float32)
    for negatives in ("in-batch", "uniform"):  # in the first, no known label is in the batch
        model = restored(state, negatives=negatives)
        before = precision(model, *data.old_test)
        model.partial_fit(X[:1], Y)
        assert N_OLD in model.predict(X[:1], 3).labels[0]
        assert precision(model, *data.old_test) > before - 3.0
        assert np.isfinite(model.label_vectors_).all()


def test_new_labels_without_examples_cost_little_precision(data, state):
    X, Y = data.old
    model = restored(state)
    before = precision(model, *data.old_test)
    wide = csr_matrix((Y.data, Y.indices, Y.indptr), (Y.shape[0], N_ALL))
    model.partial_fit(X[:50], wide[:50])
    assert precision(model, *data.old_test) > before - 5


def test_data_of_the_wrong_shape_raise_input_errors(data, state):
    X, Y = data.old
    model = restored(state)
    with pytest.raises(InputError, match="a column for every label"):
        model.partial_fit(X, Y[:, :-1])
    with pytest.raises(InputError, match="fitted on 80"):
        model.partial_fit(X[:, :-1], Y)
    with pytest.raises(NotFittedError):
        GLaS().partial_fit(X, Y)
    assert model.partial_fit(X[:0], Y[:0]).n_labels_ == N_OLD


def test_training_counts_of_no_examples_and_of_a_label_in_all():
    empty = TrainingCounts.of(csr_matrix((0, 3)), csr_matrix((0, 2)))
    X, Y = csr_matrix(np.eye(3)), csr_matrix(np.array([[1, 1, 0], [0, 1, 0], [0, 1, 1]]))
    both = empty.plus(X, Y)
    assert both.features.tolist() == [1, 1, 1]
    assert both.labels.tolist() == [1, 3, 1]
    assert both.examples.tolist() == [3]
    odds = both.log_odds()
    assert np.isfinite(odds).all()
    np.testing.assert_allclose(odds[0], np.log(1.5 / 2.5), rtol=1e-6)


def drawn_from_many_labels(n, seed, n_labels=8000, n_features=600):
    """Return examples with one label each, in a long-tailed distribution, and own features."""
    rng = np.random.default_rng(seed)
    own = np.random.default_rng(7).integers(0, n_features, (n_labels, 6))
    labels = np.minimum((rng.pareto(0.8, n) * 40).astype(int), n_labels - 1)
    columns = np.hstack([own[labels], rng.integers(0, n_features, (n, 6))])
    rows = np.repeat(np.arange(n), 12)
    X = csr_matrix((np.ones(12 * n, np.float32), (rows, columns.ravel())), (n, n_features))
    Y = csr_matrix((np.ones(n, np.float32), labels, np.arange(n + 1)), (n, n_labels))
    return X, Y


def test_recall_after_a_small_update_is_as_reported():
    params = {"dim": 256, "epochs": 1, "batch_size": 256, "lr": 0.02}
    model = GLaS(**params).fit(*drawn_from_many_labels(1500, 0))
    assert model.blend_.index.kind == "projected"
    before = model.blend_.index.settings
    model.partial_fit(*drawn_from_many_labels(1, 1))
    index = model.blend_.index
    assert all(index.settings[name] >= before[name] for name in before)
    queries = model.space_.queries(drawn_from_many_labels(400, 2)[0])
    wanted = ExactIndex(index.vectors).search(queries, 5)[1][:, -1:]
    found = (index.search(queries, 5)[1] >= wanted).mean()
    assert found > 0.93
    assert index.recall == pytest.approx(found, abs=0.03)
