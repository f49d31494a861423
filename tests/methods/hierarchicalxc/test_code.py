"""HierarchicalXC: dense codes as inputs, and calibration of scores."""

from __future__ import annotations

import signal

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace import Tagger
from labelspace._core.sparse import unit_rows
from labelspace.components.training_data import Shape
from labelspace.errors import ParameterError
from labelspace.features.pipeline import FeaturePipeline
from labelspace.methods.hierarchicalxc.method import HierarchicalXC
from labelspace.nn.encoder import unit_array
from labelspace.runs.callbacks import Callback, Checkpoint
from support.planted import planted

OPTIONS = [
    {"inputs": "code", "layers": (12,)},
    {"inputs": "both", "layers": (24, 12), "epochs": 2},
    {"inputs": "code", "layers": (24, 12), "epochs": 2, "node_hidden": 6},
]


def small(**options):
    return HierarchicalXC(fanout=2, leaf_size=3, **options)


def same(one, other):
    return np.array_equal(one.labels, other.labels) and np.array_equal(one.scores, other.scores)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_loaded_models_and_single_rows_rank_the_same(options, tmp_path):
    X, Y = planted()
    model = small(**options).fit(X, Y)
    found = model.predict(X, 4)
    for row in (0, 7, 50):
        assert same(model.predict(X[row], 4), found.take(np.array([row])))
    names = [str(n) for n in range(Y.shape[1])]
    Tagger(FeaturePipeline(None, n_numeric=X.shape[1]), model, names).save(tmp_path / "m")
    loaded = Tagger.load(tmp_path / "m").method
    assert same(loaded.predict(X, 4), found)
    again = small(**options).fit(X, Y).state()
    assert loaded.state().keys() == again.keys()
    assert all(np.array_equal(array, again[name]) for name, array in loaded.state().items())


class StopAfter(Callback):
    def __init__(self, batches):
        self.left = batches

    def on_batch(self, run):  # noqa: ARG002
        self.left -= 1
        if self.left == 0:
            signal.raise_signal(signal.SIGINT)


def test_training_of_the_autoencoder_resumes_to_the_same_bits(tmp_path):
    X, Y = planted()
    options = OPTIONS[1]
    alone = small(**options).fit(X, Y)
    assert len(alone.history_) == 2
    with pytest.raises(KeyboardInterrupt):
        small(**options).fit(X, Y, callbacks=[Checkpoint(tmp_path), StopAfter(3)])
    resumed = small(**options).fit(X, Y, callbacks=[Checkpoint(tmp_path, resume=True)])
    for name, array in alone.state().items():
        assert np.array_equal(array, resumed.state()[name]), name


def test_a_single_layer_spans_the_leading_singular_directions():
    X, Y = planted(300)
    model = small(inputs="code", layers=(5,), validation=0.0).fit(X, Y)
    rows = unit_rows(X).toarray()
    _, _, directions = np.linalg.svd(rows, full_matrices=False)
    expected = unit_array(rows @ directions[:5].T)
    found = model.inputs_(X).toarray()
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=0.02)


def test_both_inputs_are_the_features_followed_by_the_code():
    X, Y = planted()
    both = small(**OPTIONS[1]).fit(X, Y).inputs_(X)
    assert both.shape == (X.shape[0], X.shape[1] + 12)
    np.testing.assert_allclose(both[:, : X.shape[1]].toarray(), unit_rows(X).toarray())
    lengths = np.linalg.norm(both[:, X.shape[1] :].toarray(), axis=1)
    np.testing.assert_allclose(lengths, 1.0, atol=1e-5)


@pytest.mark.parametrize("layers", [(), (1, 4)], ids=str)
def test_layers_that_are_too_narrow_are_refused(layers):
    with pytest.raises(ParameterError, match="layers"):
        small(layers=layers).check_parameters()


def noisy(n, seed):
    """Return data where label j has its own probability given feature j; others are noise."""
    rng = np.random.default_rng(seed)
    chance = np.linspace(0.05, 0.95, 12)
    shown = rng.random((n, 12)) < 0.4
    Y = shown & (rng.random((n, 12)) < chance)
    X = np.hstack([shown, rng.random((n, 300)) < 0.03])
    return csr_matrix(X.astype(np.float32)), csr_matrix(Y.astype(np.float32))


def calibration_error(model, data):
    """Return the mean distance of scores from frequencies over ten bins of equal size."""
    X, Y = data
    found = model.predict(X, 12)
    hits = Y.toarray()[np.arange(X.shape[0])[:, None], found.labels]
    order = np.argsort(found.scores, axis=None)
    pairs = zip(*(np.array_split(a.ravel()[order], 10) for a in (found.scores, hits)), strict=True)
    return np.mean([abs(score.mean() - hit.mean()) for score, hit in pairs])


def test_scores_are_calibrated():
    train, test = noisy(1000, 0), noisy(1500, 1)
    assert calibration_error(small().fit(*train), test) < 0.04
    overconfident = {"C": 1000.0, "ensemble": 1, "loss": "logistic"}  # an average is less confident
    assert calibration_error(small(**overconfident).fit(*train), test) < 0.04
    assert calibration_error(small(**overconfident, validation=0.0).fit(*train), test) > 0.05


def test_calibration_improves_scores_of_the_squared_hinge():
    train, test = noisy(1000, 0), noisy(1500, 1)
    options = {"loss": "squared_hinge", "ensemble": 1, "C": 1000.0}
    plain = calibration_error(small(**options, validation=0.0).fit(*train), test)
    assert calibration_error(small(**options).fit(*train), test) < 0.7 * plain


def test_calibration_keeps_the_ranking():
    train, test = noisy(600, 0), noisy(100, 1)
    plain = small(validation=0.0).fit(*train).predict(test[0], 12)
    found = small().fit(*train).predict(test[0], 12)
    assert np.array_equal(found.labels, plain.labels)
    assert not np.allclose(found.scores, plain.scores, atol=0.01)


def test_valid_is_used_for_calibration_and_nothing_is_held_out():
    train, valid = noisy(600, 0), noisy(400, 1)
    kept = np.random.default_rng(2).random((400, 12)) < 0.1
    thinned = csr_matrix(valid[1].toarray() * kept)
    usual = small().fit(*train, valid=valid)
    thinned_model = small().fit(*train, valid=(valid[0], thinned))
    plain = small(validation=0.0).fit(*train)
    for name, array in plain.state().items():
        assert name == "line" or np.array_equal(array, usual.state()[name])
    X = valid[0]
    assert thinned_model.predict(X, 1).scores.mean() < 0.2
    assert usual.predict(X, 1).scores.mean() > 0.7


@pytest.mark.parametrize(
    ("n", "share", "size"),
    [(1, "auto", 0.1), (100, "auto", 10), (50_000, "auto", 500), (50_000, 0.5, 2000), (80, 0.0, 0)],
)
def test_number_of_held_out_examples(n, share, size):
    params = HierarchicalXC(validation=share).get_params()
    found = HierarchicalXC.resolve(params, Shape(n, 10, 10, 10, 10))
    assert n * found["validation"] == pytest.approx(size)
