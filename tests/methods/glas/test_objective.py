"""Hard negatives in GLaS's objective."""

from __future__ import annotations

import signal

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from labelspace.methods.glas.method import GLaS
from labelspace.methods.glas.objective import HARD, BatchObjective
from labelspace.runs.callbacks import Callback, Checkpoint
from support.planted import planted

SMALL = {
    "dim": 16,
    "epochs": 3,
    "batch_size": 32,
    "n_negatives": 4,
    "lr": 0.02,
    "feature_damping": 0.0,
}


@pytest.fixture(scope="module")
def data():
    return planted(200, n_features=60, n_labels=40, seed=6)


class Watch(Callback):
    """Keeps the objective, and after each epoch its hard labels and the logits they come from."""

    def __init__(self, model):
        self.model = model
        self.seen = []

    def on_start(self, run):
        self.objective = run.task.loss
        assert (self.objective.hard == -1).all()

    def on_epoch(self, run):  # noqa: ARG002
        objective = self.objective
        logits = self.model.space_.queries(objective.X) @ self.model.space_.search_vectors().T
        self.seen.append((objective.hard.numpy().copy(), logits))


def test_hard_negatives_are_the_highest_scoring_wrong_labels_after_each_epoch(data):
    model = GLaS(**SMALL, negatives="hard", validation=0.0)
    watch = Watch(model)
    model.fit(*data, callbacks=[watch])
    Y = watch.objective.Y.toarray() > 0
    assert len(watch.seen) == 3
    for hard, logits in watch.seen:
        best = np.argsort(-logits, axis=1)[:, :HARD]
        for row in range(len(hard)):
            wrong = [label for label in best[row] if not Y[row, label]]
            assert sorted(hard[row][hard[row] >= 0]) == sorted(wrong)
            assert (hard[row] == -1).sum() == HARD - len(wrong)
    assert not np.array_equal(watch.seen[0][0], watch.seen[2][0])


def test_fewer_labels_than_hard_negatives_are_padded(data):
    X, _ = data
    _, Y = planted(200, n_labels=5, seed=6)
    model = GLaS(**SMALL, negatives="hard")
    watch = Watch(model)
    model.fit(X, Y, callbacks=[watch])
    assert (watch.objective.hard.numpy()[:, 5:] == -1).all()


class StopAfter(Callback):
    def __init__(self, batches):
        self.left = batches

    def on_batch(self, run):  # noqa: ARG002
        self.left -= 1
        if self.left == 0:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("batches", [1, 7, 10, 14])  # 7 batches per epoch
def test_a_run_with_hard_negatives_resumes_to_the_same_bits(data, tmp_path, batches):
    options = {**SMALL, "negatives": "hard"}
    alone = GLaS(**options).fit(*data).state()
    with pytest.raises(KeyboardInterrupt):
        GLaS(**options).fit(*data, callbacks=[Checkpoint(tmp_path), StopAfter(batches)])
    resumed = GLaS(**options).fit(*data, callbacks=[Checkpoint(tmp_path, resume=True)]).state()
    assert alone.keys() == resumed.keys()
    assert all(np.array_equal(alone[name], resumed[name]) for name in alone)


def test_hard_negatives_are_among_the_candidates(data):
    X, Y = data
    model = GLaS(**{**SMALL, "epochs": 1}, negatives="hard").fit(X, Y)
    objective = BatchObjective(model.space_, model.params_, X, Y)
    objective.on_epoch(None)
    drawn = objective.hard.numpy()[:5]
    rng = np.random.default_rng(0)
    candidates = objective.sampler.draw(Y[:5], rng, drawn)
    assert np.isin(drawn[drawn >= 0], candidates.labels).all()
    assert np.isin(Y[:5].indices, candidates.labels).all()
    assert (candidates.inclusion[np.isin(candidates.labels, drawn)] == 1).all()


def test_examples_without_labels_have_all_hard_negatives(data):
    X, Y = data
    bare = csr_matrix(Y.shape, dtype=np.float32)
    model = GLaS(**{**SMALL, "epochs": 1}, negatives="hard").fit(X, Y)
    objective = BatchObjective(model.space_, model.params_, X, bare)
    objective.on_epoch(None)
    assert (objective.hard.numpy() >= 0).all()
