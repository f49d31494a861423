"""The preset `paper`: the values of Zhang et al. 2018, and the computation by its formulas."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.base import clone

from labelspace.components.training_data import Shape
from labelspace.methods.dxml.method import DXML
from labelspace.methods.dxml.update import with_new_labels
from labelspace.metrics.ranking import evaluate
from labelspace.nn.row_rules import MOMENTUM, WEIGHT_DECAY
from labelspace.runs.callbacks import Callback, Checkpoint
from support.fitted import restored
from support.planted import planted

# Table 1 of the paper: training examples, features, labels, labels per example.
SMALL = {"bibtex": (4880, 1836, 159, 2), "mediamill": (30_993, 120, 101, 4)}
LARGE = {"Wiki10-31K": (14_146, 101_938, 30_938, 19), "Amazon-670K": (490_449, 135_909, 670_091, 5)}
QUICK = {"preset": "paper", "walks": 5, "epochs": 3, "validation": 0.0, "dropout": 0.0}


def resolved(points, features, labels, per_point, **params):
    shape = Shape(points, features, labels, 50 * points, per_point * points)
    return SimpleNamespace(
        **DXML.resolve(DXML(**{"preset": "paper", **params}).get_params(), shape)
    )


@pytest.fixture(scope="module")
def data():
    return planted(300, seed=3)


@pytest.mark.parametrize("shape", SMALL.values(), ids=SMALL)
def test_values_on_small_sets(shape):
    found = resolved(*shape)
    assert (found.hidden, found.dim) == ((256,), 100)  # 4.1, network structure, hyper-parameters
    assert found.activation == "relu"  # 4.1, network structure
    assert (found.weight_norm, found.input_bias) == (False, True)  # 4.1: fully connected layers
    assert found.loss == "smooth-l1"  # equation 2
    assert found.reduction == "sum"  # equation 3
    assert found.unit_targets is False  # algorithm 1, step 3
    assert (found.graph, found.graph_weights) == ("cooccurrence", None)  # 3.2
    assert found.keep == 1.0  # 4.1: dropout after the last layer only
    assert found.dropout > 0  # 4.1
    assert (found.optimiser, found.lr) == ("sgd", 0.015)  # 4.1, hyper-parameter setting
    assert found.lazy is False
    assert found.patience is None  # algorithm 1: T epochs
    assert found.neighbours == "auto"  # 4.1: k by cross-validation on a validation set
    assert found.validation > 0
    assert (found.power, found.raw_neighbours) == (0.0, False)  # 3.5: the average of their labels
    assert found.ensemble == 1  # 3.4: a single learner
    assert (found.search, found.probes) == ("clusters", 1)  # algorithm 2, step 2
    assert found.clusters >= 2  # 3.5: several clusters
    assert found.reduced_dim is None


@pytest.mark.parametrize("shape", LARGE.values(), ids=LARGE)
def test_sizes_on_large_sets(shape):
    found = resolved(*shape)
    assert (found.hidden, found.dim) == ((512,), 300)  # 4.1


def test_given_values_have_precedence_and_the_default_is_as_it_was():
    assert resolved(*SMALL["bibtex"], hidden=(64,), dim=7, clusters=9).clusters == 9
    assert resolved(*SMALL["bibtex"], hidden=None).hidden == ()
    default = resolved(*SMALL["bibtex"], preset=None)
    assert (default.hidden, default.dim, default.clusters) == ((), 300, "auto")


def test_momentum_and_weight_decay_are_the_papers():
    assert (MOMENTUM, WEIGHT_DECAY) == (0.9, 0.0005)  # 4.1


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("activation", ["relu", None])
def test_training_is_sgd_on_equation_3_written_in_plain_torch(data, reduction, activation):
    X, Y = data
    labelled = np.flatnonzero(np.diff(Y.indptr))
    X, Y = X[labelled], Y[labelled]
    params = {**QUICK, "batch_size": len(labelled), "reduction": reduction,
              "activation": activation, "hidden": (12,), "dim": 8, "input_spread": 0.3}  # fmt: skip
    start = DXML(**params, lr=0.0).fit(X, Y).state()
    names = ("0.encoder.first", "0.encoder.bias", "0.encoder.0.weight", "0.encoder.0.bias")
    W1, b1, W2, b2 = (torch.tensor(start[name], requires_grad=True) for name in names)
    model = DXML(**params).fit(X, Y)
    V = torch.from_numpy(model.graph_vectors_)
    dense_X, dense_Y = torch.from_numpy(X.toarray()), torch.from_numpy(Y.toarray())
    f_y = dense_Y @ V / dense_Y.sum(1, keepdim=True)
    sgd = torch.optim.SGD([W1, b1, W2, b2], lr=0.015, momentum=0.9, weight_decay=0.0005)
    for _ in range(3):
        h = dense_X @ W1 + b1
        F = (h.clamp(min=0) if activation else h) @ W2 + b2
        difference = (F / F.norm(dim=1, keepdim=True) - f_y).abs()
        h_ab = torch.where(difference <= 1, 0.5 * difference**2, difference - 0.5)
        sgd.zero_grad()
        (h_ab.sum() / (1 if reduction == "sum" else len(labelled))).backward()
        sgd.step()
    found = model.state()
    for name, expected in zip(names, (W1, b1, W2, b2), strict=True):
        moved = np.abs(found[name] - start[name]).max()
        assert moved > 1e-6, name
        np.testing.assert_allclose(found[name], expected.detach(), atol=0.002 * moved, err_msg=name)


def test_points_of_linear_layers_are_a_product_of_matrices(data):
    X, Y = data
    model = DXML(**QUICK, activation=None, hidden=(12,), dim=8).fit(X, Y)
    arrays = model.state()
    one, two = (f"0.encoder.{part}" for part in ("first", "0.weight"))
    z = (X.toarray() @ arrays[one] + arrays["0.encoder.bias"]) @ arrays[two]
    z += arrays["0.encoder.0.bias"]
    expected = z / np.linalg.norm(z, axis=1, keepdims=True)
    np.testing.assert_allclose(model.embed(X), expected, atol=1e-4)
    np.testing.assert_array_equal(restored(model, arrays).embed(X), model.embed(X))


def test_neighbours_in_the_closest_cluster_vote_alike(data):
    X, Y = data
    model = DXML(**QUICK, clusters=5, neighbours=4).fit(X[:200], Y[:200])
    index = model.vote_.indexes[0]
    z, labels = model.embed(X[200:]), model.vote_.Y.toarray()
    assert index.settings == {"clusters": 5, "probes": 1}
    closest = np.argmin(((z[:, None] - index.centres[None]) ** 2).sum(2), axis=1)  # equation 4
    ranking = model.predict(X[200:], 3)
    for row in range(len(z)):
        members = index.members[index.indptr[closest[row]] : index.indptr[closest[row] + 1]]
        near = members[np.argsort(-(index.vectors[members] @ z[row]))[:4]]
        mean = np.sort(labels[near].mean(0))[::-1][:3]
        np.testing.assert_allclose(ranking.scores[row], np.clip(mean, 0, 1 - 1e-4), atol=1e-4)


def test_without_patience_all_epochs_are_run(data):
    same = {"lr": 0.0, "epochs": 14, "hidden": None, "dim": 8, "ensemble": 1}
    assert len(DXML(**same).fit(*data).history_) == 11  # no better epoch after the first
    assert len(DXML(**same, patience=None).fit(*data).history_) == 14


def test_a_model_of_the_preset_is_loaded_and_can_be_updated(data):
    X, Y = data
    quick = {**QUICK, "epochs": 8, "validation": 0.1, "dim": 16, "hidden": (32,)}
    model = DXML(**quick).fit(X[:200], Y[:200])
    loaded = restored(model, model.state())
    np.testing.assert_array_equal(loaded.predict(X, 5).labels, model.predict(X, 5).labels)
    one, other = (each.partial_fit(X[200:], Y[200:]).state() for each in (model, loaded))
    assert all(np.array_equal(one[name], other[name]) for name in one)
    assert evaluate(model.predict(X[200:], 5), Y[200:], bands=False)["P@1"] > 50


def test_new_labels_get_vectors_of_the_usual_length():
    V = np.array([[3, 0], [0, 1]], np.float32)
    Y = np.array([[1, 1, 1], [0, 0, 0]], np.float32)
    added = with_new_labels(V, csr_matrix(Y), np.eye(2, dtype=np.float32), unit=False)[2]
    np.testing.assert_allclose(added, 2 * np.array([3, 1]) / np.sqrt(10), rtol=1e-5)


class StopAfter(Callback):
    """Interrupts after a number of batches."""

    def __init__(self, batches):
        self.left = batches

    def on_batch(self, run):  # noqa: ARG002
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def test_a_resumed_run_has_the_same_bits(data, tmp_path):
    model = DXML(**{**QUICK, "validation": 0.1, "dim": 8, "hidden": (16,)})
    alone = clone(model).fit(*data).state()
    with pytest.raises(KeyboardInterrupt):
        model.fit(*data, callbacks=[Checkpoint(tmp_path), StopAfter(7)])
    resumed = model.fit(*data, callbacks=[Checkpoint(tmp_path, resume=True)]).state()
    assert all(np.array_equal(resumed[name], alone[name]) for name in alone)
